"""Registrations, on each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import attrs
import pytest

from lcc.config import RsConfig
from lcc.errors import RegistrationRefused
from lcc.model import Progress, Proves, Provider, Registration, Wishes
from lcc.storage.providers import registrations
from lcc.storage.providers.providers import (
    add_provider,
    change_provider,
    get_provider,
    list_providers,
    order_removal,
)
from lcc.storage.providers.registrations import (
    RegistrationStore,
    approve_registration,
    get_registration,
    list_registrations,
    open_registration,
    prove_registration,
    remove_expired,
    remove_registration,
)
from tests.support.databases import Backend, DirectDatabase, result_of

NOW = 1_700_000_000
SETTINGS = RsConfig(files_max=5, space_max_bytes=0, full_sets=3)
APPROVAL = attrs.evolve(SETTINGS, approval=True)
SITE = "http://www.example.org/"
ASKED = Registration(
    kind=Proves.PROVIDER,
    ticket_hash="ticket",
    secret_hash="secret",
    password_hash="password",
    file="lcc-1.txt",
    folders=(SITE,),
    created=NOW,
    expires=NOW + 100,
    contact="me@example.org",
    wishes=Wishes(1000, "0-8", "Europe/Amsterdam", 1),
)
OTHERS = iter(range(10**6))


def another(**changes: Any) -> Registration:
    number = next(OTHERS)
    return attrs.evolve(
        ASKED, **{"ticket_hash": f"t{number}", "password_hash": f"p{number}", "secret_hash": f"s{number}"} | changes
    )


def open_one(database: DirectDatabase, registration: Registration, settings: RsConfig = SETTINGS) -> int:
    return database.now(open_registration, registration, settings)


def prove(
    database: DirectDatabase, number: int, settings: RsConfig = SETTINGS, private: bool = False
) -> Registration:
    return database.now(prove_registration, number, private, settings, NOW)


def test_one_comes_back_equal(database: DirectDatabase) -> None:
    number = open_one(database, ASKED)
    assert database.now(get_registration, number, NOW) == attrs.evolve(ASKED, number=number)
    assert open_one(database, ASKED) == number  # a commit that got lost
    plain = another(wishes=Wishes(), contact="", kind=Proves.PASSWORD, folders=(SITE, "https://b/\u00e4'\"\\%_/"))
    second = open_one(database, plain)
    assert second == number + 1
    assert database.now(list_registrations, NOW) == [
        attrs.evolve(ASKED, number=number),
        attrs.evolve(plain, number=second),
    ]
    for none in (0, -1, 99, 2**80):
        assert database.now(get_registration, none, NOW) is None


def test_what_has_expired_is_not_there_and_goes(database: DirectDatabase) -> None:
    number, later = open_one(database, ASKED), open_one(database, another(expires=NOW + 101))
    end = NOW + 100
    assert database.now(get_registration, number, end - 1) is not None
    assert database.now(get_registration, number, end) is None
    with pytest.raises(RegistrationRefused, match="expired"):
        database.now(prove_registration, number, False, SETTINGS, end)
    assert [each.number for each in database.now(list_registrations, end)] == [later]
    assert database.now(remove_expired, end) == 1 and database.now(remove_expired, end) == 0
    assert database.query("SELECT COUNT(*) FROM registrations") == [(1,)]
    # Its number is not given again, not even when it was the last one.
    database.now(remove_registration, later)
    assert open_one(database, another()) == later + 1


def test_a_proof_makes_a_provider_once(database: DirectDatabase) -> None:
    number = open_one(database, ASKED)
    done = prove(database, number)
    assert (done.state, done.number) == (Progress.DONE, number)
    assert database.now(get_provider, done.pid) == Provider(
        pid=done.pid,
        roots=(SITE,),
        password_hash="password",
        bandwidth_bytes=1000,
        hours="0-8",
        timezone="Europe/Amsterdam",
        priority=1,
        files_max=5,
        space_max_bytes=None,
        full_sets=3,
        contact="me@example.org",
    )
    assert prove(database, number) == done
    assert database.now(approve_registration, number, SETTINGS, NOW) == done
    assert len(database.now(list_providers)) == 1


def test_a_private_site_stays_one(database: DirectDatabase) -> None:
    done = prove(database, open_one(database, ASKED), private=True)
    provider = database.now(get_provider, done.pid)
    assert provider is not None and provider.allow_private


def test_the_operator_approves(database: DirectDatabase) -> None:
    number = open_one(database, ASKED)
    with pytest.raises(RegistrationRefused) as caught:
        database.now(approve_registration, number, APPROVAL, NOW)
    assert caught.value.kind == "not-proven"
    waiting = prove(database, number, APPROVAL, private=True)
    assert (waiting.state, waiting.pid, waiting.expires) == (Progress.PROVEN, 0, NOW + APPROVAL.approval_expiry)
    assert prove(database, number, APPROVAL) == waiting
    assert database.now(list_providers) == []
    done = database.now(approve_registration, number, APPROVAL, NOW)
    assert database.now(approve_registration, number, APPROVAL, NOW) == done
    (provider,) = database.now(list_providers)
    assert (provider.pid, provider.allow_private) == (done.pid, True)


def test_two_further_roots_at_once(
    database: DirectDatabase, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is lost, however they meet."""
    pid = database.now(add_provider, Provider(0, (SITE,), "hash"))
    folders = ["https://b.example.org/", "https://c.example.org/"]
    more = {"kind": Proves.ROOT, "pid": pid, "password_hash": ""}
    numbers = [open_one(database, another(folders=(folder,), **more)) for folder in folders]
    meeting = Barrier(2, timeout=1)

    def together(*args: Any) -> None:
        with suppress(BrokenBarrierError):  # one of them waits for the other one's transaction
            meeting.wait()
        change_provider(*args)

    monkeypatch.setattr(registrations, "change_provider", together)

    def prove_one(number: int) -> None:
        own = DirectDatabase(backend.url, backend.home)
        try:
            prove(own, number)
        finally:
            own.blocking.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(prove_one, numbers))
    provider = database.now(get_provider, pid)
    assert provider is not None and set(provider.roots) == {SITE, *folders}


def test_a_further_root(database: DirectDatabase) -> None:
    pid = database.now(add_provider, Provider(0, (SITE,), "hash", priority=2, contact="x@y"))
    more = another(kind=Proves.ROOT, pid=pid, password_hash="", folders=("https://b.example.org/x/",))
    number = open_one(database, more)
    for _ in range(2):
        assert prove(database, number).pid == pid
        provider = database.now(get_provider, pid)
        assert provider == Provider(pid, (SITE, "https://b.example.org/x/"), "hash", priority=2, contact="x@y")
    assert database.query("SELECT kind, pid FROM orders") == [("provider-changed", pid)]
    # One that it has already changes nothing; one too many is refused.
    prove(database, open_one(database, attrs.evolve(more, ticket_hash="again")))
    assert database.now(get_provider, pid) == provider
    small = attrs.evolve(SETTINGS, roots_max=2)
    third = open_one(database, another(kind=Proves.ROOT, pid=pid, folders=("http://c/",)))
    with pytest.raises(RegistrationRefused, match="2 roots"):
        prove(database, third, small)
    assert database.now(get_provider, pid) == provider


def test_a_new_password(database: DirectDatabase) -> None:
    pid = database.now(add_provider, Provider(0, (SITE, "http://b/"), "hash"))
    asked = another(kind=Proves.PASSWORD, pid=pid, password_hash="new", folders=("http://b/", SITE))
    # It needs nobody's approval: nothing new is allowed by it.
    assert prove(database, open_one(database, asked), APPROVAL).state is Progress.DONE
    provider = database.now(get_provider, pid)
    assert provider is not None and (provider.password_hash, provider.roots) == ("new", (SITE, "http://b/"))


@pytest.mark.parametrize("folders", [(SITE,), (SITE, "http://b/", "http://c/"), ("http://b/",)])
def test_a_password_needs_a_proof_of_all_roots(database: DirectDatabase, folders: tuple[str, ...]) -> None:
    pid = database.now(add_provider, Provider(0, (SITE, "http://b/"), "hash"))
    number = open_one(database, another(kind=Proves.PASSWORD, pid=pid, folders=folders))
    with pytest.raises(RegistrationRefused) as caught:
        prove(database, number)
    assert caught.value.kind == "changed"
    provider = database.now(get_provider, pid)
    assert provider is not None and provider.password_hash == "hash"


@pytest.mark.parametrize("kind", [Proves.ROOT, Proves.PASSWORD])
def test_a_provider_that_goes_meanwhile(database: DirectDatabase, kind: Proves) -> None:
    pid = database.now(add_provider, Provider(0, (SITE,), "hash"))
    number = open_one(database, another(kind=kind, pid=pid))
    database.now(order_removal, pid)
    with pytest.raises(RegistrationRefused) as caught:
        prove(database, number)
    assert caught.value.kind == "gone"


def test_nobody_locks_out_who_has_the_host(database: DirectDatabase) -> None:
    few = attrs.evolve(SETTINGS, providers_per_site=2, providers_per_host=4)

    def register(folder: str) -> None:
        prove(database, open_one(database, another(folders=(folder,))), few)

    for folder in ("http://h/~a/", "http://h/~a/1/"):
        register(folder)
    for folder in ("http://h/~a/2/", "https://h/~a/1/"):
        with pytest.raises(RegistrationRefused, match="2 providers already have roots on h/~a"):
            register(folder)
    register("http://h/~b/")  # a neighbour
    register("https://h/")  # the owner of them all: what lies below does not count
    register("http://h/")
    with pytest.raises(RegistrationRefused, match="2 providers already have roots on h/"):
        register("http://h/")
    with pytest.raises(RegistrationRefused, match="4 providers already have roots on h"):
        register("http://h/~c/")


def test_not_too_many_providers_on_one_host(database: DirectDatabase) -> None:
    few = attrs.evolve(SETTINGS, providers_per_host=2)
    numbers = [open_one(database, another(folders=(f"http://a_b/{name}/",))) for name in "abc"]
    first = prove(database, numbers[0], few)
    prove(database, numbers[1], few)
    with pytest.raises(RegistrationRefused, match="2 providers already have roots on a_b"):
        prove(database, numbers[2], few)
    # "_" stands for itself; another port is another site; https is not; a folder on it may be somebody else's.
    for other in ("http://axb/", "http://a_b:8080/", "http://c/a_b/"):
        prove(database, open_one(database, another(folders=(other,))), few)
    with pytest.raises(RegistrationRefused):
        prove(database, open_one(database, another(folders=("https://a_b/d/",))), few)
    # Who is there already may have more of it; and there is room when one goes.
    prove(database, open_one(database, another(kind=Proves.ROOT, pid=first.pid, folders=("https://a_b/d/",))), few)
    database.now(order_removal, first.pid)
    prove(database, numbers[2], few)


def test_not_too_many_are_under_way(database: DirectDatabase) -> None:
    few = attrs.evolve(SETTINGS, pending_max=2)
    numbers = [open_one(database, another(), few) for _ in range(2)]
    with pytest.raises(RegistrationRefused) as caught:
        open_one(database, another(), few)
    assert caught.value.kind == "full" and caught.value.retry_seconds > 0
    prove(database, numbers[0])
    open_one(database, another(), few)


def test_what_the_server_asks_for(database: DirectDatabase) -> None:
    store = RegistrationStore(database, SETTINGS)  # type: ignore[arg-type]  # stands in for a Database
    database.lose = 1
    number = result_of(store.open(ASKED))
    found = result_of(store.find(number, NOW))
    assert found == attrs.evolve(ASKED, number=number)
    database.lose = 1
    done = result_of(store.prove(number, False, NOW))
    provider = result_of(store.provider(done.pid))
    assert provider is not None and provider.roots == (SITE,)
    assert len(database.now(list_providers)) == 1
    database.now(order_removal, done.pid)
    assert result_of(store.provider(done.pid)) is None
    assert result_of(store.remove_expired(NOW + 10**6)) == 1
    assert result_of(store.find(number, NOW)) is None


def test_what_stands_in_the_table_is_no_secret(database: DirectDatabase) -> None:
    assert "ticket" not in repr(ASKED) and "password=" not in repr(ASKED).replace("PASSWORD", "")
