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
    """

    name: str
    about: str
    path: str
    before: str
    after: str
    kind: str = ""

    def plant(self, root: Path) -> None:
        """Put it into a copy of the tree.

        :raises ValueError: the code is another one now.
        """
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: what it replaces stands {text.count(self.before)} times in {self.path}")
        file.write_text(text.replace(self.before, self.after), encoding="utf-8")
