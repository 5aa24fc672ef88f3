"""Rows of the queue, and what work on the queue comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from lcc.model.providers import Provider
from lcc.model.sets import SetAnswer, UrlNotice


class Stored(NamedTuple):
    """Content that the cache has of a queued URL, and by which a server can tell that it has not changed.

    :ivar token: names the content, in the order and in its result; see :func:`content_token`.
    :ivar etag: as the server sent it; empty: none.
    :ivar modified: the server's Last-Modified; None: it said nothing usable.
    """

    token: str
    etag: str
    modified: int | None
    size_bytes: int


def content_token(machine: int | None, file: int | None) -> str:
    """What names the content of this file in an order; never the same for two contents."""
    return f"{machine}.{file}"


class QueueRow(NamedTuple):
    """A row of ``qdb``.

    :ivar delete: the row's operation is "nothing": a deletion came after the fetch was queued.
    :ivar generation: grows with every change of the row; a finished fetch removes only the generation it was sent
        out with.
    :ivar attempts: fetches that have failed by an error of the URL, since it was told last.
    :ivar stored: what a server may confirm instead of sending it again; None: it is fetched in any case.
    :ivar unreached: fetches that did not reach its site, since it was told last.
    :ivar source, words: :class:`lcc.model.sources.Standing`.
    """

    key: bytes
    pid: int
    psetid: int
    slot: int
    seq: int
    delete: bool
    generation: int
    connseq: int
    attempts: int
    notice: UrlNotice
    stored: Stored | None = None
    unreached: int = 0
    source: int = 1
    words: str = ""


class Waiting(NamedTuple):
    """A provider with something to fetch now.

    :ivar psetid: its earliest set.
    """

    psetid: int
    pid: int
    priority: int = 0


class Delay(NamedTuple):
    """A provider that must wait, as it is saved.

    :ivar pid: 0: the whole site (its bandwidth).
    :ivar until_time: seconds since 1970; 0: it does not wait now.
    :ivar reason: ``bandwidth``, ``interval``, ``hours``, ``site-error`` or ``retry-after``; empty: none.
    :ivar code: the error, for ``site-error`` and ``retry-after``.
    :ivar failures: errors of its site in a row; they make the next delay longer.  A delay with neither time nor
        failures is none: it is forgotten.
    :ivar owed_time: when what it has fetched is paid for; 0: it is.  It may wait longer, for another reason.
    :ivar rate: bytes per second, that ``owed_time`` was reckoned with.
    :ivar since_time: of the first of those failures; 0: there is none.
    :ivar saved_time: when it was saved, on the wall clock that the other times are of; 0: that is not known.
    """

    pid: int
    until_time: float
    reason: str
    code: int = 0
    failures: int = 0
    owed_time: float = 0.0
    rate: int = 0
    since_time: float = 0.0
    saved_time: float = 0.0


class SlotPage(NamedTuple):
    """A part of a time slot that was opened.

    :ivar earliest: per provider its earliest row: ``(pid, psetid, seq, priority)``.
    :ivar upto: all rows of the slot up to this ``(psetid, seq)`` are opened; None: all there are.
    """

    earliest: list[tuple[int, int, int, int]]
    upto: tuple[int, int] | None


class RetryPage(NamedTuple):
    """A part of what waited to be tried again, and is due.

    :ivar earliest: as of :class:`SlotPage`.
    :ivar next_time: when the next rows are due (the past: there are more now); None: nothing waits.
    """

    earliest: list[tuple[int, int, int, int]]
    next_time: int | None


class Cursor(NamedTuple):
    """Where reading ahead goes on: behind ``(psetid, seq)`` of this provider; (0, 0): from the start.

    :ivar partial: only rows of sets that are not full sets.
    """

    pid: int
    psetid: int
    seq: int
    limit: int
    partial: bool = False


class Ahead(NamedTuple):
    """What was read ahead for one provider, in queue order; fewer rows than asked for: there are no more.

    :ivar full_left: where the last row is one of a full set: rows that this set has in the queue; else 0.
    """

    pid: int
    rows: list[QueueRow]
    full_left: int = 0


class ReadAhead(NamedTuple):
    """What was read of the queue.

    :ivar aheads: one for each cursor, in order.
    :ivar providers: those that were asked for, and that there are.
    """

    aheads: list[Ahead]
    providers: dict[int, Provider]


@attrs.frozen
class Absorbed:
    """What became of a batch of pieces.

    :ivar answers: for each set that ended in this batch, in order.
    :ivar queued: providers that got new queue rows, each with the earliest ``(psetid, seq)`` of them.
    :ivar touched: keys of rows that were already queued and have changed.
    :ivar deletes: content was deleted: there are new rows in ``fsmdb``.
    :ivar priorities: of the providers in ``queued``, those that have one above 0.
    """

    answers: tuple[SetAnswer, ...]
    queued: dict[int, tuple[int, int]]
    touched: frozenset[bytes]
    deletes: bool
    priorities: dict[int, int] = attrs.field(factory=dict)


@attrs.frozen
class Recorded:
    """What became of a batch of fetch results.

    :ivar again: rows whose generation had moved on: they are still queued, as given here, in their old place.
    :ivar held: provider -> code, for errors that hold the whole provider back.
    :ivar requeued: provider -> earliest ``(psetid, seq)`` of the rows that went to the end of their set.
    :ivar deletes: there are new rows in ``fsmdb``.
    :ivar retry_time: when the first of the rows that have to wait to be tried again is due; None: there are none.
    :ivar change: the number of the cache's last change, this batch included; 0: nothing was recorded.
    """

    again: tuple[QueueRow, ...]
    held: dict[int, int]
    requeued: dict[int, tuple[int, int]]
    deletes: bool
    retry_time: int | None = None
    change: int = 0


@attrs.frozen
class CarriedOut:
    """What became of orders of ``lcc-admin``.

    :ivar finished: ``(kind, pid, code)`` of each order that is carried out, e.g. ``("retry", 7, 503)``; pid 0: all;
        code 0: any.
    :ivar work: what it did to the queue.
    :ivar more: there is more to do.
    """

    finished: tuple[tuple[str, int, int], ...]
    work: Absorbed
    more: bool


@attrs.frozen
class Kept:
    """What a page of housekeeping did.

    :ivar work: to the queue.
    :ivar more: there is more to do now.
    """

    work: Absorbed
    more: bool


@attrs.frozen
class Claim:
    """A queue manager's right to write.

    :ivar run: the fencing epoch; each write checks that it is still the newest.
    :ivar database_epoch: names this database; a new one after a restore.
    :ivar saved_time: when the queue manager before this one said last how it is, on its wall clock (seconds since
        1970); 0: none ever did.
    :ivar saved_lease: how long its orders may be out, as it said, in seconds; 0: it did not.
    :ivar timeline: name of the timeline that begins with it (:mod:`lcc.storage.database.tables.timeline`).
    :ivar timelines: those before that the database has come from, as far as they are known: name -> highest
        generation of a row; orders of higher ones are lost.
    """

    run: int
    database_epoch: str
    saved_time: int = 0
    saved_lease: float = 0.0
    timeline: str = ""
    timelines: Mapping[str, int] = attrs.field(factory=dict)


class QueuedState(NamedTuple):
    """What the rules have to know of a queue row.

    :ivar fetch: it is to be fetched; False: its operation is "nothing".
    :ivar connseq, source, words: :class:`lcc.model.sources.Standing`.
    """

    fetch: bool
    connseq: int
    source: int = 1
    words: str = ""


class Quota(NamedTuple):
    """What a provider may use; None: without limit."""

    files_max: int | None
    space_max_bytes: int | None
