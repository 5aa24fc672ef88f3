"""The key of a URL."""

from __future__ import annotations

import pytest

from lcc.domain import keys
from lcc.domain.keys import ALL_VIEWS, pid_of, url_key, url_keys

URLS = [
    ("http://site.example/", "text/html"),
    ("http://site.example/", ""),
    ("http://site.example/\u00fc", "text/html"),
    ("http://site.example/\udcfc", "image/png"),
]


def test_keys_are_those_that_databases_have() -> None:
    assert [key.hex() for key in url_keys(7, URLS)] == [
        "00000007b0d6e7a3698f02aa24fcbba93be1e2b2",
        "00000007b0d6e7a3698f02aa24fcbba900000000",
        "000000078be6baae93b834fa96871e6a3be1e2b2",
        "000000078c99d43fcc67f3a43fcc58d907ac3526",
    ]


def test_keys_of_many_are_those_of_each() -> None:
    for pid in (1, 2**32 - 1):
        found = url_keys(pid, URLS)
        assert found == [url_key(pid, *each) for each in URLS]
        assert set(map(pid_of, found)) == {pid} and len(set(found)) == len(URLS)


def test_no_mime_type_has_the_part_that_stands_for_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """One name of four thousand million has this hash: none is known, so the hash is."""

    class Hashed:
        def __init__(self, data: bytes = b"", digest_size: int = 4) -> None:
            self.digest = lambda: bytes(digest_size)

    monkeypatch.setattr(keys, "blake2b", Hashed)
    assert url_key(7, "http://site.example/", "test/zero")[16:] == b"\0\0\0\1" != ALL_VIEWS
