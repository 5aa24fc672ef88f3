"""How often somebody may do something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain import throttle
from lcc.domain.throttle import Key, LoginThrottle, Throttle, Windows


def test_no_more_is_remembered_than_this() -> None:
    assert throttle.KEYS_MAX == 20_000


def test_so_often_and_again_when_the_window_is_over() -> None:
    door = Throttle(3, 60.0)
    a, b = ("address", "a"), ("site", "b")
    assert [door.take([a], at) for at in (0.0, 10.0, 20.0)] == [0.0, 0.0, 0.0]
    assert door.take([a], 30.0) == 30.0
    # A refusal counts for none of the keys.
    assert door.take([a, b], 30.0) == 30.0
    assert [door.take([b], 30.0) for _ in range(4)] == [0.0, 0.0, 0.0, 60.0]
    assert door.take([a], 60.0) == 0.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 50)), max_size=60), st.integers(1, 4))
def test_never_more_than_the_limit_in_a_window(events: list[tuple[str, float]], limit: int) -> None:
    door = Throttle(limit, 100.0)
    done: dict[str, int] = {}
    now = 0.0
    for name, _ in events:
        now += 0.1
        if not door.take([("key", name)], now):
            done[name] = done.get(name, 0) + 1
    assert all(count <= limit for count in done.values())


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "KEYS_MAX", 10)
    windows = Windows(60.0)
    keys: list[Key] = [("address", number) for number in range(100)]
    for key in keys:
        windows.add(key, 0.0)
    assert [key for key in keys if windows.count(key, 0.0)] == keys[-10:]


def test_passwords_are_counted_by_provider_and_by_where_they_come_from() -> None:
    login = LoginThrottle(2, 60.0)
    for pid in (7, 8):
        assert not login.is_throttled(pid, "192.0.2.1", 0.0)
        login.tried(pid, 0.0)
        login.failed("192.0.2.1", 0.0)
    assert login.is_throttled(99, "192.0.2.1", 59.9) and not login.is_throttled(99, "192.0.2.1", 60.0)
    assert not login.is_throttled(7, "192.0.2.2", 0.0)
    login.tried(7, 0.0)
    assert login.is_throttled(7, "192.0.2.2", 0.0)
    login.passed(7, 0.0)
    assert not login.is_throttled(7, "", 0.0)


def test_a_right_password_takes_back_no_wrong_ones_from_there() -> None:
    """Whoever has one account could else try the passwords of all others, with a login of its own in between."""
    login = LoginThrottle(3, 60.0)
    for number in range(3):
        assert not login.is_throttled(100 + number, "there", 1.0)
        login.tried(100 + number, 1.0, "there")
        login.failed("there", 1.0)
        login.tried(7, 1.0, "there")
        login.passed(7, 1.0, "there")
    assert login.is_throttled(8, "there", 2.0) and login.is_throttled(7, "there", 2.0)
    assert not login.is_throttled(8, "elsewhere", 2.0)


def test_wrong_passwords_from_elsewhere_do_not_lock_out_who_is_known() -> None:
    login = LoginThrottle(3, 60.0)
    login.tried(7, 0.0, "home")
    login.passed(7, 0.0, "home")
    for number in range(5):
        login.tried(7, 1.0, f"elsewhere {number}")
        login.failed(f"elsewhere {number}", 1.0)
    assert login.is_throttled(7, "anywhere", 2.0)
    assert not login.is_throttled(7, "home", 2.0)
    # Its own are counted as before: no more can be tried there.
    for _ in range(3):
        login.tried(7, 3.0, "home")
    assert login.is_throttled(7, "home", 3.0) and not login.is_throttled(8, "home", 3.0)
    for _ in range(3):
        login.passed(7, 4.0, "home")
    assert not login.is_throttled(7, "home", 4.0)
    assert login.is_throttled(7, "anywhere", 4.0) and not login.is_throttled(7, "anywhere", 62.0)


def test_a_place_that_becomes_known_meanwhile() -> None:
    login = LoginThrottle(3, 60.0)
    for _ in range(2):
        login.tried(7, 0.0, "home")
    for _ in range(2):
        login.passed(7, 0.0, "home")
    assert login._windows.count(("account", 7), 0.0) == 0


def test_an_event_that_is_taken_back_counts_no_longer() -> None:
    windows = Windows(60.0)
    key: Key = ("site", "a")
    windows.take_back(key, 0.0)
    for _ in range(3):
        windows.add(key, 0.0)
    windows.take_back(key, 1.0)
    assert windows.count(key, 1.0) == 2 and windows.seconds_left(key, 1.0) == 59.0
    windows.take_back(key, 1.0)
    assert windows.count(key, 1.0) == 1
    windows.take_back(key, 1.0)
    assert windows.count(key, 1.0) == 0 and windows.seconds_left(key, 1.0) == 0.0
    # The next one begins a window of its own.
    windows.add(key, 50.0)
    assert windows.seconds_left(key, 60.0) == 50.0 and windows.seconds_left(key, 200.0) == 0.0


def test_a_refusal_says_a_second_at_least() -> None:
    door = Throttle(1, 60.0)
    assert [door.take([("a", "a")], at) for at in (0.0, 59.5)] == [0.0, 1.0]


def test_the_places_that_are_known_are_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "KEYS_MAX", 2)
    login = LoginThrottle(1, 60.0)
    for party in ("a", "b", "a", "c"):
        login.tried(7, 0.0, party)
        login.passed(7, 0.0, party)
    # Somebody else locks the account out; "b" is the one that was forgotten.
    login.tried(7, 0.0, "elsewhere")
    assert [login.is_throttled(7, party, 0.0) for party in "abc"] == [False, True, False]


def test_a_window_that_is_over_is_forgotten_before_those_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "KEYS_MAX", 2)
    windows = Windows(60.0)
    for name, at in (("a", 0.0), ("b", 30.0), ("a", 60.0), ("c", 61.0)):
        windows.add(("key", name), at)
    assert [windows.count(("key", name), 61.0) for name in "abc"] == [1, 0, 1]
