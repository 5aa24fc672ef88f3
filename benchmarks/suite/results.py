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


def code_mark(root: Path = BENCHMARKS.parent) -> str:
    """A mark of the code that is measured: the same as long as no file of it changes."""
    found = hashlib.sha256()
    for folder in MEASURED:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".sql"):
                found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]


@attrs.frozen
class Result:
    """A step that is done.

    :ivar mark: of the code and of the benchmark with its arguments.
    :ivar commit: where it was measured.
    :ivar seconds: it took so long.
    :ivar load: processes that wanted the processors in the minute before it: more than a few tenths are of others.
    """

    mark: str
    commit: str
    seconds: float
    load: float
    rows: list[Row]


class Results:
    """A folder with a file for each step."""

    def __init__(self, folder: Path, benchmarks: Path = BENCHMARKS, code: str | None = None) -> None:
        self._folder = folder
        self._benchmarks = benchmarks
        self._code = code_mark() if code is None else code
        folder.mkdir(parents=True, exist_ok=True)

    def mark(self, step: Step, arguments: list[str]) -> str:
        """What a result must have been measured with to count."""
        script = (self._benchmarks / f"{step.script}.py").read_bytes()
        return hashlib.sha256(repr((self._code, arguments)).encode() + script).hexdigest()[:16]

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
