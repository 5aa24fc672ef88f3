"""The soak: its verdicts, and a slice of it in ``make test-long``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from soak.facts import Counted, Facts, Left, Times, answers, peaks, reasons
from soak.losses import accepted_last, all_accepted, all_counted, left_over, nothing_lost
from soak.quarters import quarters
from soak.samples import Probe, Sample, Sent, Window, read_probes, read_sent, windows
from soak.verdict import (
    bounded_memory,
    drained,
    flat_latency,
    flat_memory,
    judge,
    keeps_up,
    latency_back,
    overload_told,
    removed_in_time,
)

from tests.benchmarks.conftest import BENCHMARKS

SLICE_SECONDS = 30
LASTING = (
    "each telling at half the rate is a fetch",
    "memory is bounded under overload",
    "nothing that was accepted is lost",
)
"""Promises that hold however slow the machine is; some of the others want a quiet one, and more time."""
OF_A_RATE = ("at half the rate all is accepted", "overload is noticed and told")
QUARTERS = (range(10, 20), range(20, 30), range(30, 40))
"""Numbers of 40 windows that are judged."""
FLAT = [20.0 if number % 50 == 0 else 5.0 for number in range(200)]
"""Milliseconds of a window's single pages."""


def window(
    number: int,
    mb: float = 60.0,
    latencies: list[float] = FLAT,
    queued: int = 0,
    rate: float = 500.0,
    told: float = 500.0,
    removal_lag: float = 1.0,
) -> Window:
    mbs = {"uns": 50.0, "qm": mb}
    return Window(number * 10.0 + 5, 10.0, told, rate, queued, mbs, 0.4, 5.0, 20.0, latencies, removal_lag)


def forty(bad: range = range(0), **values: Any) -> list[Window]:
    """Windows of half the rate; those with these numbers have other values."""
    return [window(number, **(values if number in bad else {})) for number in range(40)]


def sample(time: float, changes: int = 0, overload: str = "", mb: float = 60.0) -> Sample:
    return Sample(time, {"qm": mb}, {"qm": time / 100}, changes, 7, overload, time / 10)


def test_windows_are_made_of_what_was_seen_in_their_time() -> None:
    samples = [sample(100 + second, changes=50 * second) for second in range(25)]
    probes = [Probe(101, 4.0, 0), Probe(102, 6.0, 0), Probe(103, None, 1012), Probe(115, 9.0, 0)]
    sent = [Sent(101, 1, 0, 480, 0), Sent(102, 1, 480, 100, 1012), Sent(112, 1, 580, 99, 0)]
    first, second = windows(samples, probes, sent, 100, 10)
    assert (first.time, first.seconds, first.queued, first.resident_mb) == (5, 10, 7, {"qm": 60})
    assert (first.told, first.rate) == (48.2, 50)
    assert (first.p50_ms, first.p99_ms, first.latencies_ms) == (5, 6, [4.0, 6.0])
    assert (second.told, second.p50_ms) == (10, 9)
    assert first.cpu_ms == pytest.approx(1000 * 0.1 / 500)
    assert first.removal_lag_seconds == 10.9


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 40, 41])
def test_all_windows_but_those_of_the_first_quarter_are_judged(count: int) -> None:
    found = [window(number) for number in range(count)]
    parts = quarters(found)
    assert len(parts) == 3
    assert all(parts)
    if count > 3:
        assert [each for part in parts for each in part] == found[count // 4 :]


@pytest.mark.parametrize(
    ("sets", "probes", "kept"),
    [
        ({0: 900}, {0: 1200}, True),
        ({0: 899, 1012: 1}, {0: 1200}, False),
        ({0: 899, -1: 1}, {0: 1200}, False),
        ({0: 899, -2: 1}, {0: 1200}, False),
        ({0: 900}, {0: 1199, 1012: 1}, False),
        ({0: 900}, {0: 1199, -3: 1}, False),
        ({}, {0: 1200}, False),
        ({0: 900}, {}, False),
    ],
)
def test_at_half_the_rate_nothing_is_turned_away(sets: dict[int, int], probes: dict[int, int], kept: bool) -> None:
    assert all_accepted(sets, probes).kept is kept


def test_what_was_turned_away_is_told_with_its_number() -> None:
    figures = all_accepted({0: 890, 1012: 3, -1: 2, -2: 5}, {0: 1199, -3: 1}).figures
    assert figures == (
        "890 sets accepted, 5 sets not sent, others waited, 2 sets not answered,"
        ' 3 sets "try again later"; 1199 single pages accepted, 1 single pages never cached'
    )


def test_answers_under_overload_are_judged_apart() -> None:
    times = Times(steady=100, settled=101, overload=160, drained=200, calm=260)
    assert [times.judged_part(moment) for moment in (0, 100.9, 101, 199.9, 200, 259)] == [
        *(True, True),
        *(False, False),
        *(True, True),
    ]


@pytest.mark.parametrize(
    ("changes", "queued", "kept"), [(1020, 0, True), (1000, 20, True), (1019, 0, False), (1021, 0, False)]
)
def test_each_telling_is_recorded_or_queued(changes: int, queued: int, kept: bool) -> None:
    assert all_counted(Counted(1000, 20, changes, queued)).kept is kept


def test_nothing_told_is_nothing_counted() -> None:
    assert not all_counted(Counted(0, 0, 0, 0)).kept
    assert "1 missing" in all_counted(Counted(1000, 20, 1019, 0)).figures


def test_memory_that_grows_is_not_flat() -> None:
    assert flat_memory([window(n, 60 + n % 2) for n in range(40)]).kept
    grows = flat_memory([window(n, 60 + n) for n in range(40)])
    assert not grows.kept
    assert "qm 74.5 / 84.5 / 94.5 MB" in grows.figures


@pytest.mark.parametrize("quarter", QUARTERS)
def test_memory_of_each_quarter_counts(quarter: range) -> None:
    assert flat_memory(forty(quarter, mb=66.9)).kept
    assert not flat_memory(forty(quarter, mb=67.1)).kept


@pytest.mark.parametrize("quarter", QUARTERS)
def test_files_that_pile_up_are_noticed(quarter: range) -> None:
    assert removed_in_time(forty(quarter, removal_lag=14.9)).kept
    found = removed_in_time(forty(quarter, removal_lag=15.1))
    assert not found.kept and "15.1" in found.figures


def test_the_beginning_does_not_count() -> None:
    slow = range(10)
    assert flat_memory(forty(slow, mb=30.0)).kept
    assert flat_latency(forty(slow, latencies=[900.0])).kept
    assert keeps_up(forty(slow, rate=1.0, queued=9000), 500).kept


@pytest.mark.parametrize("quarter", QUARTERS)
@pytest.mark.parametrize(
    ("p50", "p99", "kept"), [(12.0, 34.0, True), (13.0, 34.0, False), (12.0, 36.0, False), (5.0, 400.0, False)]
)
def test_latency_of_each_quarter_counts(quarter: range, p50: float, p99: float, kept: bool) -> None:
    worse = [p99 if each == 20.0 else p50 for each in FLAT]
    assert flat_latency(forty(quarter, latencies=worse)).kept is kept
    assert latency_back(forty(), [window(50, latencies=worse)]).kept is kept


@pytest.mark.parametrize("quarter", QUARTERS)
def test_one_slow_window_of_a_quarter_is_seen_in_its_p99(quarter: range) -> None:
    assert not flat_latency(forty(quarter[4:5], latencies=[500.0] * 200)).kept


def test_latency_of_nothing_is_not_flat() -> None:
    assert not flat_latency(forty(range(20, 30), latencies=[])).kept
    assert not flat_latency(forty(range(40), latencies=[])).kept
    assert not latency_back(forty(), [window(50, latencies=[])]).kept
    assert not latency_back(forty(), []).kept


@pytest.mark.parametrize("quarter", QUARTERS)
def test_each_quarter_keeps_up(quarter: range) -> None:
    assert keeps_up(forty(quarter, queued=1000, rate=490.0), 500).kept
    assert not keeps_up(forty(quarter, queued=1001), 500).kept
    assert not keeps_up(forty(quarter, rate=489.0), 500).kept
    assert not keeps_up(forty(quarter, rate=489.0, told=489.0), 500).kept


def test_overload_is_to_be_noticed_and_told() -> None:
    sets = answers([Sent(1, 1, 0, 10, 0), Sent(2, 1, 10, 10, 1012), Sent(3, 1, 20, 10, -2)])
    assert reasons([sample(1), sample(2, overload="queue"), sample(3, overload="queue")]) == ["queue"]
    assert overload_told(["queue"], sets).kept
    assert not overload_told([], sets).kept
    assert not overload_told(["queue"], {0: 1}).kept
    strange = overload_told(["queue"], sets | {-1: 1})
    assert not strange.kept
    assert "1 sets not answered" in strange.figures


def test_memory_under_overload_has_a_limit() -> None:
    assert bounded_memory(peaks([sample(1), sample(2, mb=150)])).kept
    assert not bounded_memory(peaks([sample(1), sample(2, mb=151), sample(3)])).kept
    assert not bounded_memory({}).kept


def test_draining_takes_about_as_long_as_fetching() -> None:
    assert drained(250, 60_000, 500).kept
    assert not drained(251, 60_000, 500).kept
    assert drained(251, 60_000, 500).limit == "250 s: 2 times that, and 10 s"


def test_what_was_accepted_is_to_be_recorded_after_it_was_told() -> None:
    sent = [Sent(10.5, 1, 8, 4, 0), Sent(20.5, 1, 0, 2, 0), Sent(30.5, 1, 0, 10, 1012)]
    told = accepted_last(sent, 10)
    assert told == {(1, 8): 10.5, (1, 9): 10.5, (1, 0): 20.5, (1, 1): 20.5}
    fetched = {(1, 8): 10, (1, 9): 11, (1, 0): 20, (1, 1): 25}
    assert left_over(told, fetched, 2, 3) == Left(4, 0, 2, 3)
    assert left_over(told, fetched | {(1, 0): 19}, 0, 0).not_fetched == 1
    assert left_over(told, {key: time for key, time in fetched.items() if key != (1, 9)}, 0, 0).not_fetched == 1


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (Left(4, 0, 0, 0), True),
        (Left(4, 1, 0, 0), False),
        (Left(4, 0, 1, 0), False),
        (Left(4, 0, 0, 1), False),
        (Left(4, 0, 0, 0, 1), False),
        (Left(0, 0, 0, 0), False),
    ],
)
def test_nothing_is_to_be_left(left: Left, kept: bool) -> None:
    assert nothing_lost(left).kept is kept


def facts() -> Facts:
    """Of a soak that keeps all promises."""
    return Facts(
        rate=960.0,
        times=Times(steady=400, settled=401, overload=520, drained=580, calm=640),
        windows=[*forty(), *(window(number, latencies=[9000.0] * 200, mb=100, rate=900) for number in range(40, 58))]
        + [window(number) for number in range(58, 64)],
        half_sets={0: 900},
        half_probes={0: 1200},
        overload_sets={0: 100, 1012: 800},
        overload_seen=["full"],
        peaks_mb={"qm": 100.0},
        counted=Counted(1000, 20, 1020, 0),
        backlog=40_000,
        left=Left(1000, 0, 0, 0),
    )


def test_the_parts_are_judged_by_their_own_windows() -> None:
    findings = judge(facts())
    assert [each.line() for each in findings if not each.kept] == []
    assert len({each.what for each in findings}) == 11


@pytest.mark.parametrize(
    ("times", "broken"),
    [
        (Times(steady=420, settled=421, overload=520, drained=580, calm=640), "latency is flat at half the rate"),
        (
            Times(steady=400, settled=401, overload=520, drained=570, calm=640),
            "after the backlog latency is what it was",
        ),
    ],
)
def test_windows_of_the_overload_are_not_half_the_rate(times: Times, broken: str) -> None:
    found = {each.what: each.kept for each in judge(attrs.evolve(facts(), times=times))}
    assert not found[broken]


def test_where_no_window_is_whole_what_they_would_show_is_not_kept() -> None:
    found = {each.what: each.kept for each in judge(attrs.evolve(facts(), windows=[]))}
    assert sum(not kept for kept in found.values()) == 5
    assert all(found[what] for what in (*LASTING, *OF_A_RATE, "the backlog drains"))


def test_what_was_kept_is_judged_again(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    facts().save(file, plan={})
    assert Facts.load(file) == facts()
    for found, code in ((facts(), 0), (attrs.evolve(facts(), half_sets={0: 900, 1012: 2}), 1)):
        found.save(file)
        command = [sys.executable, "-m", "soak", "--judge", str(file)]
        environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout.count("\n")) == (code, 11), done.stderr
    assert 'FAIL at half the rate all is accepted: 900 sets accepted, 2 sets "try again later"' in done.stdout


def test_a_file_of_an_earlier_version_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "soak.json").write_text('{"findings": [], "windows": []}')
    with pytest.raises(SystemExit, match="earlier version"):
        Facts.load(tmp_path / "soak.json")


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
    assert done.returncode in (0, 1) and (tmp_path / "soak.json").exists(), done.stderr
    findings = {each["what"]: each for each in json.loads((tmp_path / "soak.json").read_text())["findings"]}
    for what in (*LASTING, *OF_A_RATE):
        assert findings[what]["kept"], findings[what]
    assert (tmp_path / "soak.svg").read_text().startswith("<?xml")
