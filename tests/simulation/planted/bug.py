"""What is planted."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Bug:
    """A bug.

    :ivar path: of the file, below the root.
    :ivar before, after: what is replaced; it stands there exactly once.
    :ivar about: which hole of the design it opens again, or what it forgets.
    :ivar kind: of the worlds in which it is looked for (:data:`tests.simulation.run.TASKS` …).
    :ivar also: what else has to go: path, before and after of a second line of defence.
    """

    name: str
    about: str
    path: str
    before: str
    after: str
    kind: str = ""
    also: tuple[str, str, str] | None = None

    def plant(self, root: Path) -> None:
        """Put it into a copy of the tree.

        :raises ValueError: the code is another one now.
        """
        for path, before, after in self.changes:
            file = root / path
            text = file.read_text(encoding="utf-8")
            if text.count(before) != 1:
                raise ValueError(f"{self.name}: what it replaces stands {text.count(before)} times in {path}")
            file.write_text(text.replace(before, after), encoding="utf-8")

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Path, before and after of each."""
        return [(self.path, self.before, self.after), *([] if self.also is None else [self.also])]
