"""The interfaces that the rooms of the LCC meet through.

Roles reach the database, files, peers and the network only through these; so the whole system can run in one
process on simulated ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from lcc.config import BotConfig
from lcc.errors import StreamError
from lcc.model import (
    Absorbed,
    Action,
    CachedState,
    CarriedOut,
    Claim,
    ContentRow,
    Cursor,
    Delay,
    DeleteOrder,
    Fetched,
    FetchOrder,
    FetchResult,
    FetchStep,
    FullSetKey,
    Kept,
    MachineState,
    Outcome,
    Provider,
    ProviderStatus,
    QueuedState,
    Quota,
    ReadAhead,
    Recorded,
    Registration,
    RetryPage,
    Session,
    SetPiece,
    SetStart,
    SlotPage,
    UnsStanding,
    UrlNotice,
    Waiting,
)
from lcc.model.metrics import Condition, Reading

# What goes on.


class IRoleMetrics(Interface):
    """What a role tells of itself: to Prometheus, to the operator's supervisor, to whoever looks
    (``RoleService.metrics``).  Both only read, at once, in the reactor's thread, and take no longer with a hundred
    thousand providers than with ten."""

    background: Sequence[Any] = Attribute(
        "What has to be looked at beforehand: objects with start() and stop(), called where the metrics are wanted."
    )

    def readings() -> Iterable[Reading]:
        """What its metrics show now."""

    def conditions() -> Iterable[Condition]:
        """What must hold so that it can do its work, the fulfilled ones, too."""


# Streams.


class IFeed(Interface):
    """Turns the bytes of a stream into events (see :class:`lcc.protocols.xmlfeed.XmlFeed`)."""

    waiting: bool = Attribute("True from a document's end until next_document.")
    salvaged: list[Any] = Attribute("After a StreamError: the events of that call that came before the fault.")

    def receive(data: bytes) -> list[Any]:
        """Take bytes, give events.  Raises StreamError."""

    def next_document() -> list[Any]:
        """Go on with the next document.  Raises StreamError."""


class IConversation(Interface):
    """What stands behind a stream (see :class:`lcc.transport.stream.XmlStream`)."""

    def stream_opened(stream: Any) -> None:
        """The transport is connected; ``stream.send`` works from now on."""

    def events_received(events: list[Any]) -> Deferred[Any] | None:
        """Elements arrived.  A Deferred pauses the peer until it fires; a StreamError (raised, or its failure)
        comes back as ``stream_failed``, any other failure drops the stream."""

    def stream_failed(error: StreamError) -> None:
        """The peer sent what cannot be accepted, or nothing in time.  The conversation may still send, and must
        close the stream (``finish`` or ``abort``)."""

    def stream_resumed() -> None:
        """The transport's buffer has drained after ``writable`` was false."""

    def peer_finished() -> None:
        """The peer closed its sending half; the conversation may still send, and must close the stream."""

    def stream_closed(reason: Failure) -> None:
        """The transport is gone; called once, last."""


# Storage.  Every method that returns a Deferred fails with StoreUnavailable when the database cannot be reached
# (the caller tries again later), and with Busy when a newer queue manager has claimed it.


class IProviderReader(Interface):
    """What a UNS reads of the PIDB."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots; None: there is none of this id (or it is being removed)."""

    def status(pid: int, errors_max: int) -> Deferred[ProviderStatus]:
        """What ``<init_accepted>`` says."""


class ISessionStore(Interface):
    """Order numbers, connections, full sets under way: what a UNS writes (:mod:`lcc.storage.providers.sessions`)."""

    def open_session(pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
        """Count a successful connection; durable and unique among all UNSes when the Deferred fires.

        :param known: the highest order number of the provider that is known here."""

    def begin_sets(starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
        """The order number of each of these sets, which are given in the order in which they began; durable.  To be
        called again only when it has ended.

        Of two sets of a provider, the one that began when the other one had its number already has the same or a
        higher one; the same only if both are of one session.

        :returns: None where it is a full set too many; it may be noted all the same until :meth:`end_full_sets`."""

    def end_full_sets(keys: Collection[FullSetKey]) -> Deferred[None]:
        """These unsolicited full sets are counted by the queue manager, or nothing will come of them.  If it fails,
        they are taken along by the next call, and by :meth:`begin_sets`."""

    def settle_full_sets(here: Collection[FullSetKey], now: int) -> Deferred[None]:
        """Of this UNS these full sets are under way, and no others.  To be called before any set begins."""


class IRegistrationStore(Interface):
    """Registrations, and what they lead to.  What cannot be fails with RegistrationRefused."""

    def open(registration: Registration) -> Deferred[int]:
        """Store a new one; gives its number."""

    def find(number: int, now: int) -> Deferred[Registration | None]:
        """The registration of this number; None: there is none, or its time is over."""

    def prove(number: int, private: bool, now: int) -> Deferred[Registration]:
        """Its secret was found: carry out what was asked for, or let it wait for the operator.  Done once, also when
        it was found twice.

        :param private: it was found on a private address."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """As :meth:`IProviderReader.provider`."""

    def remove_expired(now: int) -> Deferred[int]:
        """Forget those whose time is over; gives how many there were."""


class IQueueRules(Interface):
    """The rules of the queue, as the store asks for them (pure: :class:`lcc.domain.rules.QueueRules`)."""

    def action(
        notice: UrlNotice, connseq: int, floor: int, queued: QueuedState | None, cached: CachedState | None
    ) -> Action:
        """What to do about a notice of this order number; its rows, or None.

        :param floor: the highest order number that is known to have said something of all URLs that this one belongs
            to (a full set, a deletion of all views)."""

    def outcome(
        code: int, generation: int, row_fetch: bool | None, row_generation: int, attempts: int, unreached: int = 0
    ) -> Outcome:
        """What to do about the result of a fetch.

        :param code: 0: there is content; else the error.
        :param generation: of the row when it was sent out.
        :param row_fetch: the row is to be fetched; False: its operation is "nothing"; None: there is no row any more.
        :param row_generation: of the row now.
        :param attempts: fetches of it that have failed before, by an error of the URL.
        :param unreached: fetches of it before that did not reach its site."""

    def retry_time(attempts: int, key: bytes, now: int) -> float:
        """When a URL that has failed so often (1: once) is tried again, in seconds since 1970."""

    def slot(hours: str, provider_hours: str, timezone: str, now: int) -> int:
        """The time slot of a new queue row: FETCH_NOW, or when it may be fetched next.

        :param hours: the URL's own.
        :param timezone: of both hours; empty: the LCC's."""

    def over_quota(limits: Quota, is_new: bool, files: int, space_bytes: int, length: int | None) -> int:
        """The error that there is no room for a URL's content; 0: there is.

        :param is_new: the URL counts as a file more.
        :param files, space_bytes: what the provider uses, and has been promised, without this URL.
        :param length: bytes; None: not known yet."""

    def is_mass_deletion(count: int, cached: int) -> bool:
        """Whether a full set deletes so much that somebody has to say that it is meant.

        :param count: pages that it does not name.
        :param cached: pages of the provider in the cache, those included."""

    def prefixes(roots: Iterable[str]) -> tuple[str, ...]:
        """What a URL within these roots begins with: one of these."""

    def may_be_unchanged(notice: UrlNotice, cached: CachedState) -> bool:
        """Whether a notice leaves it open that the cached content is still the right one."""

    def same_content(md5: str, size_bytes: int, stored_md5: str, stored_length: int | None) -> bool:
        """Whether fetched content is what the cache has already."""


class IQueueRepair(Interface):
    """What the queue manager remembers of its peers, and does when a database, or a spool, has gone back in time
    (:mod:`lcc.storage.queue.repair`)."""

    def progress() -> Deferred[tuple[str, int]]:
        """How far the cache has come: its timeline, and the number of its last change."""

    def check_uns(uns: str, epoch: str, acked: int, numbers_upto: int) -> Deferred[UnsStanding]:
        """Compare what a UNS says in its hello with what is known of it.

        :param acked: the highest number of this epoch that was ever answered.
        :param numbers_upto: set numbers from this one on were never given out there; 0: it does not say."""

    def check_witness(timeline: str, change: int) -> Deferred[bool]:
        """Whether the database knows of this change of a timeline (or, for one of a former epoch, of this epoch);
        False: it was lost."""

    def settle_uns(uns: str, epoch: str, acked: int) -> Deferred[None]:
        """Sets up to this number were answered, whatever the answer was."""

    def want_full_sets(reason: str, order_lost: bool = False) -> Deferred[None]:
        """Ask all providers for full sets.

        :param order_lost: there were later order numbers than the database knows; they jump ahead."""

    def begin_epoch(before: str, epoch: str, least_change: int) -> Deferred[str]:
        """End the database's epoch ``before``: cursors of content users start again, and all counters jump ahead.

        :param least_change: the number of a change that is known to have been made.
        :returns: the epoch that is current then (not ``epoch``, if this was done before)."""

    def names_used(machine: int) -> Deferred[int]:
        """No file id above this one is known to have been given out on this machine."""

    def machines() -> Deferred[list[MachineState]]:
        """The machines that are known."""

    def save_machines(states: Sequence[MachineState]) -> Deferred[None]:
        """Save these in place of what was saved for their machines."""


class IQueueStore(IQueueRepair):
    """The queue and the cache tables, written by the queue manager alone.

    All writes are made one after the other in one thread, in the order of the calls.
    """

    def claim(now: int) -> Deferred[Claim]:
        """Take the right to write; an older queue manager's writes fail with Busy from now on."""

    def absorb(pieces: Sequence[SetPiece], now: int) -> Deferred[Absorbed]:
        """Take pieces of sets into the queue, in one transaction, durable when the Deferred fires.

        Pieces of a set that was absorbed before are skipped, element by element (a set that comes twice is applied
        once, however far it came the first time)."""

    def providers_with_work() -> Deferred[list[Waiting]]:
        """Each provider with something to fetch now, in the order of their earliest sets."""

    def delays() -> Deferred[list[Delay]]:
        """The delays that were saved."""

    def save_delays(saved: Sequence[Delay]) -> Deferred[None]:
        """Save these in place of what was saved for their providers."""

    def slots_opened() -> Deferred[tuple[float, str]]:
        """Up to when the slots that began were opened, and the period that their numbers belong to, as
        :meth:`save_slots_opened` saved it; (0, ""): never."""

    def save_slots_opened(upto: float, period: str) -> Deferred[None]:
        """All slots that began up to this time are opened."""

    def open_slot(slot: int, limit: int, after: tuple[int, int]) -> Deferred[SlotPage]:
        """Move at most ``limit`` rows of this time slot to FETCH_NOW, to the place in the order that they would have
        without it.

        :param after: begin behind this ``(psetid, seq)``: what was opened before and is back already, because its
            hours are closed, is not opened again."""

    def open_retries(now: int, limit: int) -> Deferred[RetryPage]:
        """Move at most ``limit`` rows that waited to be tried again, and are due, to FETCH_NOW, at the end of their
        sets."""

    def read_ahead(cursors: Sequence[Cursor], unknown: Collection[int] = ()) -> Deferred[ReadAhead]:
        """The next queue rows of several providers, for each of which there is one cursor; with each row what the
        cache has of it, where a server may confirm that (``QueueRow.stored``).

        :param unknown: providers that are to be read as well, as by :meth:`provider`."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """As :meth:`IProviderReader.provider`, also for one that is being removed."""

    def record(
        results: Sequence[FetchResult],
        removed: Sequence[tuple[bytes, int]],
        now: int,
        closed: Sequence[tuple[bytes, int, int]] = (),
        delays: Sequence[Delay] = (),
    ) -> Deferred[Recorded]:
        """Record finished fetches, in one transaction; a result that comes twice is recorded once.

        :param removed: ``(key, generation)`` of rows whose operation is "nothing", reached and to be taken away.
        :param closed: ``(key, generation, slot)`` of rows that were reached when their hours had closed: they go to
            that time slot; those whose generation has moved on stay, and come back in ``again``.
        :param delays: saved as by :meth:`save_delays`, so that no debt is forgotten that the results have made."""

    def deletes(machine: int, after: int, limit: int, now: int) -> Deferred[list[DeleteOrder]]:
        """Delete orders of this machine with ``id > after`` that are due, in order of id, at most ``limit``.  They
        become due in that order."""

    def deletes_done(ids: Sequence[int]) -> Deferred[None]:
        """The files of these orders are gone."""

    def content_rows(machine: int, after: int, upto: int, limit: int) -> Deferred[list[ContentRow]]:
        """The next rows of the cache with content on this machine, by file: ``after < file < upto``."""

    def fetch_again(machine: int, files: Sequence[int], now: int) -> Deferred[Absorbed]:
        """These content files are missing or damaged: what they are the content of is fetched anew, without the
        conditions of what is stored."""

    def queue_size() -> Deferred[int]:
        """How many rows of the queue are to be fetched, all providers together; cheap."""

    def want_full_set(pid: int, reason: str) -> Deferred[None]:
        """Ask the provider for a full set from now on (``cache-crash``: something that it was told is accepted is
        lost)."""

    def save_state(text: str) -> Deferred[None]:
        """Save the queue manager's state (:mod:`lcc.roles.qm.maintenance.state`), in place of the last one."""

    def carry_out_orders(now: int) -> Deferred[CarriedOut]:
        """Carry out a bounded part of what ``lcc-admin`` ordered."""

    def housekeeping(now: int) -> Deferred[Kept]:
        """Do one bounded page of what has to be done in the background, if any of it is due: content that was not
        confirmed for long, tombstones that are old enough to be forgotten, full sets that are allowed again, and a
        check of the queue's sets."""


# Fetching.


class IContentSink(Interface):
    """Where a fetcher puts the content of one URL."""

    def write(data: bytes) -> None:
        """Take the next bytes of the content; OSError when they cannot be stored."""


class IAttemptFile(IContentSink):
    """One attempt to store the content of one URL, as the robot that writes it sees it."""

    size_bytes: int = Attribute("Bytes written so far.")
    md5: str = Attribute("Of what was written so far, in hexadecimal.")

    def close() -> None:
        """The content is complete; OSError when it could not be stored."""

    def discard() -> None:
        """Take back what was written; never fails."""


class IContentReader(Interface):
    """An open content file."""

    size_bytes: int = Attribute("Of the whole file.")

    def read(offset: int, length: int) -> bytes:
        """Bytes from this place on, at most so many; OSError when the disk reports a fault."""

    def close() -> None:
        """Close it."""


class IContentFolder(Interface):
    """The content files of one machine (see :class:`lcc.storage.disk.content_folder.ContentFolder`)."""

    names_upto: int = Attribute("File ids from this one on were never given out.")
    next_name: int = Attribute("File ids from this one on were not given out by this process.")
    mark: tuple[str, int] = Attribute("Timeline and number of the last change of the database that is remembered.")

    path: Path = Attribute("Where it is, for people.")
    owner: str = Attribute("The run that has claimed it; empty: none, or it could not be noted.")

    def claim(run: str) -> None:
        """Note, for robots to tell, that the folder belongs to this run of a BOT-M.  OSError when it cannot be
        noted."""

    def remember(timeline: str, change: int) -> None:
        """The database has come so far; OSError when it cannot be kept."""

    def no_room(tried: bool) -> str:
        """Why no content can be stored at present, for people; empty: it can be.

        :param tried: write something to see (the disk is known to fail)."""

    def skip_names(upto: int) -> None:
        """Give out no file id below this one; durable on return.  OSError when that cannot be kept."""

    def reserve() -> int:
        """A file id that was never given before; OSError when no more can be reserved for now."""

    def attempt(file_id: int, attempt: int) -> str:
        """The name for this attempt to write this file, relative to the folder."""

    def attempt_bytes(attempt: str) -> int:
        """How long this attempt's file is by now; 0: there is none yet."""

    def accept(attempt: str, file_id: int) -> None:
        """The attempt is complete: it becomes the content file.  OSError when it is missing or cannot be moved."""

    def discard(attempt: str) -> None:
        """Remove an attempt's file, if there is one."""

    def remove(file_id: int) -> bool:
        """Remove a content file; False: there was none.  OSError when it cannot be removed."""

    def read(file_id: int) -> IContentReader:
        """Open a content file; FileNotFoundError when there is none, OSError when it cannot be opened."""

    def is_intact(file_id: int, size_bytes: int, md5: str) -> bool:
        """Whether a content file is there with this content.  Blocks while it reads."""


class IContentSync(Interface):
    """Knows which content files are on stable storage (:class:`lcc.storage.disk.content_sync.ContentSync`).

    Its methods block, are called one at a time, and raise OSError when the disk does."""

    suspect: tuple[int, int] = Attribute(
        "Files from the first to before the second are to be verified; (0, 0): none."
    )

    def advance(upto: int) -> None:
        """Sync; all files below ``upto`` that will ever be accepted are accepted."""

    def intact(upto: int) -> None:
        """Sync; no file is suspect any longer."""

    def close() -> None:
        """Sync; no file is accepted any longer."""


class IFetcher(Interface):
    """Fetches URLs of some schemes.  One instance serves one robot."""

    schemes: Sequence[str] = Attribute("The URL schemes it fetches, lower case.")

    def fetch(order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        """Fetch one URL.  Fails with FetchError; cancelling it ends the fetch and closes its connection at once.
        ``wire_bytes`` of either exception tells what had travelled until then: it is paid for, too.

        :param follow: ``follow(url, location)`` gives the URL that a redirect leads to, or raises FetchError when
            it leads out of the provider's roots."""

    def close() -> Deferred[None]:
        """Close all idle connections; fires when nothing is left in the reactor."""


class IWatchedFetcher(IFetcher):
    """A fetcher that tells what it does."""

    def watch(watcher: Callable[[FetchStep], None]) -> None:
        """Tell each step of all fetches from now on."""


class IFetcherPlugin(Interface):
    """Brings a fetcher: a ``twisted.plugin`` in ``lcc/fetchers/plugins`` (doc/fetchers.md).

    It must not import what it does not need before :meth:`build` is called: the schemes are asked for by
    ``lcc-admin``, too.
    """

    name: str = Attribute("Names it among all plugins; ``[bot] fetchers`` may name it.")
    schemes: Sequence[str] = Attribute("The URL schemes that its fetcher fetches, lower case.")

    def build(reactor: Any, settings: BotConfig) -> IFetcher:
        """The fetcher for one robot.  Nothing is opened yet."""
