"""Each delay by itself: what is known of a provider after each event, to the last field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lcc.errors import code
from lcc.model import Delay
from lcc.roles.qm.schedule.delays import (
    BANDWIDTH,
    HOURS,
    INTERVAL,
    REASONS,
    RETRY_AFTER,
    SAVED_SECONDS,
    SITE,
    SITE_ERROR,
    Delayed,
    Delays,
)

DNS = code("dns-failed")
NOW = 1_700_000_000.0
DAY = 86400.0


def delays() -> Delays:
    subject = Delays(10.0, 1000.0, lambda: 0.0)
    subject.release(NOW)
    return subject


def known(subject: Delays, pid: int = 1) -> dict[str, float]:
    """What is known of a provider, without what is 0."""
    record = subject.get(pid)
    if record is None:
        return {}
    return {name: value for name in Delayed.__slots__ if (value := getattr(record, name))}


def charged(subject: Delays) -> None:
    subject.charge(1, 2000, 100, NOW)


def begun(subject: Delays) -> None:
    subject.began(1, NOW - 4, 24.0, NOW)


def away(subject: Delays) -> None:
    subject.site_error(1, DNS, NOW)


def asked(subject: Delays) -> None:
    subject.asked(1, 503, 20.0, NOW)


def closed(subject: Delays) -> None:
    subject.closed(1, NOW + 20, NOW)


FAILED = {"code": DNS, "failures": 1, "since": NOW}
EVENTS: list[tuple[Callable[[Delays], None], str, int, dict[str, float]]] = [
    (charged, BANDWIDTH, 0, {"owed": NOW + 20, "rate": 100, "until": NOW + 20}),
    (begun, INTERVAL, 0, {"due": NOW + 20, "interval": 24.0, "until": NOW + 20}),
    (closed, HOURS, 0, {"hours": NOW + 20, "until": NOW + 20}),
    (asked, RETRY_AFTER, 503, {"asked": NOW + 20, "asked_code": 503, "until": NOW + 20}),
    (away, SITE_ERROR, DNS, {"retry": NOW + 10, "until": NOW + 10, **FAILED}),
]


def test_reasons_are_stored_and_shown() -> None:
    assert SITE == 0
    assert REASONS == ("bandwidth", "interval", "hours", "site-error", "retry-after")


@pytest.mark.parametrize(("event", "reason", "why", "record"), EVENTS)
def test_what_is_known_after_an_event_and_once_it_is_over(
    event: Callable[[Delays], None], reason: str, why: int, record: dict[str, float]
) -> None:
    subject = delays()
    event(subject)
    assert known(subject) == record
    found = subject.get(1)
    assert found is not None and (found.reason, found.why_code) == (reason, why)
    assert 1 in subject and len(subject) == 1 and subject.until(1) == subject.next_end == record["until"]
    assert subject.release(record["until"]) == [1]
    assert 1 not in subject and len(subject) == 0 and subject.next_end is None and subject.until(1) == 0
    if event is away:
        assert known(subject) == FAILED and found.reason == "" and found.why_code == DNS
    else:
        assert subject.get(1) is None


@pytest.mark.parametrize(("event", "reason", "why", "record"), EVENTS)
@pytest.mark.parametrize("step", [-5 * DAY, 5 * DAY])
def test_a_step_of_the_clock_moves_each(
    event: Callable[[Delays], None], reason: str, why: int, record: dict[str, float], step: float
) -> None:
    subject = delays()
    event(subject)
    subject.to_save(NOW)
    assert not subject.changed
    now = NOW + 1 + step
    subject.stepped(step, now)
    moved = {name: value + step if value > 1e6 else value for name, value in record.items()}
    if event is closed:  # they are looked at again
        moved = {"hours": now, "until": now}
    assert known(subject) == moved and subject.changed and subject.now == NOW + step
    assert subject.next_end == moved["until"]


@pytest.mark.parametrize("event", [event for event, *_ in EVENTS])
def test_a_step_to_before_1970_ends_each(event: Callable[[Delays], None]) -> None:
    subject = delays()
    event(subject)
    subject.stepped(-2 * NOW, 3.0)
    left = {name: value for name, value in known(subject).items() if name not in ("asked_code", "code", "interval")}
    left.pop("rate", None)
    left.pop("failures", None)
    assert left == ({"hours": 3.0, "until": 3.0} if event is closed else {"until": 3.0})
    assert subject.now == 0.0 and subject.release(3.0) == [1]


def test_one_that_waits_no_longer_is_not_released_by_a_step() -> None:
    subject = delays()
    away(subject)
    subject.release(NOW + 10)
    subject.stepped(60.0, NOW + 70)
    assert subject.next_end is None and subject.release(NOW + 80) == []
    assert known(subject) == {**FAILED, "since": NOW + 60}


def test_those_that_wait_soonest_first() -> None:
    subject = delays()
    assert subject.first(9) == []
    for pid, seconds in ((5, 30.0), (3, 20.0), (4, 20.0), (6, 5.0)):
        subject.closed(pid, NOW + seconds, NOW)
    subject.site_error(6, DNS, NOW)
    subject.release(NOW + 10)
    assert known(subject, 6) == FAILED, "it is known, but does not wait"
    assert [pid for pid, _ in subject.first(9)] == [3, 4, 5]
    assert subject.first(1) == [(3, subject.get(3))]


def test_one_that_is_discarded_is_unknown_and_its_row_goes() -> None:
    for event, *_ in EVENTS:
        subject = delays()
        event(subject)
        event(subject)
        subject.discard(1)
        assert subject.get(1) is None and len(subject) == 0 and subject.next_end is None
        assert subject.to_save(NOW) == []
        event(subject)
        assert len(subject.to_save(NOW)) == 1
        subject.discard(1)
        assert subject.to_save(NOW) == [Delay(1, 0.0, "")] and subject.release(NOW + DAY) == []
    delays().discard(1)
    subject = delays()
    away(subject)
    subject.release(NOW + 10)
    subject.discard(1)
    assert subject.get(1) is None and len(subject) == 0


def test_a_failure_counts_once_the_delay_of_the_one_before_is_over() -> None:
    subject = delays()
    assert subject.site_error(1, DNS, NOW) == 10.0
    assert subject.site_error(1, 503, NOW + 4) == 6.0
    assert known(subject) == {"retry": NOW + 10, "until": NOW + 10, **FAILED}
    assert subject.site_error(1, 503, NOW + 10) == 20.0
    assert known(subject) == {"code": 503, "failures": 2, "since": NOW, "retry": NOW + 30, "until": NOW + 30}


def test_a_site_that_is_reached_is_forgiven_even_if_nobody_knows_since_when_it_was_away() -> None:
    subject = delays()
    subject.load([Delay(1, 0.0, "", DNS, 2)], DAY, NOW)
    assert known(subject) == {"code": DNS, "failures": 2}
    subject.reached(1)
    assert subject.get(1) is None and subject.to_save(NOW) == [Delay(1, 0.0, "")]
    # It waits for something else: nothing has changed.
    closed(subject)
    subject.to_save(NOW)
    subject.reached(1)
    assert not subject.changed


def test_an_interval_is_due_until_it_is_over() -> None:
    subject = delays()
    begun(subject)
    subject.closed(1, NOW + 60, NOW)
    subject.release(NOW + 19)
    assert subject.is_due(1) and subject.now == NOW + 19
    subject.release(NOW + 20)
    assert 1 in subject and not subject.is_due(1)


def test_limits_that_change_leave_what_is_no_limit() -> None:
    subject = delays()
    charged(subject)
    closed(subject)
    begun(subject)
    subject.limits_changed(1, 200, NOW, 34.0)
    assert known(subject) == {
        "owed": NOW + 10,
        "rate": 200,
        "due": NOW + 30,
        "interval": 34.0,
        "until": NOW + 30,
    }
    subject.limits_changed(1, 400, NOW)
    assert known(subject) == {"owed": NOW + 5, "rate": 400, "until": NOW + 5}
    subject.limits_changed(1, 400, NOW, 9.0)
    assert known(subject) == {"owed": NOW + 5, "rate": 400, "interval": 9.0, "until": NOW + 5}, "no start is known"
    subject.limits_changed(2, 400, NOW, 9.0)
    assert subject.get(2) is None
    early = Delays(10.0, 1000.0, lambda: 0.0)
    early.began(1, 1.0, 10.0, 2.0)
    early.stepped(-8.0, 2.0)
    assert known(early) == {"due": 3.0, "interval": 10.0, "until": 3.0}
    early.limits_changed(1, None, 2.0, 0.5)
    assert known(early) == {"interval": 0.5, "until": 2.0}


def test_an_operator_forgives_what_it_is_about() -> None:
    subject = delays()
    away(subject)
    asked(subject)
    both = known(subject)
    subject.try_again(1, 404, NOW)
    assert known(subject) == both
    subject.try_again(1, DNS, NOW)
    assert known(subject) == {"since": NOW, "asked": NOW + 20, "asked_code": 503, "until": NOW + 20}
    subject.try_again(1, 503, NOW)
    assert known(subject) == {"since": NOW, "asked_code": 503, "until": NOW}
    subject.try_again(2, 0, NOW)
    # Of who waits for something else nothing has changed.
    subject = delays()
    closed(subject)
    subject.to_save(NOW)
    subject.try_again(0, 0, NOW)
    assert not subject.changed


def test_what_was_saved_is_loaded_as_it_was() -> None:
    for event, _, _, record in EVENTS:
        before, subject = delays(), delays()
        event(before)
        subject.load(before.to_save(NOW), DAY, NOW + 1)
        record = {name: value for name, value in record.items() if name != "interval"}
        assert known(subject) == record and subject.now == NOW + 1
        assert not subject.changed or subject.to_save(NOW + 1)
        subject.release(NOW + 20)
        subject.reached(1)
        assert subject.to_save(NOW + 20) == [Delay(1, 0.0, "")]
    # An answer's code is not that of a site that is away.
    subject = delays()
    subject.load([Delay(1, NOW + 9, RETRY_AFTER, 503, 3, 0.0, 0, NOW - 9)], DAY, NOW)
    failed = {"failures": 3, "since": NOW - 9}
    assert known(subject) == {"asked": NOW + 9, "asked_code": 503, "until": NOW + 9, **failed}
    # Nothing was before 1970, and nothing began later than now.
    subject.load(
        [Delay(2, 0.0, "", DNS, 1, since_time=3.0), Delay(3, 0.0, "", DNS, 1, since_time=NOW + 9)], DAY, NOW, 5.0
    )
    assert known(subject, 2) == {"code": DNS, "failures": 1}
    assert known(subject, 3) == {"code": DNS, "failures": 1, "since": NOW}


@pytest.mark.parametrize(
    ("reason", "longest"),
    [(BANDWIDTH, 90 * DAY), (INTERVAL, 30 * DAY), (RETRY_AFTER, 30 * DAY), (HOURS, 14 * DAY), (SITE_ERROR, 1000.0)],
)
def test_no_delay_that_is_loaded_is_longer_than_such_a_one_can_be(reason: str, longest: float) -> None:
    for more, until in ((-1.0, longest - 1), (0.0, longest), (1.0, longest), (1e12, longest)):
        subject = delays()
        end = NOW + longest + more
        owed = end if reason == BANDWIDTH else 0.0
        subject.load([Delay(1, end, reason, DNS, 0, owed, 100)], 7 * DAY, NOW)
        assert subject.until(1) == NOW + until
        # The clock was set back since; hours are looked at again.
        again = delays()
        again.load([Delay(1, end, reason, DNS, 0, owed, 100)], 7 * DAY, NOW, 2.0)
        assert again.until(1) == (0.0 if reason == HOURS else NOW + min(longest, longest + more - 2))


def test_what_lasts_longer_than_a_restart_is_saved_and_what_lasts_long_at_once() -> None:
    assert SAVED_SECONDS == 1.0
    for seconds, saved in ((1.0, False), (1.25, True)):
        subject = delays()
        subject.closed(1, NOW + seconds, NOW)
        assert bool(subject.to_save(NOW)) is saved
    for seconds, urgent in ((10.0, False), (10.25, True)):
        subject = delays()
        subject.closed(1, NOW + seconds, NOW)
        assert subject.urgent is urgent
        subject.to_save(NOW)
        assert not subject.urgent and not subject.changed and subject.to_save(NOW) == []


def test_ends_that_hold_no_longer_are_forgotten_in_the_order_of_those_that_do() -> None:
    """A provider with many short delays leaves an end of each behind."""
    subject = delays()
    away(subject)
    subject.release(NOW + 10)
    for pid, seconds in ((2, 9000.0), (3, 7000.0), (4, 8000.0)):
        subject.closed(pid, NOW + seconds, NOW + 10)
    for number in range(1006):
        assert len(subject._heap) == 3 + number, "as many as twice those that wait, and a thousand"
        subject.closed(5, NOW + 9500 + number % 2, NOW + 10)
    assert len(subject._heap) == 4
    for pid, seconds in ((3, 7000.0), (4, 8000.0), (2, 9000.0), (5, 9501.0)):
        assert subject.next_end == NOW + seconds
        assert subject.release(NOW + seconds) == [pid]
    assert len(subject) == 0 and subject.next_end is None


def test_a_delay_is_shortened_by_up_to_a_quarter_and_doubles_up_to_the_longest() -> None:
    for random, part in ((0.0, 1.0), (0.5, 0.875), (0.8, 0.8)):
        subject = Delays(10.0, 35.0, lambda random=random: random)  # type: ignore[misc]
        assert subject.now == 0.0
        now = NOW
        for longest in (10.0, 20.0, 35.0, 35.0):
            assert subject.site_error(1, DNS, now) == pytest.approx(longest * part)
            now += longest
    short = Delays(10.0, 3.0, lambda: 0.0)
    assert short.site_error(1, DNS, NOW) == 10.0, "the first one is the longest, then"


def test_what_is_over_is_not_saved_and_a_row_is_removed_once() -> None:
    subject = delays()
    charged(subject)
    subject.closed(1, NOW + 60, NOW)
    assert subject.to_save(NOW) == [Delay(1, NOW + 60, HOURS, 0, 0, NOW + 20, 100, saved_time=NOW)]
    subject.closed(1, NOW + 50, NOW + 20)
    assert subject.to_save(NOW + 20) == [Delay(1, NOW + 50, HOURS, 0, 0, 0.0, 0, saved_time=NOW + 20)]
    subject.release(NOW + 50)
    assert subject.to_save(NOW + 50) == [Delay(1, 0.0, "")]
    subject.closed(1, NOW + 50.5, NOW + 50)
    assert subject.changed and subject.to_save(NOW + 50) == []
    # What is over already is no delay.
    subject.closed(2, NOW + 50, NOW + 50)
    assert 2 not in subject and subject.get(2) is None


def test_what_could_not_be_saved_has_changed_still() -> None:
    subject = delays()
    closed(subject)
    with subject.saving(NOW) as rows:
        assert [row.pid for row in rows] == [1]
    assert not subject.changed
    asked(subject)
    with pytest.raises(KeyError), subject.saving(NOW) as rows:
        raise KeyError
    assert subject.changed and subject.to_save(NOW) == rows
