"""Points in time as text, whatever a site says of them."""

from __future__ import annotations

import time

import pytest

from lcc.domain.times import http_date, iso_utc, parse_time
from lcc.domain.wording import utc

LAST = 253_402_300_799


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-62_135_596_800, "0001-01-01T00:00:00Z"),
        (LAST, "9999-12-31T23:59:59Z"),
        (LAST + 1, "9999-12-31T23:59:59Z"),
        (999_999_999_999, "9999-12-31T23:59:59Z"),
        (2**63 - 1, "9999-12-31T23:59:59Z"),
        (-(2**63), "0001-01-01T00:00:00Z"),
        (1.9, "1970-01-01T00:00:01Z"),
    ],
)
def test_a_time_that_no_calendar_has_is_the_nearest_that_it_has(seconds: float, said: str) -> None:
    assert iso_utc(seconds) == said and utc(seconds) == said.replace("T", " ").removesuffix("Z")


def test_times_as_they_are_told() -> None:
    assert parse_time(" 2026-01-01T00:00:00 ") == parse_time("2026-01-01T01:00:00+01:00") == 1_767_225_600
    assert parse_time("1767225600.9") == 1_767_225_600
    assert parse_time("1970-01-01T00:00:00.5") == 0 and parse_time("1969-12-31T23:59:59.5") == -1
    assert [parse_time(f"{sign}{'9' * 12}") for sign in ("", "-")] == [999_999_999_999, -999_999_999_999]
    assert parse_time("5") == parse_time("5.0") == 5
    # Digits of other scripts, which Python reads.
    for text in ("\u0662026-01-01", "2026-01-01\u066001:00", "soon", "5.", "", "10000000000000"):
        with pytest.raises(ValueError, match="neither ISO 8601 nor seconds"):
            parse_time(text)


def test_a_time_without_zone_is_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_time("2026-01-01") == 1_767_225_600
        assert http_date("Thu, 01 Jan 2026 00:00:00 -0000") == 1_767_225_600
        assert http_date("Thu, 01 Jan 2026 00:00:00 +0100") == 1_767_222_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_of_a_date_a_hundred_characters_are_read() -> None:
    date = "Tue Nov 14 22:13:20 2023"
    assert http_date(date.rjust(100)) == http_date(date) == 1_700_000_000
    assert http_date(date.rjust(101)) != 1_700_000_000, "the last digit of the year is not"
