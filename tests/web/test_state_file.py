"""The monitor's state file: what it keeps, and the memory that saving it takes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, execute

from lcc.roles.web.members import Members
from lcc.roles.web.samples import RECENT_POINTS, Samples
from lcc.roles.web.state_file import StateFile
from lcc.storage.disk.file_system import Disk
from tests.support.qm_state import STATE

NOW = 1_700_000_000.0


def add(samples: Samples, first: int, last: int) -> None:
    for number in range(first, last):
        clock = number * 5.0
        counts = {**STATE["counts"], "results_recorded": number * 7}
        samples.add({**STATE, "run": 1, "time": NOW + clock, "clock": clock, "counts": counts})


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    samples, again = Samples(), Samples()
    add(samples, 0, 100)
    state_file(tmp_path, samples, Members()).close()
    state_file(tmp_path, again, Members()).load()
    assert len(again.since(0)) == 99
    assert again.since(0) == samples.since(0)


def test_saving_takes_little_memory_for_each_sample(tmp_path: Path) -> None:
    """Else the process keeps what it took for a moment, and grows until there are as many as can be."""
    samples = Samples()
    saved = state_file(tmp_path, samples)
    add(samples, 0, 101)
    few = peak_bytes(saved)
    add(samples, 101, RECENT_POINTS + 1)
    assert (peak_bytes(saved) - few) / (RECENT_POINTS - 100) < 400  # 250, and 1,400 if encoded at once


def state_file(folder: Path, *parts: Any) -> StateFile:
    return StateFile(folder / "state.json", Disk(), in_thread, *parts)


def in_thread(function: Any, *arguments: Any) -> Deferred[Any]:
    return execute(function, *arguments)


def peak_bytes(saved: StateFile) -> int:
    """What is allocated at once, at most, while it is saved."""
    tracemalloc.start()
    try:
        saved.close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
