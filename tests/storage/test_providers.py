"""Providers, sessions and passwords."""

from __future__ import annotations

import attrs
import pytest
import pytest_twisted

from lcc.model import Provider
from lcc.storage.providers.passwords import DUMMY_HASH, generate_password, hash_password, is_slow, verify_password
from lcc.storage.providers.providers import (
    NoSuchProvider,
    ProviderExists,
    ProviderReader,
    add_provider,
    change_provider,
    get_provider,
    list_providers,
    logging_in,
    order_removal,
    provider_status,
    registered_provider,
)
from tests.support.databases import DirectDatabase
from tests.support.queue import Queue, notice

FULL = Provider(
    pid=0,
    roots=("http://b/", "http://a/x?'\"\\%"),
    password_hash="hash",
    bandwidth_bytes=10**12,
    hours="0-8",
    timezone="Europe/Amsterdam",
    priority=2,
    files_max=1,
    space_max_bytes=2**50,
    full_sets=None,
    allow_private=True,
    insecure=True,
    contact="me@example.org",
    interval_seconds=1.5,
    watched=True,
)


def test_a_provider_comes_back_equal(database: DirectDatabase) -> None:
    pid = database.now(add_provider, FULL)
    assert database.now(get_provider, pid) == attrs.evolve(FULL, pid=pid)
    plain = database.now(add_provider, Provider(0, (), "other"))
    assert plain == pid + 1
    assert [provider.pid for provider in database.now(list_providers)] == [pid, plain]
    changed = attrs.evolve(FULL, pid=pid, roots=("http://c/",), full_sets=3, priority=0)
    database.now(change_provider, changed)
    assert database.now(get_provider, pid) == attrs.evolve(changed, former_roots=FULL.roots)
    assert database.now(get_provider, 99) is None
    assert database.now(get_provider, 2**80) is None


def test_ids_are_given_once(database: DirectDatabase) -> None:
    assert database.now(add_provider, attrs.evolve(FULL, pid=7)) == 7
    assert database.now(add_provider, attrs.evolve(FULL, pid=7)) == 7  # a commit that got lost
    with pytest.raises(ProviderExists):
        database.now(add_provider, Provider(7, (), "other"))
    assert database.now(add_provider, Provider(0, (), "next")) == 8


def test_what_is_not_there_cannot_be_changed(database: DirectDatabase) -> None:
    with pytest.raises(NoSuchProvider):
        database.now(change_provider, attrs.evolve(FULL, pid=5))
    with pytest.raises(NoSuchProvider):
        database.now(order_removal, 5)
    pid = database.now(add_provider, FULL)
    database.now(order_removal, pid)
    removed = database.now(get_provider, pid)
    assert removed is not None and removed.removed
    with pytest.raises(NoSuchProvider):
        database.now(change_provider, removed)


@pytest_twisted.ensureDeferred
async def test_what_a_uns_reads(queue: Queue) -> None:
    reader = ProviderReader(queue.database)  # type: ignore[arg-type]  # stands in for a Database
    found = await reader.login(queue.pid)
    assert found is not None and found[0].roots == ("http://site/",) and found[1].error_count == 0
    queue.send(1, *[notice(name) for name in "abc"])
    queue.record(queue.fetched(queue.rows()[0], "12345"))
    queue.record(queue.failed(queue.rows()[0], 403))
    status = await reader.status(queue.pid, 10)
    counted = (status.files_used, status.space_used_bytes, status.processing, status.error_count, status.errors_upto)
    assert counted == (1, 5, 1, 1, 1)
    queue.database.now(order_removal, queue.pid)
    assert await reader.login(queue.pid) is None
    assert await reader.login(12345) is None


def test_those_who_log_in_together_are_read_together(queue: Queue) -> None:
    other, removed = queue.add_provider(former_roots=("http://old/",)), queue.add_provider()
    queue.send(1, *[notice(name) for name in "abc"])
    queue.record(queue.failed(queue.rows()[0], 403))
    queue.database.now(order_removal, removed)
    pids = [other, 12345, queue.pid, removed, 0, 2**40, other]
    found = queue.database.blocking.select(logging_in, pids)
    assert [each and each[0] for each in found] == [queue.database.now(registered_provider, pid) for pid in pids]
    assert [each and each[0].pid for each in found] == [other, None, queue.pid, None, None, None, other]
    for each in found:
        assert each is None or each[1] == queue.database.now(provider_status, each[0].pid, 0)
    assert found[2] is not None and found[2][1].error_count == 1
    assert queue.database.blocking.select(logging_in, [0, 2**40]) == [None, None]


@pytest_twisted.ensureDeferred
async def test_errors_are_shown_with_the_status(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abc"])
    for row in queue.rows()[:2]:
        queue.record(queue.failed(row, 403))
    reader = ProviderReader(queue.database)  # type: ignore[arg-type]  # stands in for a Database
    assert len((await reader.status(queue.pid, 10)).errors) == 2
    assert [error.number for error in (await reader.status(queue.pid, 1)).errors] == [2]
    assert (await reader.status(queue.pid, 0)).errors == ()


@pytest.mark.parametrize("generated", [True, False])
def test_passwords(generated: bool) -> None:
    password = generate_password() if generated else "pässword ' \U0001f600"
    stored = hash_password(password, generated=generated)
    assert password not in stored and len(stored) <= 255
    assert stored != hash_password(password, generated=generated)
    assert is_slow(stored) is not generated
    assert verify_password(password, stored)
    assert not verify_password(password + "x", stored)
    assert not verify_password("", stored)


@pytest.mark.parametrize("stored", ["", "x", "sha256$zz$zz", "sha256$00", "scrypt$1$1$1$00$00", "scrypt$a$b$c$d$e"])
def test_hashes_that_are_none_match_nothing(stored: str) -> None:
    assert not verify_password("", stored)
    assert not verify_password("x", stored)


def test_generated_passwords_are_long_and_differ() -> None:
    passwords = {generate_password() for _ in range(100)}
    assert len(passwords) == 100 and {len(password) for password in passwords} == {32}
    assert not is_slow(DUMMY_HASH) and not verify_password("", DUMMY_HASH)
