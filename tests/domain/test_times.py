"""Points in time as text, whatever a site says of them."""

from __future__ import annotations

import pytest

from lcc.domain.times import iso_utc
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
