"""The results of all runs so far: a file of JSON lines, one for each run, and the table that is made of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

ADDED = (
    "sets",
    "accepted",
    "rejected",
    "unknown",
    "unsent",
    "elements",
    "requests",
    "requests_in_hours",
    "requests_in_bandwidth",
    "requests_in_interval",
    "errors",
    "damaged",
    "users_killed",
    "clusters_recovered",
    "nodes_given_up",
    "pushes",
    "pushes_accepted",
    "polls",
    "pages",
    "newcomers",
    "deliveries",
)
SECONDS_AN_HOUR = 3600


class Results:
    """What :mod:`run` has reported.

    :ivar runs: all of it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[dict[str, Any]] = []
        if path.exists():
            self.runs = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, result: dict[str, Any]) -> None:
        """One more run; it is on disk when this returns."""
        self.runs.append(result)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def kills(self, backend: str | None = None, *, slow_central: bool = False) -> int:
        """All kills; or only those on one database, or of runs whose queue manager was far from the central BOT-M."""
        return sum(
            sum(run["kills"].values())
            for run in self.runs
            if backend in (None, run["backend"]) and (not slow_central or _is_slow(run))
        )

    def count(self, backend: str) -> int:
        """Runs on this database."""
        return sum(run["backend"] == backend for run in self.runs)

    def killed(self) -> Counter[str]:
        """Kills of each role in all runs."""
        kills: Counter[str] = Counter()
        for each in self.runs:
            kills.update(each["kills"])
        return kills

    def violations(self) -> int:
        """All that were found."""
        return sum(run["violations"] for run in self.runs)

    def table(self) -> str:
        """For people."""
        lines = []
        for backend in sorted({run["backend"] for run in self.runs}):
            runs = [run for run in self.runs if run["backend"] == backend]
            kills: Counter[str] = Counter()
            stills: Counter[str] = Counter()
            for run in runs:
                kills.update(run["kills"])
                stills.update(run["stills"])
            violations = sum(run["violations"] for run in runs)
            hours = sum(run["seconds"] for run in runs) / SECONDS_AN_HOUR
            lines += [
                f"{backend}: {len(runs)} runs, {hours:.1f} hours, {kills.total():,} kills, {stills.total():,} times a"
                f" process stood still, {violations} violations",
                f"  {_rate(runs)}",
                f"  killed: {_counted(kills)}",
                f"  stood still: {_counted(stills)}",
                f"  nodes parted from: {_counted(_summed(runs, 'parted'))};"
                f" said after long: {_counted(_summed(runs, 'long_parted'))}",
                "  " + ", ".join(f"{what}: {sum(run.get(what, 0) for run in runs):,}" for what in ADDED),
                "  peak memory, MB: "
                + _counted(
                    {
                        role: max(run["peaks_kb"].get(role, 0) for run in runs) // 1024
                        for role in sorted({role for run in runs for role in run["peaks_kb"]})
                    }
                ),
                "  back after, s (median of medians, slowest): "
                + ", ".join(
                    f"{role} {_middle([r['returns'][role]['median'] for r in runs if role in r['returns']])}"
                    f" ({max(r['returns'][role]['slowest'] for r in runs if role in r['returns'])})"
                    for role in sorted({role for run in runs for role in run["returns"]})
                ),
                f"  at rest after, s: {_middle([s for run in runs for s in run['rest_seconds']])}"
                f" ({max((s for run in runs for s in run['rest_seconds']), default=0)})",
            ]
        slow = [run for run in self.runs if _is_slow(run)]
        if slow:
            lines.append(
                f"with the queue manager far from the central BOT-M: {len(slow)} runs,"
                f" {self.kills(slow_central=True):,} kills,"
                f" {sum(run.get('branches_reset', 0) for run in slow):,} times the connection of a BOT-M was reset,"
                f" {sum(run['violations'] for run in slow)} violations"
            )
        lines.append(f"all: {len(self.runs)} runs, {self.kills():,} kills, {self.violations()} violations")
        return "\n".join(lines)


def _summed(runs: list[dict[str, Any]], what: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for run in runs:
        total.update(run.get(what, {}))
    return total


def _rate(runs: list[dict[str, Any]]) -> str:
    """Of the runs whose processor time is known."""
    known = [run for run in runs if "cpu_seconds" in run]
    kills = sum(sum(run["kills"].values()) for run in known)
    if not kills:
        return "kills a minute: unknown"
    minutes = sum(run["seconds"] for run in known) / 60
    cpu = sum(run["cpu_seconds"] for run in known)
    return f"{kills / minutes:.1f} kills a minute, {cpu / kills:.2f} seconds of processor time for each"


def _is_slow(run: dict[str, Any]) -> bool:
    return bool(run.get("plan", {}).get("slow_central"))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()) if count)


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0
