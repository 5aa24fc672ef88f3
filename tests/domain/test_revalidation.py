"""When a server may be asked whether what is stored is unchanged."""

from __future__ import annotations

import pytest

from lcc.domain.fetches.revalidation import may_be_unchanged
from lcc.model import CachedState, UrlNotice

A, B, C = "a" * 32, "b" * 32, "c" * 32
# A dynamic page: what was told (of its source) is never what was fetched.
CACHED = CachedState(True, 1, A, 10, 100, B, 20, 200)


@pytest.mark.parametrize(
    ("md5", "length", "may"),
    [
        ("", None, True),
        (A, 10, True),
        (B, 20, True),
        (A, None, True),
        ("", 20, True),
        (C, 10, False),
        (C, None, False),
        (A, 11, False),
        ("", 11, False),
        ("", 0, False),
    ],
)
def test_other_content_than_before_is_fetched(md5: str, length: int | None, may: bool) -> None:
    for mtime in (None, 100, 300):
        notice = UrlNotice("http://site/", mimetype="text/html", md5=md5, length=length, mtime=mtime)
        assert may_be_unchanged(notice, CACHED) == may
