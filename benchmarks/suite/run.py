"""Running the steps of a plan, and the table of what they found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common import scratch, table
from rows import HEADS, loaded

from suite.plan import Step
from suite.results import BENCHMARKS, Result, Results

STEP_SECONDS_MAX = 3 * 3600


class Suite:
    """A plan and what is done of it.

    :param quick: with the small sizes of ``make bench-quick``.
    :param runs: of each benchmark, when it is not quick.
    :param versions: of what is measured and what it is measured with, by name; ``commit`` is one of them.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        results: Results,
        quick: bool,
        runs: int,
        versions: Mapping[str, str],
        benchmarks: Path = BENCHMARKS,
    ) -> None:
        self._steps = steps
        self._results = results
        self._quick = quick
        self._runs = runs
        self._versions = dict(versions)
        self._benchmarks = benchmarks

    def run(self, wanted: Sequence[str], fresh: bool = False) -> list[str]:
        """Run the steps whose names contain one of these words and that are not done yet.

        :returns: the names of those that failed.
        """
        failed = []
        for step in self._steps:
            if not any(word in step.name for word in wanted):
                continue
            if not fresh and self._done(step) is not None:
                print(f"{step.name}: done before", file=sys.stderr)
                continue
            try:
                self._results.keep(step, self._measured(step))
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                print(f"{step.name}: {error}", file=sys.stderr)
                failed.append(step.name)
        return failed

    def report(self) -> str:
        """The table of what is done, as Markdown; what is not done has a row that says so."""
        lines: list[list[str]] = []
        about: list[str] = []
        for step in self._steps:
            result = self._done(step)
            if result is None:
                lines += [[name, "not measured", *[""] * (len(HEADS) - 2)] for name in step.rows]
                continue
            lines += [row.cells() for row in result.rows]
            others = "".join(f", {name} {value}" for name, value in self._others(result))
            about.append(f"{step.name} {result.seconds:.0f} s, load {result.load:.1f}, {result.commit}{others}")
        title = "Quick figures: small sizes and few runs, only good for a look. " if self._quick else ""
        measured = "; ".join(f"{name} {value}" for name, value in self._versions.items())
        return (
            f"{title}Medians, in parentheses the smallest and largest; peaks are the largest.  "
            f"Measured with: {measured}.\n\n"
            f"{table(HEADS, lines)}\n\n"
            "How long each took, the load of the machine in the minute before, the commit, and versions that are not "
            f"those above: {'; '.join(about)}.\n"
        )

    def _others(self, result: Result) -> list[tuple[str, str]]:
        """Names and versions that are not those of now; a commit alone is no other code."""
        found = result.versions.items() - self._versions.items()
        return sorted((name, value) for name, value in found if name != "commit")

    def _arguments(self, step: Step) -> list[str]:
        runs = step.quick_runs if self._quick else self._runs
        return [*(step.quick if self._quick else step.full).split(), "--runs", str(runs)]

    def _done(self, step: Step) -> Result | None:
        if not (self._benchmarks / f"{step.script}.py").exists():
            return None
        return self._results.find(step, self._results.mark(step, self._arguments(step)))

    def _measured(self, step: Step) -> Result:
        """Run the benchmark.

        :raises ValueError: it did not give the rows that the plan names, or its code changed meanwhile.
        """
        arguments = self._arguments(step)
        script = self._benchmarks / f"{step.script}.py"
        mark = self._results.mark(step, arguments)
        load = os.getloadavg()[0]
        begun = time.monotonic()
        print(f"{step.name}: {script.name} {' '.join(arguments)} …", file=sys.stderr)
        with scratch() as folder:
            kept = folder / "rows.json"
            command = [sys.executable, str(script), *arguments, "--json", str(kept)]
            subprocess.run(command, check=True, stdout=sys.stderr, timeout=STEP_SECONDS_MAX)
            rows = loaded(kept.read_text())
        missing = set(step.rows) - {row.name for row in rows}
        if missing:
            raise ValueError(f"gave no row {', '.join(sorted(missing))}")
        if self._results.mark(step, arguments) != mark:
            raise ValueError("the code changed while it ran: the result does not count")
        return Result(mark, self._versions["commit"], time.monotonic() - begun, load, self._versions, rows)
