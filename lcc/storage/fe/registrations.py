"""The front end's side of a registration: its row, and that of PMDB, which is there before the provider's own."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from lcc.model import Progress, Registration
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.placements import made, put_making, unmade
from lcc.storage.providers.registrations import finish_registration, pending_registration, replace_registration


class Making(NamedTuple):
    """A provider that is being made.

    :ivar registration: has its id.
    :ivar subid: where.
    """

    registration: Registration
    subid: int


def begin_making(txn: Txn, number: int, pid: int, subid: int, now: int) -> Making:
    """A provider is about to be made for a registration: its id and its place are durable before it is.

    :returns: what was begun first, if somebody else has begun.
    """
    registration = pending_registration(txn, number, now)
    if not registration.pid:
        registration = attrs.evolve(registration, pid=pid)
        replace_registration(txn, registration)
    place = put_making(txn, registration.pid, subid, now)
    return Making(registration, place.subid)


def give_up_making(txn: Txn, making: Making, now: int) -> None:
    """It cannot be made."""
    registration = pending_registration(txn, making.registration.number, now)
    if registration.state is not Progress.DONE and registration.pid == making.registration.pid:
        unmade(txn, registration.pid)
        replace_registration(txn, attrs.evolve(registration, pid=0))


def end_making(txn: Txn, registration: Registration, pid: int, subid: int, now: int) -> Registration:
    """The provider is there.

    :param pid: its id; another one than was begun with, if the site was watched meanwhile.
    """
    if pid != registration.pid:
        unmade(txn, registration.pid)
        put_making(txn, pid, subid, now)
    made(txn, pid, now)
    return finish_registration(txn, registration, pid)


def unfinished(txn: Txn, now: int, seconds: int, limit: int) -> list[int]:
    """Registrations whose providers were about to be made longer ago than this; or will be, as the clock was set."""
    sql = (
        "SELECT r.number FROM registrations r JOIN pmdb p ON p.pid = r.pid"
        " WHERE p.state = 'making' AND p.changed_time NOT BETWEEN ? AND ? AND r.state <> ? ORDER BY r.number LIMIT ?"
    )
    return [number for (number,) in txn.query(sql, [now - seconds, now + seconds, Progress.DONE.value, limit])]
