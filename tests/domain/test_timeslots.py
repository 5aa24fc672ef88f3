"""Slots of the day and the week, in zones whose clocks change."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.hours import parse_hours
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.model import FETCH_NOW

ZONES = (
    *("UTC", "Europe/Amsterdam", "America/New_York", "America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu"),
    *("Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Apia", "Antarctica/Troll"),
)
zones = st.sampled_from(ZONES)
instants = st.integers(1_200_000_000, 1_900_000_000)
HOUR = 3600
NOON = 1_780_000_000 // 86400 * 86400 + 12 * HOUR
HOURS = ("0-8", "22-6", "2", "3", "2-3,14", "0-24", "1", "23")


def shown(at: float, zone: str) -> datetime:
    return datetime.fromtimestamp(at, ZoneInfo(zone))


def at(text: str, zone: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@given(instants, zones)
def test_the_slot_is_what_the_clock_on_the_wall_shows(now: int, zone: str) -> None:
    clock = shown(now, zone)
    assert TimeSlots(24, 3600, zone).current(now) == clock.hour
    assert TimeSlots(168, 3600, zone).current(now) == clock.weekday() * 24 + clock.hour
    assert TimeSlots(24, 3600, "UTC").current(now, zone) == clock.hour


@given(instants, zones, st.sampled_from([24, 168]), st.sampled_from([600, 3600, 7200]))
def test_a_slot_ends_where_the_next_begins(now: int, zone: str, slots: int, seconds: int) -> None:
    subject = TimeSlots(slots, seconds, zone)
    end = subject.slot_end(now)
    assert now < end <= now + seconds
    assert subject.current(end - 1) == subject.current(now)
    assert subject.current(now) == TimeSlots(slots, seconds, zone).current(now)  # whatever was asked before


CHANGES = (
    *(("Europe/Amsterdam", "2024-03-31T01:00"), ("Europe/Amsterdam", "2024-10-27T01:00")),
    *(("Australia/Lord_Howe", "2024-10-05T15:30"), ("Australia/Lord_Howe", "2024-04-06T15:00")),
    *(("Asia/Beirut", "2024-03-30T22:00"), ("Asia/Beirut", "2024-10-26T21:00")),
)
"""Zones, and when their clocks change (UTC): forward and back, by an hour and by half of one, also at midnight."""


@pytest.mark.parametrize("seconds", [3600, 6 * 3600, 86400])
@pytest.mark.parametrize("slots", [24, 168])
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_a_clock_that_is_set_ends_a_stretch_of_a_slot(zone: str, change: str, slots: int, seconds: int) -> None:
    """Looked at every quarter of an hour around the change: until the end that is told the slot is the same and the
    clock is not set, and at the end one or the other happens."""
    changed = datetime.fromisoformat(change).replace(tzinfo=UTC).timestamp()
    assert shown(changed - 1, zone).utcoffset() != shown(changed, zone).utcoffset()
    subject = TimeSlots(slots, seconds, zone)

    def state(moment: float) -> tuple[int, timedelta | None]:
        offset = shown(moment, zone).utcoffset()
        assert offset is not None
        monday = moment + offset.total_seconds() - 4 * 86400
        return int(monday // seconds) % slots, offset

    step = 900
    for now in range(int(changed) - 2 * 86400, int(changed) + 86400, step):
        end = subject.slot_end(now)
        assert state(end) != state(end - step) == state(now), now
        assert subject.current(now) == state(now)[0]
        since = subject._compute(now, "")[0]
        assert since <= now and state(since) == state(now) != state(since - step), now


@given(instants, zones, st.sampled_from(HOURS), st.integers(0, 3600 * 40))
def test_hours_open_and_close_where_the_clock_says(now: int, zone: str, hours: str, later: int) -> None:
    subject = TimeSlots(24, 3600, "UTC")
    mask = parse_hours(hours)
    opens = subject.opening(mask, now, zone)
    assert opens is not None
    assert subject.is_open(mask, opens, zone) and mask >> shown(opens, zone).hour & 1
    some = now + later
    if some < opens:
        assert not mask >> shown(some, zone).hour & 1
    closes = subject.closing(mask, opens, zone)
    if opens <= some < closes:
        assert mask >> shown(some, zone).hour & 1
    if closes != float("inf"):
        assert not mask >> shown(closes, zone).hour & 1


def test_the_clocks_go_forward() -> None:
    """2h does not come on that day: what may be fetched only then waits for the next one."""
    for zone, before in (("Europe/Amsterdam", "2024-03-31T01:30"), ("America/New_York", "2024-03-10T01:30")):
        subject = TimeSlots(24, 3600, zone)
        now = at(before, zone)
        assert subject.slot_end(now) == now + 1800
        assert subject.current(now + 1800) == 3
        opens = subject.opening(parse_hours("2"), now)
        assert opens is not None
        assert opens == now + 1800 + 23 * 3600
        assert shown(opens, zone).hour == 2
        assert subject.closing(parse_hours("0-8"), now) == now + 1800 + 5 * 3600
        assert subject.begun(now, now + 7200) == [3, 4]


def test_the_clocks_go_back() -> None:
    """2h (1h) lasts two hours on that day."""
    for zone, before, hour in (
        ("Europe/Amsterdam", "2024-10-27T01:30", 2),
        ("America/New_York", "2024-11-03T00:30", 1),
    ):
        subject = TimeSlots(24, 3600, zone)
        now = at(before, zone)
        mask = parse_hours(str(hour))
        opens = subject.opening(mask, now)
        assert opens == now + 1800
        assert subject.closing(mask, opens) == opens + 7200
        assert [subject.current(opens + minutes * 60) for minutes in (0, 59, 60, 119, 120)] == [hour] * 4 + [hour + 1]
        # The clock is set within it: rows that wait for the second time are opened then.
        assert subject.slot_end(opens) == opens + 3600
        assert subject.begun(opens, opens + 3600) == [hour]


def test_a_change_of_half_an_hour() -> None:
    zone = "Australia/Lord_Howe"
    subject = TimeSlots(24, 3600, zone)
    now = at("2024-10-06T01:30", zone)  # at 2:00 it becomes 2:30
    assert shown(now + 1800, zone).strftime("%H:%M") == "02:30"
    assert subject.slot_end(now + 1800) == now + 3600
    back = at("2024-04-07T01:45", zone)  # at 2:00 it becomes 1:30
    assert subject.current(back + 900) == 1
    assert subject.slot_end(back + 900) == back + 900 + 1800


def test_rows_without_hours_never_wait_in_a_slot() -> None:
    assert TimeSlots().slot("", "0-1", "", 0) == FETCH_NOW


def test_hours_that_never_meet_are_not_hidden() -> None:
    subject = TimeSlots(24, 3600, "UTC")
    assert subject.slot("0-8", "10-12", "", 9 * 3600) == FETCH_NOW
    assert subject.slot("mon 0-8", "", "", 9 * 3600) == FETCH_NOW  # of another period
    assert subject.meet("0-8", "10-12") == 0 and subject.opening(0, 0) is None


@given(instants, zones, zones, st.sampled_from(HOURS), st.sampled_from(["", "0-12", "2-4,20"]))
def test_a_row_waits_for_a_slot_in_which_its_hours_are_open(
    now: int, lcc_zone: str, zone: str, hours: str, provider_hours: str
) -> None:
    subject = TimeSlots(24, 3600, lcc_zone)
    mask = subject.meet(hours, provider_hours)
    slot = subject.slot(hours, provider_hours, zone, now)
    opens = subject.opening(mask, now, zone)
    if slot == FETCH_NOW:
        assert opens is None or opens == now
        return
    assert opens is not None and opens > now
    # The first beginning of that slot from then on comes while they are open, or a clock is set meanwhile.
    begins = opens if subject.slot_end(opens - 1) == opens else subject.slot_end(opens)
    assert subject.current(begins) == slot
    offsets = {shown(moment, zone).utcoffset() for moment in (opens - 1, begins + 3600)}
    if len(offsets) == 1:
        assert subject.is_open(mask, begins, zone)


@given(instants, st.integers(0, 200_000), zones)
def test_no_beginning_is_missed(now: int, later: int, zone: str) -> None:
    subject = TimeSlots(24, 3600, zone)
    begun = subject.begun(now, now + later)
    assert len(set(begun)) == len(begun)
    moment = shown(now, "UTC").replace(tzinfo=UTC)
    expected = set()
    last = subject.current(now)
    for minutes in range(later // 60 + 1):
        slot = subject.current((moment + timedelta(minutes=minutes)).timestamp())
        if slot != last:
            expected.add(slot)
        last = slot
    assert expected <= set(begun)


@given(instants, st.integers(0, 300_000), zones, st.sampled_from([10, 3600]))
def test_beginnings_are_those_that_a_clock_shows_one_after_the_other(
    now: int, later: int, zone: str, slot_seconds: int
) -> None:
    subject = TimeSlots(24, slot_seconds, zone)
    later = later * slot_seconds // 3600
    shown_last: dict[int, None] = {}
    at = float(now)
    while (at := subject.slot_end(at)) <= now + later:
        shown_last.pop(subject.current(at), None)
        shown_last[subject.current(at)] = None
    assert subject.begun(now, now + later) == list(shown_last)


def test_where_a_slot_was_left_out_the_others_are_told_as_they_began_last() -> None:
    """The clocks of Amsterdam went forward over slot 2: it began last on the day before."""
    noon = 1711879200.0  # of that day
    assert TimeSlots(24, 3600, "Europe/Amsterdam").begun(noon - 2 * 86400, noon) == [
        *(2, *range(13, 24)),
        *(0, 1, *range(3, 13)),
    ]


def test_a_long_sleep_opens_each_slot_once() -> None:
    assert sorted(TimeSlots(24, 3600, "UTC").begun(0, 10**9)) == list(range(24))
    assert len(TimeSlots(168, 3600, "Europe/Amsterdam").begun(0, 10**9)) == 168


def test_a_zone_that_is_not_known_counts_as_utc() -> None:
    assert TimeSlots(24, 3600, "UTC").current(7200, "Europe/Nowhere") == 2


@pytest.mark.parametrize("hours", ["", "0-24"])
def test_always(hours: str) -> None:
    subject = TimeSlots(24, 3600, "UTC")
    assert subject.closing(subject.mask(hours), 5.0) == float("inf")
    assert subject.opening(subject.mask(hours), 5.0) == 5.0


def test_always_is_all_slots_and_never_is_none() -> None:
    slots = TimeSlots(24, 3600, "UTC")
    assert slots.always == 2**24 - 1
    assert slots.opening(0, NOON) is None and slots.opening(1 << 24, NOON) is None
    assert slots.closing(slots.always, NOON) == slots.closing(slots.always | 1 << 30, NOON) == float("inf")
    assert slots.is_open(1 << 12, NOON) is True and slots.is_open(1 << 13, NOON) is False


def test_when_hours_were_closed() -> None:
    slots = TimeSlots(24, 3600, "UTC")
    midnight = NOON - 12 * HOUR
    # Open from 6 to 18: yesterday's evening and this night.
    assert slots.closed_spans("6-18", NOON - 24 * HOUR, NOON) == [(midnight - 6 * HOUR, midnight + 6 * HOUR)]
    # What began before is not told, nor what has not ended.
    assert slots.closed_spans("6-18", midnight, NOON) == [(midnight, midnight + 6 * HOUR)]
    assert slots.closed_spans("6-18", midnight, midnight + 5 * HOUR) == []
    assert slots.closed_spans("6-18", midnight, midnight + 6 * HOUR) == [(midnight, midnight + 6 * HOUR)]
    # It closes now.
    assert slots.closed_spans("6-18", midnight - 12 * HOUR, midnight - 6 * HOUR) == []
    # Eight periods back at most.
    found = slots.closed_spans("6-18", 0, NOON)
    assert len(found) == 8 and found[-1] == (midnight - 6 * HOUR, midnight + 6 * HOUR)
    assert slots.closed_spans("", 0, NOON) == slots.closed_spans("25", 0, NOON) == []


def test_without_a_zone_the_machines_clock_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert TimeSlots().current(NOON) == 17
        assert TimeSlots().slot_end(NOON) == NOON + 1800
        assert TimeSlots().current(NOON, "UTC") == 12
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_zone_that_the_machine_does_not_know_is_utc() -> None:
    assert TimeSlots(24, 3600, "No/Where").current(NOON) == 12


def test_rows_with_blank_hours_wait_in_no_slot() -> None:
    assert TimeSlots(24, 3600, "UTC").slot("  ", "6-7", "UTC", NOON) == FETCH_NOW


def test_what_names_no_zone_is_in_that_of_the_lcc() -> None:
    slots = TimeSlots(24, 3600, "Asia/Kolkata")
    assert slots.current(NOON) == slots.current(NOON, "") == 17
    assert slots.is_open(1 << 17, NOON) and not slots.is_open(1 << 12, NOON)
    # Open from 6 to 17:00 there, which is 11:30 in UTC.
    midnight = NOON - 12 * HOUR
    assert slots.closed_spans("6-17", NOON - 26 * HOUR, NOON) == [(midnight - 12.5 * HOUR, midnight + 0.5 * HOUR)]
    assert TimeSlots(24, 3600, "Asia/Kolkata").closing(slots.mask("6-17"), NOON) == NOON


def test_slots_that_have_begun_are_told_once_each_the_latest_last() -> None:
    slots = TimeSlots(24, 3600, "UTC")
    assert slots.begun(NOON - 1, NOON) == [12] and slots.begun(NOON, NOON) == []
    found = slots.begun(NOON - 26 * HOUR, NOON)
    assert len(found) == 24 and found[-3:] == [10, 11, 12]


def test_a_change_of_the_clock_is_found_to_the_second() -> None:
    """In Berlin, on 31 March 2024 at 1:00 UTC; a slot is half a day."""
    changed = 1_711_846_800
    for seconds in range(1, 40):
        assert TimeSlots(2, 43_200, "Europe/Berlin").slot_end(changed - seconds) == changed
        _since, end, _slot = TimeSlots(2, 43_200, "Europe/Berlin")._compute(changed + seconds, "")
        assert (_since, end) == (changed, changed + 9 * 3600)
        assert TimeSlots(2, 43_200, "Europe/Berlin").slot_end(changed - 0.25 * seconds) == changed
