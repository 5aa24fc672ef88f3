"""The soak: its verdicts, and a slice of it in ``make test-long``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from soak.samples import Probe, Sample, Sent, Window, read_probes, read_sent, windows
from soak.verdict import (
    accepted_last,
    bounded_memory,
    drained,
    flat_latency,
    flat_memory,
    keeps_up,
    nothing_lost,
    overload_seen,
)

from tests.benchmarks.conftest import BENCHMARKS

SLICE_SECONDS = 30


def window(
    number: int, mb: float = 60.0, p50: float | None = 5.0, p99: float | None = 20.0, queued: int = 0
) -> Window:
    return Window(number * 10.0, 500.0, queued, {"uns": 50.0, "qm": mb}, 0.4, p50, p99, 0)


def sample(time: float, changes: int = 0, overload: str = "", mb: float = 60.0) -> Sample:
    return Sample(time, {"qm": mb}, {"qm": time / 100}, changes, 7, overload)


def test_windows_are_made_of_what_was_seen_in_their_time() -> None:
    samples = [sample(100 + second, changes=50 * second) for second in range(25)]
    probes = [Probe(101, 4.0, 0), Probe(102, 6.0, 0), Probe(103, None, 1012), Probe(115, 9.0, 0)]
    first, second = windows(samples, probes, 100, 10)
    assert (first.time, first.rate, first.queued, first.resident_mb) == (5, 50, 7, {"qm": 60})
    assert (first.p50_ms, first.p99_ms, first.rejected) == (5, 6, 1)
    assert (second.p50_ms, second.rejected) == (9, 0)
    assert first.cpu_ms == pytest.approx(1000 * 0.1 / 500)


def test_memory_that_grows_is_not_flat() -> None:
    assert flat_memory([window(n, 60 + n % 2) for n in range(40)]).kept
    grows = flat_memory([window(n, 60 + n) for n in range(40)])
    assert not grows.kept
    assert "qm 74.5 to 94.5 MB" in grows.figures


def test_the_beginning_does_not_count_for_memory() -> None:
    assert flat_memory([window(n, 30.0 if n < 8 else 60.0) for n in range(40)]).kept


@pytest.mark.parametrize(("p50", "p99", "kept"), [(15.0, 100.0, True), (60.0, 100.0, False), (5.0, 400.0, False)])
def test_latency_that_grows_is_not_flat(p50: float, p99: float, kept: bool) -> None:
    found = [window(n) for n in range(30)] + [window(n, p50=p50, p99=p99) for n in range(30, 40)]
    assert flat_latency(found).kept is kept
    assert flat_latency([window(n) for n in range(40)], found[30:]).kept is kept


def test_latency_of_nothing_is_not_flat() -> None:
    assert not flat_latency([window(n) for n in range(40)], [window(1, p50=None, p99=None)]).kept


def test_a_backlog_at_half_the_rate_is_seen() -> None:
    assert keeps_up([window(n, queued=100) for n in range(40)], 500).kept
    assert not keeps_up([window(n, queued=100 * n) for n in range(40)], 500).kept
    assert not keeps_up([window(n) for n in range(40)], 600).kept


def test_overload_is_to_be_noticed_and_told() -> None:
    sent = [Sent(1, 1, 0, 10, 0), Sent(2, 1, 10, 10, 1012), Sent(3, 1, 20, 10, -2)]
    over = [sample(1), sample(2, overload="queue")]
    assert overload_seen(over, sent).kept
    assert not overload_seen([sample(1)], sent).kept
    assert not overload_seen(over, sent[:1]).kept
    strange = overload_seen(over, [*sent, Sent(4, 1, 0, 5, -1)])
    assert not strange.kept
    assert "1 sets -1" in strange.figures


def test_memory_under_overload_has_a_limit() -> None:
    assert bounded_memory([sample(1), sample(2, mb=150)]).kept
    assert not bounded_memory([sample(1), sample(2, mb=151), sample(3)]).kept


def test_draining_takes_about_as_long_as_fetching() -> None:
    assert drained(300, 60_000, 500).kept
    assert not drained(1000, 60_000, 500).kept


def test_what_was_accepted_is_to_be_fetched_after_it_was_told() -> None:
    sent = [Sent(10.5, 1, 8, 4, 0), Sent(20.5, 1, 0, 2, 0), Sent(30.5, 1, 0, 10, 1012)]
    told = accepted_last(sent, 10)
    assert told == {(1, 8): 10.5, (1, 9): 10.5, (1, 0): 20.5, (1, 1): 20.5}
    fetched = {(1, 8): 10, (1, 9): 11, (1, 0): 20, (1, 1): 25}
    assert nothing_lost(told, fetched, 0, 0).kept
    assert not nothing_lost(told, fetched | {(1, 0): 19}, 0, 0).kept
    assert not nothing_lost(told, {key: time for key, time in fetched.items() if key != (1, 9)}, 0, 0).kept
    assert not nothing_lost(told, fetched, 1, 0).kept
    assert not nothing_lost(told, fetched, 0, 1).kept
    assert not nothing_lost({}, {}, 0, 0).kept


def test_logs_of_probes_and_load_are_read(tmp_path: Path) -> None:
    (tmp_path / "probes").write_text("10.500 3.25 4.50 0\n11.000 - - 1012\n")
    assert read_probes(tmp_path / "probes") == [Probe(10.5, 7.75, 0), Probe(11.0, None, 1012)]
    (tmp_path / "sent").write_text("10.500 3 40 15 0\n")
    assert read_sent(tmp_path / "sent") == [Sent(10.5, 3, 40, 15, 0)]


@pytest.mark.long
def test_a_slice(tmp_path: Path) -> None:
    """The whole soak, in seconds: overload is told, nothing that was accepted is lost, the backlog drains."""
    command = [sys.executable, "-m", "soak", "--slice", str(SLICE_SECONDS), "--rate", "300", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    findings = {each["what"]: each for each in json.loads((tmp_path / "soak.json").read_text())["findings"]}
    # Those that judge time and growth want a quiet machine and more time.
    for what in (
        "overload is noticed and told",
        "memory is bounded under overload",
        "nothing that was accepted is lost",
    ):
        assert findings[what]["kept"], findings[what]
    assert (tmp_path / "soak.svg").read_text().startswith("<?xml")
    assert done.returncode in (0, 1), done.stderr
