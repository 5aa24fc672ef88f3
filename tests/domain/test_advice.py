"""What is advised about errors of fetches."""

from __future__ import annotations

import pytest

from lcc.domain.advice import ADVICE, advice
from lcc.errors import ERRORS, Remedy


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "the web server's log"),
        (401, "no password"),
        (402, "the web server's log"),
        (403, "User-Agent"),
        (404, "check the fetch URL"),
        (405, "the web server's log"),
        (409, "the web server's log"),
        (410, "submit its deletion"),
        (411, "the web server's log"),
        (428, "the web server's log"),
        (429, "rate limit"),
        (430, "the web server's log"),
        (500, "it is retried"),
        (503, "it is retried"),
    ],
)
def test_statuses_of_http(status: int, words: str) -> None:
    assert words in advice(status)


def test_each_error_of_the_table_has_its_next_step() -> None:
    assert ADVICE.keys() == ERRORS.keys()
    for code in (*ERRORS, *range(200, 600)):
        assert len(advice(code)) > 10
    final = {entry.code for entry in ERRORS.values() if entry.remedy in {Remedy.KEEP, Remedy.DELETE}}
    repaired = [code for code in final if "[bot]" in advice(code) or "lcc-admin provider set" in advice(code)]
    assert len(repaired) > 3
    assert all(advice(code).endswith(f"; then lcc-admin retry --code {code}") for code in repaired)


def test_what_is_repaired_here_needs_an_order_to_retry() -> None:
    ordered = [number for number in (*range(400, 600), *ERRORS) if "lcc-admin retry --code" in advice(number)]
    assert ordered == [401, 403, 1305, 1401, 1402, 1403, 1407, 1411, 1417, 1419, 1501, 1502]
    assert advice(403).endswith("; then lcc-admin retry --code 403")
