"""How long a URL waits before it is tried again, and the slots that it waits in."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lcc.domain.fetches.retries import SPREAD, delay_seconds, doubled_seconds
from lcc.domain.keys import url_key
from lcc.model import FETCH_NOW, RETRY_SLOT_SECONDS, retry_slot, retry_time

SECONDS = st.floats(0.01, 1e7)
KEYS = st.binary(min_size=20, max_size=20)


@given(attempts=st.integers(1, 10_000), key=KEYS, initial=SECONDS, maximum=SECONDS)
def test_delays_grow_up_to_the_longest(attempts: int, key: bytes, initial: float, maximum: float) -> None:
    delay = delay_seconds(attempts, key, initial, maximum)
    longest = min(initial * 2.0 ** min(attempts - 1, 60), max(initial, maximum))
    assert longest * (1 - SPREAD) <= delay <= longest
    # It is the same however often it is asked, and never much shorter than the one before.
    assert delay == delay_seconds(attempts, key, initial, maximum)
    assert delay_seconds(attempts + 1, key, initial, maximum) >= delay * (1 - SPREAD)


def test_what_fails_together_does_not_come_back_together() -> None:
    keys = [url_key(1, f"http://site/{number}", "text/html") for number in range(1000)]
    for attempts in (1, 2, 5):
        delays = sorted(delay_seconds(attempts, key, 60.0, 3600.0) for key in keys)
        low, high = delays[0], delays[-1]
        quarters = [sum(low <= delay - (high - low) * part / 4 for delay in delays) for part in range(4)]
        assert all(abs(count - 250 * (4 - part)) < 100 for part, count in enumerate(quarters))


@given(due=st.floats(0, 2**32))
def test_slots_end_when_they_are_due(due: float) -> None:
    slot = retry_slot(due)
    assert -(2**31) < slot < FETCH_NOW
    assert due <= retry_time(slot) <= due + RETRY_SLOT_SECONDS
    assert retry_slot(retry_time(slot)) == slot


@given(one=st.floats(0, 2**32), other=st.floats(0, 2**32))
def test_what_is_due_earlier_has_the_higher_slot(one: float, other: float) -> None:
    assume(one < other)
    assert retry_slot(one) >= retry_slot(other)


def test_a_delay_follows_from_the_hash_in_the_key_and_from_the_attempt() -> None:
    """Not from the provider's id: its pages would all come back together."""
    key = bytes(4) + b"\x40\0\0\0" + bytes(12)
    # A quarter of the way, and the golden ratio on for each attempt.
    assert delay_seconds(1, key, 100.0, 1000.0) == pytest.approx(100 * (1 - 0.25 * (0.25 + 0.6180339887) % 1))
    assert delay_seconds(2, key, 100.0, 1000.0) == pytest.approx(200 * (1 - 0.25 * ((0.25 + 2 * 0.6180339887) % 1)))
    assert delay_seconds(1, b"\xff" * 4 + key[4:], 100.0, 1000.0) == delay_seconds(1, key, 100.0, 1000.0)
    assert delay_seconds(0, key, 100.0, 1000.0) == pytest.approx(100 * (1 - 0.25 * 0.25))
    assert delay_seconds(99, key, 100.0, 50.0) <= 100.0


def test_other_delays_are_doubled_up_to_the_longest() -> None:
    assert [doubled_seconds(5, times, 60) for times in (-1, 0, 1, 3, 4, 100)] == [5, 5, 10, 40, 60, 60]
    assert doubled_seconds(1, 40, 2**40) == 2**32
