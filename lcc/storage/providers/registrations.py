"""Registrations (``registrations``), and their effect on ``pidb`` and ``proots``.

The registration server and lcc-admin use the same functions.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from lcc.config import RsConfig
from lcc.errors import RegistrationRefused
from lcc.interfaces import IRegistrationStore
from lcc.model import Progress, Proves, Provider, Registration, Wishes
from lcc.storage.database.database import Database
from lcc.storage.database.locked_counter import locked_counter
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import (
    ProviderExists,
    change_provider,
    locked_provider,
    registered_provider,
)
from lcc.storage.providers.watched import register_provider

NUMBER_MAX = 2**31 - 1

_COLUMNS = (
    *("number", "kind", "state", "ticket", "secret", "password", "file", "folders", "pid", "contact"),
    *("bandwidth", "timeofday", "timezone", "priority", "private", "created", "expires"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM registrations"
_SITES = (
    "SELECT DISTINCT proots.pid, root FROM proots JOIN pidb ON pidb.pid = proots.pid"
    " WHERE removed = 0 AND watched = 0"
)


@implementer(IRegistrationStore)
class RegistrationStore:
    """The store of the registration server."""

    def __init__(self, database: Database, settings: RsConfig) -> None:
        self._database = database
        self._settings = settings

    def open(self, registration: Registration) -> Deferred[int]:
        return self._database.write(open_registration, registration, self._settings)

    def find(self, number: int, now: int) -> Deferred[Registration | None]:
        return self._database.interact(get_registration, number, now)

    def prove(self, number: int, private: bool, now: int) -> Deferred[Registration]:
        return self._database.write(prove_registration, number, private, self._settings, now)

    def provider(self, pid: int) -> Deferred[Provider | None]:
        return self._database.interact(registered_provider, pid)

    def remove_expired(self, now: int) -> Deferred[int]:
        return self._database.write(remove_expired, now)


def get_registration(txn: Txn, number: int, now: int) -> Registration | None:
    """The registration of this number; None: unknown or expired."""
    row = txn.one(f"{_SELECT} WHERE number = ?", [number]) if 0 < number <= NUMBER_MAX else None
    registration = None if row is None else _registration(row)
    return None if registration is None or registration.expires <= now else registration


def list_registrations(txn: Txn, now: int) -> list[Registration]:
    """Pending registrations, and recent ones, by number."""
    return [_registration(row) for row in txn.query(f"{_SELECT} WHERE expires > ? ORDER BY number", [now])]


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
    registration = _pending(txn, number, now)
    if registration.state is not Progress.ASKED:
        return registration
    registration = attrs.evolve(registration, private=private)
    if settings.approval and registration.kind is not Proves.PASSWORD:
        waiting = attrs.evolve(registration, state=Progress.PROVEN, expires=now + settings.approval_expiry)
        _replace(txn, waiting)
        return waiting
    return _carry_out(txn, registration, settings)


def approve_registration(txn: Txn, number: int, settings: RsConfig, now: int) -> Registration:
    """The operator approves: carry out a proven registration.

    :raises RegistrationRefused: it is not proven, or cannot be carried out.
    """
    registration = _pending(txn, number, now)
    if registration.state is Progress.ASKED:
        raise RegistrationRefused("not-proven", f"the secret of registration {number} has not been found yet")
    return registration if registration.state is Progress.DONE else _carry_out(txn, registration, settings)


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


def _pending(txn: Txn, number: int, now: int) -> Registration:
    # Locked: the same secret may be found twice at the same time.
    txn.query(f"SELECT number FROM registrations WHERE number = ?{txn.for_update}", [number])
    registration = get_registration(txn, number, now)
    if registration is None:
        raise RegistrationRefused("unknown", f"there is no registration {number}, or it has expired")
    return registration


def _carry_out(txn: Txn, registration: Registration, settings: RsConfig) -> Registration:
    do = {Proves.PROVIDER: _new_provider, Proves.ROOT: _new_root, Proves.PASSWORD: _new_password}
    pid = do[registration.kind](txn, registration, settings)
    done = attrs.evolve(registration, pid=pid, state=Progress.DONE)
    _replace(txn, done)
    return done


def _new_provider(txn: Txn, registration: Registration, settings: RsConfig) -> int:
    for folder in registration.folders:
        _check_site(txn, folder, 0, settings)
    provider = Provider(
        pid=0,
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


def _new_root(txn: Txn, registration: Registration, settings: RsConfig) -> int:
    provider = _provider(txn, registration.pid)
    roots = tuple(dict.fromkeys([*provider.roots, *registration.folders]))
    if len(roots) > settings.roots_max:
        raise RegistrationRefused("full", f"a provider may have {settings.roots_max} roots here")
    for folder in registration.folders:
        _check_site(txn, folder, provider.pid, settings)
    private = provider.allow_private or registration.private
    change_provider(txn, attrs.evolve(provider, roots=roots, allow_private=private))
    return provider.pid


def _new_password(txn: Txn, registration: Registration, _settings: RsConfig) -> int:
    provider = _provider(txn, registration.pid)
    if set(provider.roots) != set(registration.folders):
        text = "the provider's roots have changed since: ask for a new password again"
        raise RegistrationRefused("changed", text)
    change_provider(txn, attrs.evolve(provider, password_hash=registration.password_hash))
    return provider.pid


def _provider(txn: Txn, pid: int) -> Provider:
    provider = locked_provider(txn, pid)
    if provider is None or provider.removed or provider.watched:
        raise RegistrationRefused("gone", f"provider {pid} is no longer registered")
    return provider


def _check_site(txn: Txn, folder: str, pid: int, settings: RsConfig) -> None:
    """Limit the providers of a site.

    Roots below the proven folder do not count: its owner could have them removed, and strangers with folders below it
    must not lock the owner out.  Roots in another first folder count for the host only, with a higher limit.

    :param pid: the provider that asks; 0: a new one.
    :raises RegistrationRefused: too many providers have roots in this part of its host, or on the host.
    """
    host = folder.partition("://")[2].partition("/")[0]
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
    if pid in there:
        return
    for found, most, where in (
        (near, settings.providers_per_site, f"{host}/{_first_folder(folder)}"),
        (there, settings.providers_per_host, host),
    ):
        if len(found) >= most:
            raise RegistrationRefused("full", f"{most} providers already have roots on {where}: ask the operator")


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


def _replace(txn: Txn, registration: Registration) -> None:
    txn.upsert("registrations", _COLUMNS, [_values(registration)], ["number"])
