"""What was found of each mutant, in a file that runs add to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .changes import Mutant
from .server import ENDLESS, KILLED, NO_TEST, SURVIVED

EQUAL = Path(__file__).with_name("equal.txt")
"""Mutants that are the same program: a line with the mutant's key, and below it, indented, why."""


def digest(files: Iterable[Path]) -> str:
    """Of what stands in them."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def read_equal(path: Path = EQUAL) -> dict[str, str]:
    """Key -> the reason."""
    reasons: dict[str, str] = {}
    key = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            reasons[key] = f"{reasons[key]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            key = line
            if key in reasons:
                raise ValueError(f"{path.name} has this twice: {key}")
            reasons[key] = ""
    return reasons


class Results:
    """One line of JSON for each trial; the last one of a mutant counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {}
        self.read()

    def read(self) -> None:
        """Read what other processes have added, too."""
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # cut off when it was written
                self._rows[row["key"]] = row

    def outcome(self, key: str, code: str, tests: str | None = None) -> str | None:
        """What was found with this file as it is; None: nothing.

        :param tests: digest of the tests: with others, what none of them has noticed is to be tried again.
        """
        row = self._rows.get(key)
        if row is None or row["code"] != code:
            return None
        if row["outcome"] in (SURVIVED, NO_TEST) and tests not in (None, row["checked"]):
            return None
        return str(row["outcome"])

    def add(self, key: str, outcome: str, code: str, tests: str, seconds: float) -> None:
        """One write, so that several processes can."""
        row = {"key": key, "outcome": outcome, "code": code, "checked": tests, "seconds": round(seconds, 2)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


class Tally(NamedTuple):
    """A file's mutants."""

    path: str
    killed: int
    endless: int
    equal: int
    untried: int
    survivors: list[tuple[Mutant, str]]

    @property
    def judged(self) -> int:
        """Those that were tried, and are not the same program."""
        return self.killed + self.endless + len(self.survivors)

    @property
    def percent(self) -> float:
        """Of these, how many were killed."""
        return 100 * (self.killed + self.endless) / self.judged if self.judged else 100.0


def tally(path: str, planned: Iterable[Mutant], results: Results, code: str, equal: dict[str, str]) -> Tally:
    """What was found of a file's mutants."""
    counts = dict.fromkeys((KILLED, ENDLESS, "equal", None), 0)
    survivors = []
    for mutant in planned:
        outcome = results.outcome(mutant.key, code)
        if outcome in (SURVIVED, NO_TEST):
            if mutant.key in equal:
                outcome = "equal"
            else:
                survivors.append((mutant, outcome))
                continue
        counts[outcome] += 1
    return Tally(path, counts[KILLED], counts[ENDLESS], counts["equal"], counts[None], survivors)
