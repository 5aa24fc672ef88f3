"""How fetches end."""

from __future__ import annotations

import pytest

from lcc.domain.fetches import results
from lcc.domain.fetches.results import ResultCounts, holds_provider, result_name
from lcc.errors import ERRORS, Remedy


def test_what_holds_a_provider_is_what_the_table_says() -> None:
    for _ in range(2):  # the second time remembered
        found = {code for code in (0, *range(100, 600), *ERRORS, 77777) if holds_provider(code)}
        assert found == {code for code, entry in ERRORS.items() if entry.remedy is Remedy.HOLD_PROVIDER}
        assert 1301 in found


def test_no_more_is_remembered_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever codes a peer makes up."""
    monkeypatch.setattr(results, "_REMEDIES", {0: Remedy.NONE})
    for code in range(10_000, 12_000):
        assert not holds_provider(code)
    assert len(results._REMEDIES) == 1000
    assert holds_provider(1302)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "stored"),
        (100, "http-1xx"),
        (204, "http-2xx"),
        (404, "http-4xx"),
        (599, "http-5xx"),
        (1301, "dns-failed"),
        (99, "other"),
        (600, "other"),
        (77777, "other"),
        (-1, "other"),
    ],
)
def test_names_of_results(code: int, name: str) -> None:
    assert result_name(code, False) == name
    assert result_name(code, True) == ("unchanged" if code == 0 else name)


def test_results_are_counted_and_so_are_bytes() -> None:
    counts = ResultCounts()
    assert counts.by_name == {"stored": 0, "unchanged": 0}
    assert [
        counts.ended(0, False, 100, 80),
        counts.ended(0, False, 10, 8),
        counts.ended(0, True, 5, 0),
        counts.ended(503, False, 3, 0),
    ] == ["stored", "stored", "unchanged", "http-5xx"]
    assert counts.by_name == {"stored": 2, "unchanged": 1, "http-5xx": 1}
    assert (counts.wire_bytes, counts.content_bytes) == (118, 88)
