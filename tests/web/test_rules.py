"""The pure parts: samples, verdicts, drawings."""

from __future__ import annotations

import math
import sys
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.config import WebConfig
from lcc.insight.evidence import Evidence
from lcc.insight.qm_state import Live
from lcc.insight.verdict import Level, Troubles, judge, sentence
from lcc.model.tasks import ManagerStatus
from lcc.roles.web.plots import HEIGHT, WIDTH, mask, nice, plot, short, size
from lcc.roles.web.samples import DAY_POINTS, RECENT_POINTS, STALE_SECONDS, Samples, binned, highest
from lcc.storage.tasks.figures import TaskFigures
from lcc.storage.views.failures import FailureGroup, Failures
from tests.support.qm_state import STATE

NOW = 1_700_000_000.0


def said(time: float, clock: float, count: int, run: int = 1, **results: int) -> dict[str, Any]:
    counts = {**STATE["counts"], "results_recorded": count}
    return {
        **STATE,
        "time": time,
        "clock": clock,
        "run": run,
        "counts": counts,
        "results": STATE["results"] | results,
    }


def fed(count: int, each: int = 10, seconds: float = 5.0, **results: int) -> Samples:
    samples = Samples()
    for number in range(count):
        grown = {name: number * value for name, value in results.items()}
        samples.add(said(NOW + number * seconds, number * seconds, number * each, **grown))
    return samples


def stored(samples: Samples) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in samples.kept().items()}


def test_rates_are_of_the_queue_managers_clock() -> None:
    samples = fed(3)
    latest = samples.now(NOW + 10)
    assert latest is not None and latest["results_recorded"] == 2.0
    assert samples.now(NOW + 10 + STALE_SECONDS + 1) is None
    samples.add(said(NOW + 10, 10, 20))  # the same once more
    samples.add({})
    assert len(samples.since(0)) == 2
    samples.add(said(NOW + 20, 3, 5, run=2))  # another run counts anew
    assert len(samples.since(0)) == 2
    samples.add(said(NOW + 25, 8, 10, run=2))
    assert samples.since(0)[-1].values["results_recorded"] == 1.0


@pytest.mark.parametrize("step", [-86400.0, -3600.0, 3600.0])
@pytest.mark.parametrize("restart", [False, True])
def test_points_keep_their_order_when_the_clock_is_set(step: float, restart: bool) -> None:
    samples = fed(20)
    if restart:
        kept, samples = stored(samples), Samples()
        samples.restore(kept)
        samples.add(said(NOW + 95 + step, 95.0, 190))
    samples.add(said(NOW + 100 + step, 100.0, 200))
    times = [point.time for point in samples.since(0)]
    assert times == sorted(times) and times[-1] == NOW + 100 + step
    # What was, is not judged as if it were to come.
    assert len(samples.since(NOW + 100 + step)) == 0
    if not restart:
        assert times == [NOW + step + number * 5 for number in range(1, 21)]


def test_rings_are_bounded_and_the_day_is_kept() -> None:
    count = 3 * 86400 // 30
    samples = fed(count, each=60, seconds=30)
    end = NOW + count * 30
    assert len(stored(samples)["recent"]) == RECENT_POINTS and len(stored(samples)["day"]) == DAY_POINTS
    day = samples.since(end - 86400)
    assert day[0].time < end - 86300
    values = binned(day, "results_recorded", end - 86400, end - 60, 180)
    assert all(value is not None and math.isclose(value, 2.0) for value in values)
    again = Samples()
    again.restore(stored(samples))
    assert stored(again) == stored(samples)


def test_a_sample_takes_no_further_memory() -> None:
    """Else the monitor grows for an hour, and a little for a day."""
    fed(10)
    before = sys.getallocatedblocks()
    samples = fed(500)
    assert len(stored(samples)["recent"]) > 480
    assert sys.getallocatedblocks() - before < 500


def test_what_is_not_known_is_a_gap() -> None:
    samples = fed(3)
    values = binned(samples.since(0), "results_recorded", NOW - 10, NOW + 20, 6)
    assert values == [None, None, 2.0, 2.0, None, None]


@given(st.lists(st.none() | st.floats(0, 1e15), min_size=1, max_size=50))
def test_plots_stay_in_their_box(values: list[float | None]) -> None:
    drawn = plot("x", values, values, [], NOW, NOW + 60, "B/s", None)
    numbers = [float(text) for text in drawn.line.replace("M", " ").replace("L", " ").split()]
    xs, ys = numbers[::2], numbers[1::2]
    assert all(0 <= x <= 1.5 * WIDTH for x in xs) and all(0 <= y <= HEIGHT for y in ys)
    assert drawn.line.count("M") == drawn.area.count("Z")
    assert len(drawn.ticks) == len(drawn.times) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.256, "0.26"),
        (12.34, "12.3"),
        (123.4, "123"),
        (9999, "9,999"),
        (12_345, "12.3\u00a0k"),
        (4.56e6, "4.56\u00a0M"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert short(value) == text
    assert size(12_345) == "12.3\u00a0kB" and size(12) == "12\u00a0B"


@given(st.floats(0, 1e18))
def test_an_axis_ends_above_all(most: float) -> None:
    assert most <= nice(most) * 1.000002 and (most < 1 or nice(most) <= most * 10)


@given(st.integers(0, (1 << 168) - 1), st.integers(0, 167))
def test_masks_are_drawn_as_they_are(bits: int, current: int) -> None:
    drawn = mask(bits, 168, current)
    rebuilt = 0
    for day, stretches in enumerate(drawn.days):
        for begin, length in stretches:
            for slot in range(begin, begin + length):
                rebuilt |= 1 << (day * 24 + slot)
    assert rebuilt == bits and drawn.now == (current // 24, current % 24)


def live(age: int = 1, **changes: Any) -> Live:
    return Live({**STATE, "time": NOW - age} | changes, age)


def keys(known: Evidence) -> list[str]:
    return [trouble.key for trouble in judge(known)]


MACHINE = STATE["machines"][0]


@pytest.mark.parametrize(
    ("changes", "key", "level"),
    [
        ({"database": "gone"}, "qm-database", Level.BAD),
        ({"paused_since": NOW - 5}, "paused", Level.WARNING),
        ({"overload": "too much", "overload_since": NOW}, "overload", Level.WARNING),
        ({"unses": []}, "no-uns", Level.BAD),
        ({"unses_paused": ["uns"]}, "uns-paused", Level.WARNING),
        ({"machines": []}, "no-botm", Level.BAD),
        ({"capacity": 0}, "no-robot", Level.BAD),
        ({"machines": [MACHINE, MACHINE | {"machine": 2, "connected": False}]}, "away-2", Level.WARNING),
        ({"machines": [MACHINE | {"trouble": "full"}]}, "machine-1", Level.BAD),
        ({"machines": [MACHINE | {"paused": "botm"}]}, "paused-1", Level.WARNING),
        ({"machines": [MACHINE | {"refused": "old"}], "capacity": 0}, "machine-1", Level.BAD),
        ({"machines": [MACHINE | {"robots_refused": "bot b"}]}, "robots-refused-1", Level.WARNING),
        (
            {"machines": [MACHINE | {"robots_refused": "bot b", "capacity": 0}], "capacity": 0},
            "robots-refused-1",
            Level.BAD,
        ),
    ],
)
def test_what_the_queue_manager_says(changes: dict[str, Any], key: str, level: Level) -> None:
    (found,) = judge(Evidence(NOW, live=live(**changes)))
    assert (found.key, found.level) == (key, level)
    assert found.remedy.endswith(".") and not found.what.endswith(".")


def test_who_is_not_there() -> None:
    assert keys(Evidence(NOW)) == []
    assert keys(Evidence(NOW, live=live())) == []
    (dead,) = judge(Evidence(NOW, live=live(age=100)))
    assert dead.key == "qm" and dead.since == NOW - 100
    assert judge(Evidence(NOW, live=Live({}, 0)))[0].what.startswith("No queue manager has run yet")
    assert keys(Evidence(NOW, database="away")) == ["database"]
    assert keys(Evidence(NOW, live=live(), disk="full")) == ["disk"]


def test_failing_and_stuck() -> None:
    def known(samples: Samples, **changes: Any) -> Evidence:
        points = tuple(samples.since(0))
        end = points[-1].time
        failures = Failures((FailureGroup(1302, sites=1),))
        return Evidence(end, live=live(**changes), points=points, failures=failures)

    failing = known(fed(100, failed=3, stored=1))
    assert keys(failing) == ["failing", "sites"] and "1302" in judge(failing)[0].what
    assert keys(known(fed(100, failed=1, stored=20))) == ["sites"]
    assert keys(known(fed(3, failed=3))) == ["sites"]  # too few to tell
    assert keys(known(fed(300, each=0))) == ["stuck", "sites"]
    assert keys(known(fed(100, each=0))) == ["sites"]  # not for long enough


@pytest.mark.parametrize(
    ("failed", "stored", "sites", "lag_seconds", "expected"),
    [
        (1, 10, 4, 80_000, [("sites", Level.NOTE)]),
        (1, 8, 40, 0, [("failing", Level.WARNING), ("sites", Level.NOTE)]),
        (3, 2, 60, 0, [("failing", Level.BAD), ("sites", Level.WARNING)]),
        (0, 2, 251, 90_000, [("sites", Level.BAD), ("lag", Level.WARNING)]),
        (0, 2, 0, 300_000, [("lag", Level.BAD)]),
    ],
)
def test_three_levels(
    failed: int, stored: int, sites: int, lag_seconds: int, expected: list[tuple[str, Level]]
) -> None:
    points = tuple(fed(100, failed=failed, stored=stored).since(0))
    end = points[-1].time
    failures = Failures((FailureGroup(1302, sites=sites),))
    known = Evidence(
        end, live=live(), points=points, failures=failures, providers=1000, lag_since=int(end) - lag_seconds
    )
    assert [(each.key, each.level) for each in judge(known)] == expected
    shares = {f"{name}_{level}": 1.0 for name in ("failing", "unreachable") for level in ("warning", "bad")}
    lax = attrs.evolve(known, thresholds=WebConfig(**shares, lag_warning=1e9, lag_bad=1e9))
    assert {each.level for each in judge(lax)} <= {Level.NOTE}


def test_few_sites_are_no_trouble_whatever_their_share() -> None:
    for sites, level in ((4, Level.NOTE), (5, Level.BAD)):
        failures = Failures((FailureGroup(1302, sites=sites),))
        (found,) = judge(Evidence(NOW, live=live(), failures=failures, providers=6))
        assert found.level is level


def test_now_is_never_above_the_peak() -> None:
    samples = fed(3)
    samples.add(said(NOW + 15, 15, 500))
    points = [(each.time, each.seconds, each.values["results_recorded"]) for each in samples.since(0)]
    latest = samples.now(NOW + 15)
    assert latest is not None
    coarse = binned(samples.since(0), "results_recorded", NOW, NOW + 30, 1)
    most = highest(samples.since(0), "results_recorded", NOW, NOW + 30, 1)
    drawn = plot("x", coarse, most, points, NOW, NOW + 30, "", latest["results_recorded"])
    assert drawn.words.startswith("now 96; mean 33.3; peak 96 at ")
    # The peak is in the plot.
    assert most == [96] and drawn.ticks[0] == "100"


def test_since_when() -> None:
    troubles = Troubles()
    found = judge(Evidence(NOW, live=live(unses=[])))
    (first,) = troubles.update(found, NOW)
    (later,) = troubles.update(found, NOW + 60)
    assert (first.since, later.since, later.seen) == (NOW, NOW, True)
    assert troubles.update([], NOW + 70) == ()
    (again,) = troubles.update(found, NOW + 80)
    assert again.since == NOW + 80


def test_the_sentence() -> None:
    assert sentence((), True) == "All is well."
    assert "just started" in sentence((), False)
    (bad,) = judge(Evidence(NOW, live=live(unses=[])))
    note = attrs.evolve(bad, level=Level.NOTE)
    assert sentence((note,), True) == "All is well; 1 note."
    assert sentence((bad, note), True) == f"{bad.what}."
    assert sentence((bad, bad, bad), True) == f"{bad.what} (and 2 more problems)."


FINE = TaskFigures(run=1, heard_time=1000, has_tasks=True)
UP = ManagerStatus("m", "h", "r", 1, 1, 1000)


@pytest.mark.parametrize(
    ("figures", "key", "level"),
    [
        (TaskFigures(), "", Level.NOTE),
        (FINE, "", Level.NOTE),
        (attrs.evolve(FINE, heard_time=900), "scheduler", Level.BAD),
        (attrs.evolve(FINE, heard_time=900, has_tasks=False), "", Level.NOTE),
        (attrs.evolve(FINE, open=2), "no-manager", Level.BAD),
        (attrs.evolve(FINE, open=2, managers=(UP,)), "", Level.NOTE),
        (attrs.evolve(FINE, managers=(attrs.evolve(UP, down_time=990),)), "manager-m", Level.WARNING),
        (attrs.evolve(FINE, managers=(attrs.evolve(UP, paused="why"),)), "manager-paused-m", Level.NOTE),
        (attrs.evolve(FINE, lost_today=1), "jobs-lost", Level.NOTE),
        (attrs.evolve(FINE, failing=1), "tasks-failing", Level.NOTE),
    ],
)
def test_what_the_scheduler_says(figures: TaskFigures, key: str, level: Level) -> None:
    found = judge(Evidence(now=1000.0, tasks=figures))
    assert [(each.key, each.level) for each in found] == ([(key, level)] if key else [])
