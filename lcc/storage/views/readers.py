"""Who reads the cache, how far behind, and when last (``cureads``): written by the content user API, read by the web
monitor."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from lcc.storage.database.tables.status import last_change
from lcc.storage.database.tables.timeline import known_upto
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.content_users import ContentUser, list_content_users

_COLUMNS = ("cuid", "last_time", "timeline", "number")


@attrs.frozen
class Reading:
    """What a content user did last.

    :ivar last_time: of its last request, seconds since 1970.
    :ivar timeline: of the last change that it has; empty: it began from the beginning.
    :ivar number: of that change; None: it has not asked for changes.
    """

    last_time: int
    timeline: str = ""
    number: int | None = None


@attrs.frozen
class Reader:
    """A content user, and how far it is.

    :ivar user: None: whoever has no token.
    :ivar last_time: of its last request, seconds since 1970; None: it never made one.
    :ivar behind: changes that it does not have; None: it has not asked for changes.
    :ivar behind_time: when the oldest of them was made; None: there is none.
    :ivar lost: the changes since are no longer known: it has to start from the beginning.
    """

    user: ContentUser | None
    last_time: int | None = None
    behind: int | None = None
    behind_time: int | None = None
    lost: bool = False


def note_readings(txn: Txn, readings: Mapping[int, Reading]) -> None:
    """Write what users did last.

    :param readings: by their ids; 0: whoever has no token.
    """
    rows = txn.query_in(f"SELECT {', '.join(_COLUMNS)} FROM cureads WHERE cuid IN ({{in}})", sorted(readings))
    known = {cuid: Reading(*rest) for cuid, *rest in rows}
    values = []
    for cuid, now in sorted(readings.items()):
        before = known.get(cuid, now)
        place = before if now.number is None else now
        values.append((cuid, max(before.last_time, now.last_time), place.timeline, place.number))
    txn.upsert("cureads", _COLUMNS, values, ["cuid"])


def list_readers(txn: Txn, limit: int) -> list[Reader]:
    """Content users, by id; first whoever has no token, if somebody has read so.

    :param limit: so many, and one more if there are more.
    """
    known = {cuid: Reading(*rest) for cuid, *rest in txn.query(f"SELECT {', '.join(_COLUMNS)} FROM cureads")}
    latest = last_change(txn)
    readers = [Reader(None, known[0].last_time)] if 0 in known else []
    return readers + [_reader(txn, user, known.get(user.cuid), latest) for user in list_content_users(txn)[:limit]]


def count_readers(txn: Txn) -> tuple[int, int | None]:
    """How many content users there are, and the time of the last request."""
    users = txn.value("SELECT COUNT(*) FROM cudb", (), 0)
    return int(users), txn.value("SELECT MAX(last_time) FROM cureads")


def _reader(txn: Txn, user: ContentUser, reading: Reading | None, latest: int) -> Reader:
    if reading is None or reading.last_time < user.created:  # that was another one with the same id
        return Reader(user)
    if reading.number is None:
        return Reader(user, reading.last_time)
    upto = known_upto(txn, reading.timeline) if reading.timeline else latest
    if upto is None or reading.number > upto:
        return Reader(user, reading.last_time, lost=True)
    oldest = txn.value(
        "SELECT change_time FROM lccurl WHERE change_number > ? ORDER BY change_number LIMIT 1", [reading.number]
    )
    return Reader(user, reading.last_time, latest - reading.number, oldest or None)
