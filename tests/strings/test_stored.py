"""Texts in the tables of both databases: equal when they come out, and two that differ stay two."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lcc.config import DatabaseConfig
from lcc.domain.keys import url_key
from lcc.model import Provider
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.content_users import ContentUser, add_content_user, list_content_users
from lcc.storage.providers.providers import add_provider, get_provider
from tests.support.databases import Backend, DirectDatabase
from tests.support.queue import Queue

from .hostile import FOLDED, TEXTS, UNSPEAKABLE, texts

ANY = (*TEXTS, *(text for text in UNSPEAKABLE if text.isascii() or text in "\ufffe\uffff"))
HALVES = tuple(text for text in UNSPEAKABLE if text not in ANY)
"""Halves of surrogate pairs: no encoding has them."""


@pytest.fixture
def database(backend: Backend) -> Any:
    database = BlockingDatabase(backend.url, backend.home, DatabaseConfig(), random=Random(1))
    yield database
    database.close()


def test_providers_and_users(database: BlockingDatabase) -> None:
    for number, text in enumerate(ANY):
        given = Provider(0, (f"http://a/{text}", "http://b/"), f"{number}{text}"[:255], hours=text)
        pid = database.write(add_provider, given)
        stored = database.interact(get_provider, pid)
        assert stored is not None
        assert (stored.roots, stored.password_hash, stored.hours) == (given.roots, given.password_hash, text)
        database.write(add_content_user, ContentUser(0, text[:255], f"hash{number}"))
    assert [user.name for user in database.interact(list_content_users)] == [text[:255] for text in ANY]


def echo(txn: Txn, text: str) -> Any:
    # In a place where it is compared, and one where it is only given back.
    return txn.query("SELECT ?, CASE WHEN ? = ? THEN 1 ELSE 0 END", [text, text, text])[0]


def test_any_text_as_a_parameter(database: BlockingDatabase) -> None:
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)

    @settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(st.one_of(st.sampled_from(ANY), anything, texts))
    def check(text: str) -> None:
        assert tuple(database.interact(echo, text)) == (text, 1)

    check()


def long_row(txn: Txn, text: str) -> Any:
    txn.execute("DELETE FROM proots")
    txn.insert("proots", ["pid", "position", "root"], [[1, 1, text], [1, 2, text * 2]])
    return txn.query("SELECT root FROM proots ORDER BY position")


def test_very_long_texts(database: BlockingDatabase) -> None:
    for text in ("x", "\\", "'", "\U0001f600", "\0", "%"):
        long = text * 100_000
        assert database.write(long_row, long) == [(long,), (long * 2,)]


@pytest.mark.parametrize("text", HALVES, ids=ascii)
def test_halves_of_pairs_are_refused(database: BlockingDatabase, text: str) -> None:
    """Also those that stand for bytes in arguments: never may they come out as other characters."""
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        database.interact(echo, text)
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        database.write(long_row, text)


def test_names_of_unses_stay_apart(backend: Backend) -> None:
    """Each of them has its own positions: a set of one is not one of another."""
    database = DirectDatabase(backend.url, backend.home)
    queue = Queue(database)
    names = [text[:60] for group in FOLDED for text in group]
    for place, name in enumerate(names):
        answers = queue.absorb(queue.pieces(queue.header(place + 1, uns=name, number=1), ())).answers
        assert [answer.code for answer in answers] == [0], ascii(name)
    rows = database.query("SELECT uns, last_number FROM setspos")
    assert sorted(bytes(uns).decode() for uns, _ in rows) == sorted(names)
    assert {number for _, number in rows} == {1}
    database.blocking.close()


def test_keys_stay_apart() -> None:
    curls = {f"http://a/{text}" for text in ANY}
    types = {"text/html", "text/html5", "text/htm", "text/*", ""}
    keys = {url_key(pid, curl, kind) for pid in (1, 2, 256) for curl in curls for kind in types}
    assert len(keys) == 3 * len(curls) * len(types)


def test_the_home_may_be_called_anything(tmp_path: Path) -> None:
    for name in ("a b", "a:b", "a=b", "a\\b", "\u00e4\u0308", "'\"", "a;b", "%41", "?x", "#x", "{home}", "a\nb"):
        home = tmp_path / name
        database = BlockingDatabase("sqlite:lcc.db", home, DatabaseConfig(), random=Random(1))
        database.interact(lambda txn: None)
        database.close()
        assert (home / "lcc.db").exists(), name
