"""What many runs came to: a file that they all add to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from tests.fuzz.campaign import Fault, Report


@attrs.define
class Total:
    """Of one target.

    :ivar next: number of the next stream that nobody has played.
    """

    next: int = 0
    streams: int = 0
    sent_bytes: int = 0
    pieces: int = 0
    honest: int = 0
    faults: int = 0
    sampled: int = 0
    peak_bytes: int = 0
    retained_bytes: int = 0
    scanned_ratio: float = 0.0

    def add(self, report: Report) -> None:
        """One more world."""
        self.streams += report.streams
        self.sent_bytes += report.sent_bytes
        self.pieces += report.pieces
        self.honest += report.honest
        self.faults += len(report.faults)
        self.sampled += report.sampled
        self.peak_bytes = max(self.peak_bytes, report.peak_bytes)
        self.retained_bytes = max(self.retained_bytes, report.retained_bytes)
        self.scanned_ratio = max(self.scanned_ratio, report.scanned_ratio)


class OtherSeed(Exception):
    """The results of earlier runs are of another seed."""


class Results:
    """Totals by target, and the streams that must not be forgotten.

    :param folder: ``results.json``, and a file for each fault.
    :param seed: what the streams are made from.
    :raises OtherSeed: it is not that of earlier runs.
    """

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._file = folder / "results.json"
        self.seed = seed
        self.totals: dict[str, Total] = {}
        if self._file.exists():
            saved: dict[str, Any] = json.loads(self._file.read_text())
            if saved["seed"] != seed:
                raise OtherSeed(f"{self._file} has streams of seed {saved['seed']!r}, not {seed!r}")
            self.totals = {name: Total(**total) for name, total in saved["totals"].items()}

    def total(self, target: str) -> Total:
        """Of this target."""
        return self.totals.setdefault(target, Total())

    @property
    def streams(self) -> int:
        """All that were played."""
        return sum(total.streams for total in self.totals.values())

    @property
    def faults(self) -> int:
        """All that were found."""
        return sum(total.faults for total in self.totals.values())

    def add(self, report: Report) -> None:
        """One more world."""
        self.total(report.target).add(report)
        for fault in report.faults:
            self._keep(fault)

    def save(self) -> None:
        """To be read by the next run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        totals = {name: attrs.asdict(total) for name, total in self.totals.items()}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"seed": self.seed, "totals": totals}, indent=1))
        new.replace(self._file)

    def table(self) -> str:
        """For people."""
        rows = [f"{'':38}{'streams':>10}{'MB':>8}{'honest':>9}{'faults':>8}{'peak KiB':>10}{'kept KiB':>10}"]
        for name, total in self.totals.items():
            rows.append(
                f"{name:38}{total.streams:>10}{total.sent_bytes / 1e6:>8.0f}{total.honest:>9}{total.faults:>8}"
                f"{total.peak_bytes // 1024:>10}{total.retained_bytes // 1024:>10}"
            )
        sent = sum(total.sent_bytes for total in self.totals.values())
        honest = sum(total.honest for total in self.totals.values())
        rows.append(f"{'all':38}{self.streams:>10}{sent / 1e6:>8.0f}{honest:>9}{self.faults:>8}")
        return "\n".join(rows)

    def _keep(self, fault: Fault) -> None:
        folder = self._folder / "faults"
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(char if char.isalnum() else "-" for char in fault.target)
        count = len(list(folder.glob(f"{name}-{fault.number}.*")))
        path = folder / f"{name}-{fault.number}.{count}.json"
        said = {"target": fault.target, "number": fault.number, "seed": self.seed, "what": fault.what}
        path.write_text(json.dumps({**said, "data": fault.data.hex()}, indent=1))
