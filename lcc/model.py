"""The values that the rooms of the LCC hand to each other.

All are immutable; units stand in the names.  Times are whole seconds since 1970 (UTC).  The ones that exist by the
million (a set's elements, queue rows) are named tuples, because those are the cheapest to make; the rest are frozen
attrs classes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

KEY_BYTES = 20
"""A URL's key: provider id (4 bytes, big-endian), 12 bytes of a hash of the normalised conceptual URL, 4 bytes of a
hash of the normalised mime type; the last four are zero where a deletion names no mime type ("all views")."""

FETCH_NOW = -1
"""The time slot of what may be fetched at any time (seed 002, section 6)."""

RETRY_SLOT_SECONDS = 4
"""What waits to be tried again stands in slots of this length (those of the seed's "bandwidth-delay" table).  Their
numbers are below :data:`FETCH_NOW` and come from the time when they end, so they need no period."""


def retry_slot(due: float) -> int:
    """The slot of a row that is to be tried again at this time (seconds since 1970), or up to a slot later."""
    return FETCH_NOW - 1 + int(-due // RETRY_SLOT_SECONDS)


def retry_time(slot: int) -> int:
    """When the rows of such a slot are due."""
    return (FETCH_NOW - 1 - slot) * RETRY_SLOT_SECONDS


@attrs.frozen
class Provider:
    """A registered content provider: a ``pidb`` row with its ``proots``.

    :ivar roots: normalised URL prefixes; every URL told must begin with one.
    :ivar password_hash: as :mod:`lcc.storage.passwords` writes it.
    :ivar bandwidth_bytes: bytes per second for fetches; None: without limit.
    :ivar hours: the hours when fetching is allowed, as text (``0-8,22-23``); empty: always.
    :ivar timezone: IANA name for ``hours``; empty: the LCC's own.
    :ivar priority: 0, 1 or 2; higher is fetched first.
    :ivar files_max, space_max_bytes: quotas; None: without limit.
    :ivar full_sets: unsolicited full sets allowed per period; None: without limit.
    :ivar allow_private: fetching from private addresses is allowed.
    :ivar insecure: TLS certificates are not verified.
    :ivar removed: being removed; no longer accepted.
    :ivar contact: mail address of who answers for it; empty: not known.
    """

    pid: int
    roots: tuple[str, ...]
    password_hash: str = attrs.field(repr=False)
    bandwidth_bytes: int | None = None
    hours: str = ""
    timezone: str = ""
    priority: int = 0
    files_max: int | None = None
    space_max_bytes: int | None = None
    full_sets: int | None = 10
    allow_private: bool = False
    insecure: bool = False
    removed: bool = False
    contact: str = ""


@attrs.frozen
class Wishes:
    """How a provider wishes to be fetched from; the fields as in :class:`Provider`."""

    bandwidth_bytes: int | None = None
    hours: str = ""
    timezone: str = ""
    priority: int = 0


class Proves(Enum):
    """What somebody gets who proves to command a site."""

    PROVIDER = "provider"
    """To be a provider, with the site as its root."""
    ROOT = "root"
    """A further root, for a provider that is registered."""
    PASSWORD = "password"
    """A new password, for a provider that proves all of its roots again."""


class Progress(Enum):
    """How far a registration is."""

    ASKED = "asked"
    """Its secret was given out."""
    PROVEN = "proven"
    """Its secret was found, and the operator has to approve it."""
    DONE = "done"
    """What was asked for is so."""


@attrs.frozen
class Registration:
    """Somebody asks for something that needs a proof: a row of ``registrations``.

    :ivar number: its name for operators; 0: not stored yet.
    :ivar ticket_hash: of what who asked shows to go on.
    :ivar secret_hash: of what the file has to hold.
    :ivar password_hash: the provider's, from the proof on; empty: its password stays.
    :ivar file: the name of the file.
    :ivar folders: normalised URLs, each with ``/`` at its end: in each of them the file has to be.
    :ivar pid: the provider; 0: there is none yet.
    :ivar private: the file was found on a private address.
    :ivar created, expires: when it was asked for, and when it is forgotten.
    """

    kind: Proves
    ticket_hash: str = attrs.field(repr=False)
    secret_hash: str = attrs.field(repr=False)
    password_hash: str = attrs.field(repr=False)
    file: str
    folders: tuple[str, ...]
    created: int
    expires: int
    contact: str = ""
    wishes: Wishes = Wishes()
    pid: int = 0
    number: int = 0
    state: Progress = Progress.ASKED
    private: bool = False


@attrs.frozen
class Session:
    """One successful connection of a provider.

    :ivar connseq: grows by one with each connection of the provider.
    :ivar last_ip: where the connection before this one came from; empty: there was none.
    """

    connseq: int
    last_ip: str


@attrs.frozen
class StoredError:
    """An error of an earlier fetch, kept for the provider.

    :ivar number: counts the provider's errors, from 1.
    :ivar url: the resolved fetch URL.
    :ivar sent: the element's attributes as the provider sent them, a JSON list ``[name, value, name, value …]``.
    """

    number: int
    code: int
    text: str
    url: str
    sent: str
    time: int


@attrs.frozen
class ProviderStatus:
    """What ``<init_accepted>`` says of a provider.

    :ivar full_sets_left: unsolicited full sets still allowed; None: without limit.
    :ivar full_set_wanted: the reason why the LCC wants a full set (``old-files``, ``expired-files``,
        ``cache-crash``, or an operator's); empty: it wants none.
    :ivar wantid: names that request for a full set; 0: there is none.
    :ivar error_count: the exact count of errors since the last accepted set.
    :ivar errors_upto: the number of the latest error that ``error_count`` includes; a set that is accepted after
        these were shown clears up to here.
    :ivar errors: the newest of them, in order, as many as are kept and were asked for.
    :ivar processing: URLs of the provider in the queue.
    """

    files_used: int
    space_used_bytes: int
    full_sets_left: int | None
    full_set_wanted: str
    error_count: int
    errors_upto: int
    errors: tuple[StoredError, ...]
    processing: int
    wantid: int = 0


class UrlNotice(NamedTuple):
    """One valid ``<url>`` element, checked and resolved by the UNS.

    :ivar curl: the conceptual URL, normalised.
    :ivar furl: the fetch URL, normalised; empty: the same as ``curl``.
    :ivar burl: the browse URL, resolved; empty: the same as ``curl``; ``-``: not browsable.
    :ivar mimetype: normalised, lower case, without parameters; empty only in a deletion of all views.
    :ivar md5: 32 lower-case hexadecimal digits, or empty.
    :ivar length: bytes told, or None.
    :ivar mtime: seconds since 1970 told, or None.
    :ivar hours: as text, checked; or empty.
    :ivar delete: the content is to be deleted.
    :ivar ifabsent: fetch only what the cache does not have.
    :ivar named_only: the element was refused, but counts as named in a full set; nothing else is to be done.
    :ivar sent: the attributes as sent, a JSON list ``[name, value, …]``.
    """

    curl: str
    furl: str = ""
    burl: str = ""
    mimetype: str = ""
    subtype: str = ""
    md5: str = ""
    length: int | None = None
    mtime: int | None = None
    hours: str = ""
    delete: bool = False
    ifabsent: bool = False
    named_only: bool = False
    sent: str = ""


@attrs.frozen
class SetHeader:
    """What is known of a set besides its elements.

    :ivar uns, epoch, number: the set's unique id: the UNS's name, the epoch of its spool, and a number that grows
        within the epoch.  A UNS delivers the numbers of an epoch in order.
    :ivar connseq: the provider's connection that sent it; orders the provider's sets.
    :ivar full: everything the provider has (a full set), not only changes.
    :ivar errors_upto: stored errors up to this number were shown in the set's session.
    :ivar answered: the provider has already been told that it is accepted: it can no longer be refused.
    :ivar time: when it was complete.
    :ivar wantid: the request for a full set that its provider was told of when it connected; 0: none.
    """

    uns: str
    epoch: str
    number: int
    pid: int
    connseq: int
    full: bool
    errors_upto: int
    answered: bool
    time: int
    wantid: int = 0

    @property
    def is_unsolicited(self) -> bool:
        """A full set that was not asked for."""
        return self.full and not self.wantid


class KeyedNotice(NamedTuple):
    """A notice with its 20-byte key (:data:`KEY_BYTES`)."""

    key: bytes
    notice: UrlNotice


@attrs.frozen
class SetPiece:
    """A run of elements of one set, in order.

    :ivar first_index: how many elements of the set came before.
    :ivar last: the set ends with this piece.
    """

    header: SetHeader
    first_index: int
    notices: tuple[KeyedNotice, ...]
    last: bool


@attrs.frozen
class SetAnswer:
    """The queue's answer to a whole set.

    :ivar code: 0: absorbed, durable; else an 11xx code: refused, nothing was changed.
    """

    epoch: str
    number: int
    code: int
    text: str = ""


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
    :ivar reason: ``bandwidth``, ``hours`` or ``site-error``; empty: none.
    :ivar code: the error, for ``site-error``.
    :ivar failures: errors of its site in a row; they make the next delay longer.  A delay with neither time nor
        failures is none: it is forgotten.
    :ivar owed_time: when what it has fetched is paid for; 0: it is.  It may wait longer, for another reason.
    :ivar rate: bytes per second, that ``owed_time`` was reckoned with.
    """

    pid: int
    until_time: float
    reason: str
    code: int = 0
    failures: int = 0
    owed_time: float = 0.0
    rate: int = 0


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


class FetchStep(NamedTuple):
    """Something that a fetcher did, told to who watches it.

    :ivar name: ``resolved``, ``connected`` (TCP), ``secured`` (TLS), ``reused`` (a kept connection), ``request``,
        ``first-byte``, ``response``, ``redirect``; a fetcher may have others.
    :ivar seconds: the reactor's time.
    :ivar detail: for a person.
    :ivar lines: what was sent or received, such as header fields.
    """

    name: str
    seconds: float
    detail: str = ""
    lines: tuple[str, ...] = ()


class FetchOrder(NamedTuple):
    """What a fetcher is asked for.

    :ivar url: absolute, normalised.
    :ivar mimetype: as told by the provider; empty: not told.
    :ivar private: private addresses are allowed.
    :ivar insecure: TLS certificates are not verified.
    :ivar conditional: if the content is still the one that ``etag``, ``modified`` and ``stored_bytes`` describe, it
        need not be fetched (:attr:`Fetched.unchanged`).
    :ivar etag, modified: of the content that is stored, as an earlier fetch reported them.
    :ivar stored_bytes: its length; None: not known.
    """

    pid: int
    url: str
    mimetype: str = ""
    private: bool = False
    insecure: bool = False
    conditional: bool = False
    etag: str = ""
    modified: int | None = None
    stored_bytes: int | None = None


class Fetched(NamedTuple):
    """What a fetcher says of content that it has written to the sink; the fields as in :class:`FetchResult`.

    :ivar unchanged: the stored content is still the right one; nothing was written.
    """

    status: int
    url: str
    mimetype: str = ""
    charset: str = ""
    modified: int | None = None
    etag: str = ""
    headers: str = ""
    wire_bytes: int = 0
    revalidate: bool = False
    unchanged: bool = False


@attrs.frozen
class FetchResult:
    """How a fetch ended.

    :ivar code: 0: content was stored; else the error's code (:mod:`lcc.errors`).
    :ivar detail: for a failure, what exactly happened.
    :ivar size_bytes, md5: of the stored content.
    :ivar mimetype, charset: as the server said, normalised; empty: it said nothing.
    :ivar modified: the server's Last-Modified; None: it said nothing usable.
    :ivar headers: the response headers within bounds, a JSON list ``[name, value, …]``.
    :ivar wire_bytes: what travelled, headers included.
    :ivar machine, file: where the content is: machine id and file id; None without content.
    :ivar revalidate: ``etag`` or ``modified`` tell this content from every later one, so the next order may be a
        conditional one.
    :ivar unchanged: nothing was fetched, because the content that is stored is still the right one: its
        :attr:`Stored.token`, as the order had it; empty: the order was not conditional, or content was fetched.
    """

    pid: int
    key: bytes
    generation: int
    code: int
    status: int = 0
    detail: str = ""
    url: str = ""
    size_bytes: int = 0
    md5: str = ""
    mimetype: str = ""
    charset: str = ""
    modified: int | None = None
    etag: str = ""
    headers: str = ""
    wire_bytes: int = 0
    elapsed_ms: int = 0
    machine: int | None = None
    file: int | None = None
    revalidate: bool = False
    unchanged: str = ""


@attrs.frozen
class Recorded:
    """What became of a batch of fetch results.

    :ivar again: rows whose generation had moved on: they are still queued, as given here, in their old place.
    :ivar held: provider -> code, for errors that hold the whole provider back.
    :ivar requeued: provider -> earliest ``(psetid, seq)`` of the rows that went to the end of their set.
    :ivar deletes: there are new rows in ``fsmdb``.
    :ivar retry_time: when the first of the rows that have to wait to be tried again is due; None: there are none.
    """

    again: tuple[QueueRow, ...]
    held: dict[int, int]
    requeued: dict[int, tuple[int, int]]
    deletes: bool
    retry_time: int | None = None


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
    """

    run: int
    database_epoch: str


class MachineState(NamedTuple):
    """A row of ``machines``.

    :ivar last_seen: seconds since 1970.
    :ivar lease_until: its orders may be running up to this time (seconds since 1970); 0: it has none.
    :ivar names_upto: file ids below this one were given out there.
    """

    machine: int
    last_seen: int = 0
    lease_until: int = 0
    names_upto: int = 0


class UnsStanding(Enum):
    """How a UNS's memory and the database go together."""

    FINE = "fine"
    """The database knows of every set that was answered."""
    DATABASE_BEHIND = "database behind"
    """A set was answered that the database does not know: it was lost, or put back from a backup."""
    SPOOL_BEHIND = "spool behind"
    """The UNS would give numbers again that the database knows: its spool was put back from a backup."""


@attrs.frozen
class DeleteOrder:
    """A row of ``fsmdb``: a file to be removed on a machine."""

    id: int
    machine: int
    file: int


@attrs.frozen
class CachedUrl:
    """A row of ``lccurl``, as a content user sees it.

    :ivar change: the number of its last change; 0: none yet.
    :ivar state: ``cached`` or ``deleted`` (a tombstone).
    :ivar md5, length, mtime: of the fetched content (``mtime``: the server's Last-Modified, else the time told).
    """

    key: bytes
    pid: int
    curl: str
    furl: str
    burl: str
    mimetype: str
    subtype: str
    md5: str
    length: int | None
    mtime: int | None
    fetched_time: int | None
    fetched_machineid: int | None
    fetched_fileid: int | None
    change: int
    state: str
    status: int = 0
    charset: str = ""
    etag: str = ""
    headers: str = ""
    confirmed_time: int | None = None


class ContentRow(NamedTuple):
    """A row of the cache, as the file that holds its content must be.

    :ivar md5: 32 lower-case hexadecimal digits.
    """

    file: int
    key: bytes
    size_bytes: int
    md5: str


class QueuedState(NamedTuple):
    """What the rules have to know of a queue row.

    :ivar fetch: it is to be fetched; False: its operation is "nothing".
    """

    fetch: bool
    connseq: int


class Quota(NamedTuple):
    """What a provider may use; None: without limit."""

    files_max: int | None
    space_max_bytes: int | None


class CachedState(NamedTuple):
    """What the rules have to know of a cache row.

    :ivar cached: there is content; False: a tombstone.
    :ivar told_md5, told_length, told_mtime: as the provider told last.
    :ivar md5, length, mtime: of the content.
    """

    cached: bool
    connseq: int
    told_md5: str
    told_length: int | None
    told_mtime: int | None
    md5: str
    length: int | None
    mtime: int | None


class Action(Enum):
    """What to do about a notice.  All but OLDER set the marker of a full set on the rows that are there."""

    OLDER = "older"
    """Nothing at all: something newer is known of this URL."""
    NAMED = "named"
    """Nothing but the marker: the element was refused, it only counts as named."""
    KNOWN = "known"
    """Nothing has to be fetched: remember only that this operation was the last."""
    CONFIRM = "confirm"
    """The content is what the provider has: as KNOWN, and confirmed now."""
    FETCH = "fetch"
    """Queue it; if it is queued, the row keeps its place and gets the new notice."""
    DELETE = "delete"
    """The content goes, a queue row does "nothing", a tombstone stays."""


class Outcome(Enum):
    """What to do about the result of a fetch."""

    STORE = "store"
    """The content goes into the cache, the row is done."""
    STORE_AGAIN = "store again"
    """The content goes into the cache, with nothing told of it; the row stays queued."""
    DISCARD = "discard"
    """The content is not wanted; a row that does "nothing" is done."""
    AGAIN = "again"
    """Failed, but the row has changed since; or it was not tried: it stays queued."""
    RETRY = "retry"
    """The row goes to the end of its set, and waits for a while."""
    HOLD = "hold"
    """The row goes to the end of its set; the provider waits."""
    KEEP = "keep"
    """An error for the provider; the row is done, older content stays."""
    DELETE = "delete"
    """An error for the provider; the row is done, older content goes."""
