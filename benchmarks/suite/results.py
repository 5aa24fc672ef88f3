"""What is kept of each step, so that what is done is not done again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import attrs
from rows import Row, dumped, loaded

from suite.plan import Step

BENCHMARKS = Path(__file__).parent.parent
MEASURED = ("lcc", "twisted")
MEASURING = ("*.py", "growth/simulation.py", "growth/world.py")
"""What the steps run and import, in the folder of the benchmarks."""


def code_mark(root: Path = BENCHMARKS.parent, benchmarks: Path = BENCHMARKS) -> str:
    """A mark of the code that is measured, and of that which measures: the same as long as no file of it changes."""
    measured = [path for name in MEASURED for path in (root / name).rglob("*") if path.suffix in (".py", ".sql")]
    measuring = [path for pattern in MEASURING for path in benchmarks.glob(pattern)]
    found = hashlib.sha256()
    for folder, paths in ((root, measured), (benchmarks, measuring)):
        for path in sorted(paths):
            content = path.read_bytes()
            found.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


@attrs.frozen
class Result:
    """A step that is done.

    :ivar mark: of the code and of the benchmark with its arguments.
    :ivar commit: where it was measured.
    :ivar seconds: it took so long.
    :ivar load: processes that wanted the processors in the minute before it: more than a few tenths are of others.
    :ivar versions: of what it was measured with, by name.
    """

    mark: str
    commit: str
    seconds: float
    load: float
    versions: dict[str, str]
    rows: list[Row]


class Results:
    """A folder with a file for each step.

    :param root: of the code that is measured.
    """

    def __init__(self, folder: Path, benchmarks: Path = BENCHMARKS, root: Path = BENCHMARKS.parent) -> None:
        self._folder = folder
        self._benchmarks = benchmarks
        self._root = root
        folder.mkdir(parents=True, exist_ok=True)

    def mark(self, step: Step, arguments: list[str]) -> str:
        """What a result must have been measured with to count; of the code as it is now."""
        parts = (code_mark(self._root, self._benchmarks), step.script, arguments)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def find(self, step: Step, mark: str) -> Result | None:
        """The result of a step, if it was measured with this mark."""
        path = self._path(step)
        if not path.exists():
            return None
        fields: dict[str, Any] = json.loads(path.read_text())
        if fields["mark"] != mark:
            return None
        return Result(**fields | {"rows": loaded(json.dumps(fields))})

    def keep(self, step: Step, result: Result) -> None:
        """Instead of what was there."""
        path = self._path(step)
        part = path.with_suffix(".part")
        fields = attrs.asdict(result, recurse=False) | json.loads(dumped(result.rows))
        part.write_text(json.dumps(fields, indent=1))
        part.replace(path)

    def _path(self, step: Step) -> Path:
        return self._folder / (step.name.replace(", ", "-").replace(" ", "-") + ".json")
