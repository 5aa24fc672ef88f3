"""Results of many runs, added up in a file, so that they can be stopped and gone on with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .run import Result


class Results:
    """One line of JSON for each run.

    :param code: names the code that was run: results of other code are passed over.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path = path
        self._code = code
        self.rows: dict[str, dict[str, Any]] = {}
        self._runs: Counter[str] = Counter()
        for row in self._read():
            if row["code"] == code:
                self._keep(row)

    def _read(self) -> Iterator[dict[str, Any]]:
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    pass  # cut off when it was written

    def _keep(self, row: dict[str, Any]) -> None:
        """Of a seed that was run twice, the run that broke a promise counts."""
        seed = row["seed"]
        self._runs[seed] += 1
        if seed not in self.rows or row["violations"]:
            self.rows[seed] = row

    def runs(self, seed: str) -> int:
        """How often a seed was run."""
        return self._runs[seed]

    def add(self, result: Result) -> None:
        """Keep a result."""
        row = {
            "code": self._code,
            "seed": result.seed,
            "digest": result.digest,
            "events": result.events,
            "seconds": round(result.seconds, 1),
            "violations": result.violations,
            "counts": result.counts,
        }
        self._keep(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def table(self) -> list[tuple[str, int]]:
        """Everything that was counted, added up."""
        total: Counter[str] = Counter()
        for row in self.rows.values():
            total["seeds"] += 1
            total["seeds with violations"] += bool(row["violations"])
            total["events"] += row["events"]
            total["simulated hours"] += row["seconds"]
            total["seeds run twice"] += self._runs[row["seed"]] > 1
            total.update(row["counts"])
        total["simulated hours"] = round(total["simulated hours"] / 3600)
        first = ["seeds", "seeds with violations", "seeds run twice", "events", "simulated hours"]
        return [(name, total[name]) for name in first] + sorted(
            (name, count) for name, count in total.items() if name not in first
        )
