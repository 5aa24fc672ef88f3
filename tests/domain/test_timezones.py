"""Names of time zones."""

from __future__ import annotations

from lcc.domain.timezones import NO_PLACES, timezones_to_choose


def test_zones_to_choose_are_in_order_and_without_what_is_no_place() -> None:
    found = timezones_to_choose()
    assert list(found) == sorted(set(found)) and "Europe/Amsterdam" in found and len(found) > 300
    assert not NO_PLACES & set(found)
