"""Registrations (``registrations``), and their effect on ``pidb`` and ``proots``.

The registration server and lcc-admin use the same functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from lcc.config import RsConfig
from lcc.errors import RegistrationRefused
from lcc.interfaces import IRegistrationStore
from lcc.model import Progress, Proves, Provider, Registration, Wishes
from lcc.storage.database.database import Database
from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import (
    ProviderExists,
    ProviderMoves,
    change_provider,
    locked_provider,
    registered_provider,
)
from lcc.storage.providers.watched import SiteMoved, register_provider

NUMBER_MAX = 2**31 - 1

MOVING_SECONDS = 30.0
"""After so long a provider that stands still, because it moves, may be changed."""
_COLUMNS = (
    *("number", "kind", "state", "ticket", "secret", "password", "file", "folders", "pid", "contact"),
    *("bandwidth", "timeofday", "timezone", "priority", "private", "created", "expires"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM registrations"
_SITES = (
    "SELECT DISTINCT proots.pid, root FROM proots JOIN pidb ON pidb.pid = proots.pid"
    " WHERE removed = 0 AND watched = 0"
)


class SiteCounts(NamedTuple):
    """Providers that count against the limits of a site.

    :ivar near: with roots in the same first folder.
    :ivar there: with roots on the host.
    """

    near: int
    there: int


NOWHERE: Mapping[str, SiteCounts] = MappingProxyType({})


@implementer(IRegistrationStore)
class RegistrationStore:
    """The store of the registration server."""

    def __init__(self, database: Database, settings: RsConfig) -> None:
        self._database = database
        self._settings = settings

    def open(self, registration: Registration) -> Deferred[int]:
        return self._database.write(_open_here, registration, self._settings)

    def find(self, number: int, now: int) -> Deferred[Registration | None]:
        return self._database.interact(get_registration, number, now)

    def prove(self, number: int, private: bool, now: int) -> Deferred[Registration]:
        return self._database.write(prove_registration, number, private, self._settings, now)

    def provider(self, pid: int) -> Deferred[Provider | None]:
        return self._database.interact(registered_provider, pid)

    def approve(self, number: int, now: int) -> Deferred[Registration]:
        return self._database.write(approve_registration, number, self._settings, now)

    def remove_expired(self, now: int) -> Deferred[int]:
        return self._database.write(remove_expired, now)


def _open_here(txn: Txn, registration: Registration, settings: RsConfig) -> int:
    check_sites(txn, registration, settings)
    return open_registration(txn, registration, settings)


def get_registration(txn: Txn, number: int, now: int) -> Registration | None:
    """The registration of this number; None: unknown or expired."""
    row = txn.one(f"{_SELECT} WHERE number = ?", [number]) if 0 < number <= NUMBER_MAX else None
    registration = None if row is None else _registration(row)
    return None if registration is None or registration.expires <= now else registration


def list_registrations(txn: Txn, now: int) -> list[Registration]:
    """Pending registrations, and recent ones, by number."""
    return [_registration(row) for row in txn.query(f"{_SELECT} WHERE expires > ? ORDER BY number", [now])]


def registrations_page(txn: Txn, now: int, proven: bool, after: int, limit: int) -> list[Registration]:
    """Some of them, by number.

    :param proven: only those that wait for approval.
    :param after: the number before the first one.
    """
    state = "AND state = ?" if proven else ""
    values = [Progress.PROVEN.value] if proven else []
    sql = f"{_SELECT} WHERE number > ? AND expires > ? {state} ORDER BY number LIMIT ?"
    return [_registration(row) for row in txn.query(sql, [after, now, *values, limit])]


def count_proven(txn: Txn, now: int) -> int:
    """How many wait for approval."""
    sql = "SELECT COUNT(*) FROM registrations WHERE state = ? AND expires > ?"
    return int(txn.value(sql, [Progress.PROVEN.value, now], 0))


def open_registration(txn: Txn, registration: Registration, settings: RsConfig) -> int:
    """Store a new one.

    :returns: its number.
    :raises RegistrationRefused: too many are pending.
    """
    # A repeated interaction finds the (salted, so unique) hash if the first attempt was committed.
    done = txn.value("SELECT number FROM registrations WHERE ticket = ?", [registration.ticket_hash])
    if done is not None:
        return int(done)
    number = locked_counter(txn, "registration") + 1
    if number > NUMBER_MAX:
        raise RegistrationRefused("full", "all registration numbers are used up")
    pending = txn.value("SELECT COUNT(*) FROM registrations WHERE state <> ?", [Progress.DONE.value], 0)
    if pending >= settings.pending_max:
        raise RegistrationRefused("full", "too many registrations are pending, try again later", {}, 3600.0)
    txn.execute("UPDATE meta SET value = ? WHERE name = 'registration'", [str(number)])
    _insert(txn, attrs.evolve(registration, number=number))
    return number


def prove_registration(txn: Txn, number: int, private: bool, settings: RsConfig, now: int) -> Registration:
    """The secret was found: carry out the registration, or let it wait for approval.

    :param private: it was found on a private address.
    :raises RegistrationRefused: it cannot be carried out.
    """
    registration = note_proof(txn, number, private, settings, now)
    return registration if registration.state is not Progress.ASKED else _carry_out(txn, registration, settings)


def note_proof(txn: Txn, number: int, private: bool, settings: RsConfig, now: int) -> Registration:
    """The secret was found.

    :returns: the registration: if its state is still "asked", it is to be carried out.
    """
    registration = pending_registration(txn, number, now)
    if registration.state is Progress.ASKED:
        registration = attrs.evolve(registration, private=private)
        if settings.approval and registration.kind is not Proves.PASSWORD:
            expires = now + settings.approval_expiry
            registration = attrs.evolve(registration, state=Progress.PROVEN, expires=expires)
        replace_registration(txn, registration)
    return registration


def approve_registration(txn: Txn, number: int, settings: RsConfig, now: int) -> Registration:
    """The operator approves: carry out a proven registration.

    :raises RegistrationRefused: it is not proven, or cannot be carried out.
    """
    registration = proven_registration(txn, number, now)
    return registration if registration.state is Progress.DONE else _carry_out(txn, registration, settings)


def proven_registration(txn: Txn, number: int, now: int) -> Registration:
    """A registration that is proven, or done.

    :raises RegistrationRefused: it is neither.
    """
    registration = pending_registration(txn, number, now)
    if registration.state is Progress.ASKED:
        raise RegistrationRefused("not-proven", f"the secret of registration {number} has not been found yet")
    return registration


def remove_registration(txn: Txn, number: int) -> bool:
    """Delete one; False: unknown number."""
    there = txn.one("SELECT 1 FROM registrations WHERE number = ?", [number]) is not None
    txn.execute("DELETE FROM registrations WHERE number = ?", [number])
    return there


def remove_expired(txn: Txn, now: int) -> int:
    """Delete expired ones.

    :returns: their number.
    """
    count = txn.value("SELECT COUNT(*) FROM registrations WHERE expires <= ?", [now], 0)
    txn.execute("DELETE FROM registrations WHERE expires <= ?", [now])
    return int(count)


def pending_registration(txn: Txn, number: int, now: int) -> Registration:
    """A registration, locked until this transaction ends.

    :raises RegistrationRefused: there is none.
    """
    # Locked: the same secret may be found twice at the same time.
    txn.query(f"SELECT number FROM registrations WHERE number = ?{txn.for_update}", [number])
    registration = get_registration(txn, number, now)
    if registration is None:
        raise RegistrationRefused("unknown", f"there is no registration {number}, or it has expired")
    return registration


def _carry_out(txn: Txn, registration: Registration, settings: RsConfig) -> Registration:
    return finish_registration(txn, registration, apply_registration(txn, registration, settings))


def finish_registration(txn: Txn, registration: Registration, pid: int) -> Registration:
    """It is carried out; this is its provider."""
    done = attrs.evolve(registration, pid=pid, state=Progress.DONE)
    replace_registration(txn, done)
    return done


def apply_registration(
    txn: Txn, registration: Registration, settings: RsConfig, elsewhere: Mapping[str, SiteCounts] = NOWHERE
) -> int:
    """Do to the providers what a registration is for; however often, it is done once.

    :param registration: the id of a new provider is the one that it has (0: the next one).
    :param elsewhere: by folder, what other LCCs behind the same front end count.
    :returns: the provider's id.
    :raises RegistrationRefused: it cannot be done.
    """
    do = {Proves.PROVIDER: _new_provider, Proves.ROOT: _new_root, Proves.PASSWORD: _new_password}
    return do[registration.kind](txn, registration, settings, elsewhere)


def _new_provider(
    txn: Txn, registration: Registration, settings: RsConfig, elsewhere: Mapping[str, SiteCounts]
) -> int:
    done = txn.value("SELECT pid FROM pidb WHERE password = ?", [registration.password_hash])
    if done is not None:
        return int(done)
    check_sites(txn, registration, settings, elsewhere)
    provider = Provider(
        pid=registration.pid,
        roots=registration.folders,
        password_hash=registration.password_hash,
        files_max=settings.files_max or None,
        space_max_bytes=settings.space_max_bytes or None,
        full_sets=settings.full_sets,
        allow_private=registration.private,
        contact=registration.contact,
        **attrs.asdict(registration.wishes),
    )
    try:
        return register_provider(txn, provider)
    except ProviderExists as error:
        raise RegistrationRefused("full", str(error)) from None
    except ProviderMoves as error:  # it is watched
        raise RegistrationRefused("busy", error.text, {}, MOVING_SECONDS) from None
    except SiteMoved as error:
        if registration.pid:  # since the front end has looked
            raise RegistrationRefused("busy", error.text, {}, MOVING_SECONDS) from None
        raise RegistrationRefused("changed", f"{error.text}: register at the front end") from None


def _new_root(txn: Txn, registration: Registration, settings: RsConfig, elsewhere: Mapping[str, SiteCounts]) -> int:
    provider = _provider(txn, registration.pid)
    roots = tuple(dict.fromkeys([*provider.roots, *registration.folders]))
    if len(roots) > settings.roots_max:
        raise RegistrationRefused("full", f"a provider may have {settings.roots_max} roots here")
    check_sites(txn, registration, settings, elsewhere)
    private = provider.allow_private or registration.private
    _change(txn, attrs.evolve(provider, roots=roots, allow_private=private))
    return provider.pid


def _new_password(
    txn: Txn, registration: Registration, _settings: RsConfig, _elsewhere: Mapping[str, SiteCounts]
) -> int:
    provider = _provider(txn, registration.pid)
    if set(provider.roots) != set(registration.folders):
        text = "the provider's roots have changed since: ask for a new password again"
        raise RegistrationRefused("changed", text)
    _change(txn, attrs.evolve(provider, password_hash=registration.password_hash))
    return provider.pid


def _change(txn: Txn, provider: Provider) -> None:
    try:
        change_provider(txn, provider)
    except ProviderMoves as error:
        raise RegistrationRefused("busy", error.text, {}, MOVING_SECONDS) from None


def _provider(txn: Txn, pid: int) -> Provider:
    provider = locked_provider(txn, pid)
    if provider is None or provider.removed or provider.watched:
        raise RegistrationRefused("gone", f"provider {pid} is no longer registered")
    return provider


def check_sites(
    txn: Txn, registration: Registration, settings: RsConfig, elsewhere: Mapping[str, SiteCounts] = NOWHERE
) -> None:
    """Limit the providers of the sites of a registration; a new password needs no room.

    Roots below the proven folder do not count: its owner could have them removed, and strangers with folders below it
    must not lock the owner out.  Roots in another first folder count for the host only, with a higher limit.

    :param elsewhere: by folder, what other LCCs behind the same front end count.
    :raises RegistrationRefused: too many providers have roots in this part of its host, or on the host.
    """
    if registration.kind is Proves.PASSWORD:
        return
    pid = registration.pid if registration.kind is Proves.ROOT else 0
    for folder in registration.folders:
        near, there = _providers_at(txn, folder, pid)
        if pid not in there:
            others = elsewhere.get(folder, SiteCounts(0, 0))
            check_counts(folder, SiteCounts(len(near) + others.near, len(there) + others.there), settings)


def check_counts(folder: str, counts: SiteCounts, settings: RsConfig) -> None:
    """
    :raises RegistrationRefused: these are too many providers for one more.
    """
    for count, most, where in (
        (counts.near, settings.providers_per_site, f"{_host(folder)}/{_first_folder(folder)}"),
        (counts.there, settings.providers_per_host, _host(folder)),
    ):
        if count >= most:
            text = f"{most} providers already have roots on {where}: ask the operator"
            raise RegistrationRefused("full", text, {"site": text})


def site_counts(txn: Txn, folder: str) -> SiteCounts:
    """The providers that count against the limits of a site."""
    near, there = _providers_at(txn, folder, 0)
    return SiteCounts(len(near), len(there))


def _providers_at(txn: Txn, folder: str, pid: int) -> tuple[set[int], set[int]]:
    """Providers with roots in this part of its host, and on the host, as far as they count."""
    host = _host(folder)
    # "_" in a host stands for any character in LIKE: what comes back is looked at again.
    rows = txn.query(f"{_SITES} AND root LIKE ?", [f"http%://{host}/%"])
    there: set[int] = set()
    near: set[int] = set()
    proven = folder.partition("://")[2]
    for other, root in rows:
        place = root.partition("://")[2]
        if not place.startswith(f"{host}/") or (other != pid and place != proven and place.startswith(proven)):
            continue
        there.add(other)
        if _first_folder(root) == _first_folder(folder):
            near.add(other)
    return near, there


def _host(root: str) -> str:
    return root.partition("://")[2].partition("/")[0]


def _first_folder(root: str) -> str:
    """The first path segment, which names the owner on a shared host; empty: the host itself."""
    folder, slash, _ = root.partition("://")[2].partition("/")[2].partition("/")
    return folder if slash else ""


def _registration(row: tuple[Any, ...]) -> Registration:
    fields = dict(zip(_COLUMNS, row, strict=True))
    return Registration(
        kind=Proves(fields["kind"]),
        ticket_hash=fields["ticket"],
        secret_hash=fields["secret"],
        password_hash=fields["password"],
        file=fields["file"],
        folders=tuple(json.loads(fields["folders"])),
        created=fields["created"],
        expires=fields["expires"],
        contact=fields["contact"],
        wishes=Wishes(fields["bandwidth"], fields["timeofday"], fields["timezone"], fields["priority"]),
        pid=fields["pid"],
        number=fields["number"],
        state=Progress(fields["state"]),
        private=bool(fields["private"]),
    )


def _values(registration: Registration) -> list[Any]:
    wishes = registration.wishes
    return [
        registration.number,
        registration.kind.value,
        registration.state.value,
        registration.ticket_hash,
        registration.secret_hash,
        registration.password_hash,
        registration.file,
        json.dumps(registration.folders),
        registration.pid,
        registration.contact,
        wishes.bandwidth_bytes,
        wishes.hours,
        wishes.timezone,
        wishes.priority,
        int(registration.private),
        registration.created,
        registration.expires,
    ]


def _insert(txn: Txn, registration: Registration) -> None:
    txn.insert("registrations", _COLUMNS, [_values(registration)])


def replace_registration(txn: Txn, registration: Registration) -> None:
    """Store what has become of it."""
    txn.upsert("registrations", _COLUMNS, [_values(registration)], ["number"])
