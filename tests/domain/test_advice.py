"""What is advised about errors of fetches."""

from __future__ import annotations

import pytest

from lcc.domain.advice import advice
from lcc.errors import ERRORS


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


def test_what_is_repaired_here_needs_an_order_to_retry() -> None:
    ordered = [number for number in (*range(400, 600), *ERRORS) if "lcc-admin retry --code" in advice(number)]
    assert ordered == [401, 403, 1305, 1401, 1402, 1403, 1407, 1411, 1417, 1419, 1501, 1502]
    assert advice(403).endswith("; then lcc-admin retry --code 403")
