"""The interfaces between the packages of the LCC.

Roles access the database, files, peers and the network only through these, so that the whole system can run in one
process, on simulated ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    Decision,
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
    Standing,
    UnsStanding,
    UrlNotice,
    Waiting,
)
from lcc.model.candidates import Candidate, Facts, FilterRules
from lcc.model.crawls import (
    Crawl,
    FoundUrl,
    FrontierBatch,
    HostRef,
    KnownUrl,
    ReadyHost,
    SpiderClaim,
    SpiderOrder,
    SpiderStatus,
    Telling,
    ToldUrl,
    Trap,
    UrlAnswer,
)
from lcc.model.feeds import FeedInfo, FeedItem
from lcc.model.items import ItemRow, Judged, KnownItem
from lcc.model.links import Page, PageLinks
from lcc.model.metrics import Condition, Reading
from lcc.model.tasks import ItemsStored, When

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
    """Parses the bytes of a stream into events (see :class:`lcc.protocols.xmlfeed.XmlFeed`)."""

    waiting: bool = Attribute("True from a document's end until next_document.")
    salvaged: list[Any] = Attribute("After a StreamError: the events of that call that came before the fault.")

    def receive(data: bytes) -> list[Any]:
        """Parse bytes, return events.  Raises StreamError."""

    def next_document() -> list[Any]:
        """Continue with the next document.  Raises StreamError."""


class IConversation(Interface):
    """The handler of a stream (see :class:`lcc.transport.stream.XmlStream`)."""

    def stream_opened(stream: Any) -> None:
        """The transport is connected; ``stream.send`` works from now on."""

    def events_received(events: list[Any]) -> Deferred[Any] | None:
        """Elements arrived.  A Deferred pauses the peer until it fires; a StreamError (raised, or its failure)
        is reported to ``stream_failed``, any other failure aborts the stream."""

    def stream_failed(error: StreamError) -> None:
        """Protocol error or timeout.  The conversation may still send, and must close the stream (``finish`` or
        ``abort``)."""

    def stream_resumed() -> None:
        """The transport's buffer has drained after ``writable`` was false."""

    def peer_finished() -> None:
        """The peer closed its sending half; the conversation may still send, and must close the stream."""

    def stream_closed(reason: Failure) -> None:
        """The connection is closed; called once, last."""


# Storage.  Every method that returns a Deferred fails with StoreUnavailable if the database is unreachable (the
# caller retries later), and with Busy if a newer queue manager has claimed it.


class IProviderReader(Interface):
    """Providers, for a UNS."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots; None: unknown id, or being removed."""

    def login(pid: int) -> Deferred[tuple[Provider, ProviderStatus] | None]:
        """As :meth:`provider`, with its status, but for the errors themselves."""

    def status(pid: int, errors_max: int) -> Deferred[ProviderStatus]:
        """The status in ``<init_accepted>``."""


class ISessionStore(Interface):
    """What a UNS writes: order numbers, connections, running full sets (:mod:`lcc.storage.providers.sessions`)."""

    def open_session(pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
        """Count a login; durable and unique among all UNSes when the Deferred fires.

        :param known: the highest order number of the provider that is known here."""

    def begin_sets(starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
        """The order numbers of these sets, which are given in the order in which they began; durable.  Calls must not
        overlap.

        Of two sets of a provider, one that began after the other had got its number has the same number or a higher
        one; the same only within one session.

        :returns: None for a full set that exceeds the limit; it may be noted all the same until
            :meth:`end_full_sets`."""

    def last_drawn(pids: Collection[int]) -> Deferred[dict[int, int]]:
        """The last order number that was drawn, by provider."""

    def end_full_sets(keys: Collection[FullSetKey]) -> Deferred[None]:
        """These unsolicited full sets are counted by the queue manager, or abandoned.  On failure, they are included
        in the next call, and in :meth:`begin_sets`."""

    def keep_full_sets(here: Collection[FullSetKey], now: int) -> Deferred[None]:
        """Of this UNS these full sets are under way, and no others.  To be called before any set begins."""


class IRegistrationStore(Interface):
    """Registrations.  Methods fail with RegistrationRefused if a registration is not possible."""

    def open(registration: Registration) -> Deferred[int]:
        """Store a new one; returns its number."""

    def find(number: int, now: int) -> Deferred[Registration | None]:
        """The registration of this number; None: unknown or expired."""

    def prove(number: int, private: bool, now: int) -> Deferred[Registration]:
        """Its secret was found: carry it out, or let it wait for approval.  Idempotent.

        :param private: it was found on a private address."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots; None: unknown id, or being removed."""

    def remove_expired(now: int) -> Deferred[int]:
        """Delete expired registrations; returns their number."""


class IQueueRules(Interface):
    """The rules of the queue, used by the store (pure: :class:`lcc.domain.rules.QueueRules`)."""

    def action(
        notice: UrlNotice, connseq: int, floor: int, queued: QueuedState | None, cached: CachedState | None
    ) -> Action:
        """What to do about a notice of this order number.

        :param floor: the highest order number of an operation on all URLs of the provider (a full set) or on all
            views of the page.
        :param queued, cached: its rows; None: no row."""

    def decision(
        notice: UrlNotice,
        source: int,
        connseq: int,
        floor: int,
        page: Sequence[Standing],
        queued: QueuedState | None,
        cached: CachedState | None,
    ) -> Decision:
        """What to do about a notice, where more than the provider's own sets have, or had, a say.

        :param source: mask of those whose word it is.
        :param connseq: 0: not the site's own word.
        :param floor: of the latest full set, for what the provider tells.
        :param page: of the row of all views, if it may matter; for hints of all rows of the page.
        :param queued, cached: its rows; None: no row."""

    def without_told(standing: Standing, connseq: int) -> tuple[int, Standing]:
        """What a full set of this number leaves of what it does not name, if that is told by no newer set: the mask
        of all that name it still; the standing, of a tombstone if nothing does."""

    def outcome(
        code: int, generation: int, row_fetch: bool | None, row_generation: int, attempts: int, unreached: int = 0
    ) -> Outcome:
        """What to do about the result of a fetch.

        :param code: 0: success; else the error.
        :param generation: of the row when it was ordered.
        :param row_fetch: the row is to be fetched; False: it is cancelled; None: there is no row any more.
        :param row_generation: of the row now.
        :param attempts: earlier fetches that failed by an error of the URL.
        :param unreached: earlier fetches that did not reach the site."""

    def retry_time(attempts: int, key: bytes, now: int) -> float:
        """When a URL is retried after so many failures, in seconds since 1970."""

    def slot(hours: str, provider_hours: str, timezone: str, now: int) -> int:
        """The time slot of a new queue row: FETCH_NOW, or when it may be fetched next.

        :param hours: the URL's own.
        :param timezone: of both hours; empty: the LCC's."""

    def over_quota(limits: Quota, is_new: bool, files: int, space_bytes: int, length: int | None) -> int:
        """The error code of the quota that a URL's content would exceed; 0: none.

        :param is_new: the URL counts as another file.
        :param files, space_bytes: used by the provider and pending, without this URL.
        :param length: bytes; None: not known yet."""

    def is_mass_deletion(count: int, cached: int) -> bool:
        """Whether a full set deletes so much that it needs confirmation.

        :param count: pages that it does not name.
        :param cached: pages of the provider in the cache, including those."""

    def prefixes(roots: Iterable[str]) -> tuple[str, ...]:
        """Prefixes of the URLs within these roots."""

    def may_be_unchanged(notice: UrlNotice, cached: CachedState) -> bool:
        """Whether the cached content may still be current, as far as the notice says."""

    def takes_type(mimetype: str) -> bool:
        """Whether content of this type is taken where nobody has told its type."""

    def same_content(md5: str, size_bytes: int, stored_md5: str, stored_length: int | None) -> bool:
        """Whether fetched content equals the cached content."""


class IQueueRepair(Interface):
    """Detection of, and recovery from, a database or spool that was restored from a backup
    (:mod:`lcc.storage.queue.repair`)."""

    def progress() -> Deferred[tuple[str, int]]:
        """How far the cache has come: its timeline, and the number of its last change."""

    def check_uns(uns: str, epoch: str, acked: int, numbers_upto: int) -> Deferred[UnsStanding]:
        """Compare the hello of a UNS with what is known of it.

        :param acked: the highest set number of this epoch that was ever answered.
        :param numbers_upto: set numbers from this one on were never given out there; 0: unknown."""

    def check_witness(timeline: str, change: int) -> Deferred[bool]:
        """Whether the database knows of this change of a timeline (or, for one of a former epoch, of this epoch);
        False: it was lost."""

    def note_answered(uns: str, epoch: str, acked: int) -> Deferred[None]:
        """Sets up to this number were answered, accepted or refused."""

    def want_full_sets(reason: str, order_lost: bool = False) -> Deferred[None]:
        """Ask all providers for full sets.

        :param order_lost: order numbers were lost, so they jump ahead."""

    def begin_epoch(before: str, epoch: str, least_change: int) -> Deferred[str]:
        """End the epoch ``before`` of the database: invalidates the tokens of content users, and all counters jump
        ahead.

        :param least_change: the number of a change that is known to exist.
        :returns: the current epoch (not ``epoch``, if this was done before)."""

    def names_used(machine: int) -> Deferred[int]:
        """No file id above this one is known to have been given out on this machine."""

    def machines() -> Deferred[list[MachineState]]:
        """The known machines."""

    def save_machines(states: Sequence[MachineState]) -> Deferred[None]:
        """Save these in place of the saved states of their machines."""


class IQueueStore(IQueueRepair):
    """The queue and the cache tables, written by the queue manager alone.

    All writes are made in one thread, in the order of the calls.
    """

    def claim(now: int) -> Deferred[Claim]:
        """Become the writer; the writes of older queue managers fail with Busy from now on."""

    def absorb(pieces: Sequence[SetPiece], now: int) -> Deferred[Absorbed]:
        """Absorb pieces of sets, in one transaction, durable when the Deferred fires.

        Elements that were absorbed before are skipped: a set that is delivered twice is applied once."""

    def providers_with_work() -> Deferred[list[Waiting]]:
        """Each provider with something to fetch now, in the order of their earliest sets."""

    def provider_roots() -> Deferred[list[tuple[int, bool, list[str]]]]:
        """All providers, those being removed included: the id, whether it is watched, its roots."""

    def delays() -> Deferred[list[Delay]]:
        """The saved delays."""

    def save_delays(saved: Sequence[Delay]) -> Deferred[None]:
        """Save these in place of the saved delays of their providers."""

    def slots_opened() -> Deferred[tuple[float, str]]:
        """Up to when the slots that began were opened, and the period that their numbers belong to, as
        :meth:`save_slots_opened` saved it; (0, ""): never."""

    def save_slots_opened(upto: float, period: str) -> Deferred[None]:
        """Save that all slots up to this time are opened."""

    def open_slot(slot: int, limit: int, after: tuple[int, int]) -> Deferred[SlotPage]:
        """Move at most ``limit`` rows of this time slot to FETCH_NOW, keeping their places in the order.

        :param after: start behind this ``(psetid, seq)``, so that rows which were opened before and sent back,
            because their hours are closed, are not opened again."""

    def open_retries(now: int, limit: int) -> Deferred[RetryPage]:
        """Move at most ``limit`` due retries to FETCH_NOW, at the end of their sets."""

    def read_ahead(cursors: Sequence[Cursor], unknown: Collection[int] = ()) -> Deferred[ReadAhead]:
        """The next queue rows of several providers, one cursor each; each row with the validators of its cached
        content, if it has any (``QueueRow.stored``).

        :param unknown: providers to be read as well, as by :meth:`provider`."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots, also one that is being removed; None: unknown id."""

    def record(
        results: Sequence[FetchResult],
        removed: Sequence[tuple[bytes, int]],
        now: int,
        closed: Sequence[tuple[bytes, int, int]] = (),
        delays: Sequence[Delay] = (),
        psetids: Collection[int] = (),
    ) -> Deferred[Recorded]:
        """Record finished fetches, in one transaction; duplicate results are ignored.

        :param removed: ``(key, generation)`` of cancelled rows that were reached and can be removed.
        :param closed: ``(key, generation, slot)`` of rows that were reached outside of their hours: they move to that
            time slot; those with another generation by now stay, and are returned in ``again``.
        :param delays: saved as by :meth:`save_delays`, so that the delays caused by the results are not lost.
        :param psetids: sets that most of the rows belong to: those of others cost one more query."""

    def deletes(machine: int, after: int, limit: int, now: int) -> Deferred[list[DeleteOrder]]:
        """Delete orders of this machine with ``id > after`` that are due, in order of id, at most ``limit``.  They
        become due in that order."""

    def deletes_done(ids: Sequence[int]) -> Deferred[None]:
        """The files of these delete orders are removed."""

    def content_rows(machine: int, after: int, upto: int, limit: int) -> Deferred[list[ContentRow]]:
        """The next rows of the cache with content on this machine, by file: ``after < file < upto``."""

    def fetch_again(machine: int, files: Sequence[int], now: int) -> Deferred[Absorbed]:
        """Refetch the URLs of these missing or damaged content files, unconditionally."""

    def queue_size() -> Deferred[int]:
        """Number of rows to fetch, of all providers; cheap."""

    def want_full_set(pid: int, reason: str) -> Deferred[None]:
        """Ask the provider for a full set (``cache-crash``: an accepted set is lost)."""

    def save_state(text: str) -> Deferred[None]:
        """Save the queue manager's state (:mod:`lcc.roles.qm.maintenance.state`), in place of the last one."""

    def carry_out_orders(now: int) -> Deferred[CarriedOut]:
        """Carry out a bounded part of the orders of ``lcc-admin``."""

    def housekeeping(now: int) -> Deferred[Kept]:
        """Do one bounded page of the background jobs, if one is due: expiry of unconfirmed content and of tombstones,
        the counts of full sets, consistency checks."""


# Fetching.


class IContentSink(Interface):
    """Receives the content of one URL from a fetcher."""

    def write(data: bytes) -> None:
        """Append content; OSError on a disk error."""


class IAttemptFile(IContentSink):
    """One attempt of a robot to store the content of one URL."""

    size_bytes: int = Attribute("Bytes written so far.")
    md5: str = Attribute("Of what was written so far, in hexadecimal.")

    def close() -> None:
        """The content is complete; OSError on a disk error."""

    def discard() -> None:
        """Remove the file; never fails."""


class IContentReader(Interface):
    """An open content file."""

    size_bytes: int = Attribute("Of the whole file.")

    def read(offset: int, length: int) -> bytes:
        """At most ``length`` bytes from this offset; OSError on a read error."""

    def close() -> None:
        """Close it."""


class IContentFolder(Interface):
    """The content files of one machine (see :class:`lcc.storage.disk.content_folder.ContentFolder`)."""

    names_upto: int = Attribute("File ids from this one on were never given out.")
    next_name: int = Attribute("File ids from this one on were not given out by this process.")
    mark: tuple[str, int] = Attribute("Timeline and number of the last change of the database that is remembered.")

    path: Path = Attribute("Its path, for messages.")
    owner: str = Attribute("The run that has claimed it; empty: none, or the claim failed.")

    def claim(run: str) -> None:
        """Write the run of the BOT-M that owns the folder, for its robots.  OSError on a disk error."""

    def remember(timeline: str, change: int) -> None:
        """The database has come so far; OSError when it cannot be kept."""

    def no_room(tried: bool) -> str:
        """Why no content can be stored at present, for operators; empty: it can.

        :param tried: try to write a file (the disk is known to fail)."""

    def skip_names(upto: int) -> None:
        """Give out no file id below this one; durable on return.  OSError on a disk error."""

    def reserve() -> int:
        """Allocate a file id; OSError if no further ids can be reserved at present."""

    def attempt(file_id: int, attempt: int) -> str:
        """Path of this attempt at this file, relative to the folder."""

    def attempt_bytes(attempt: str) -> int:
        """The current length of this attempt's file; 0: no file."""

    def accept(attempt: str, file_id: int) -> None:
        """Rename a complete attempt to the content file.  OSError if it is missing or cannot be renamed."""

    def discard(attempt: str) -> None:
        """Remove an attempt's file, if there is one."""

    def remove(file_id: int) -> bool:
        """Remove a content file; False: there was none.  OSError when it cannot be removed."""

    def read(file_id: int) -> IContentReader:
        """Open a content file; FileNotFoundError when there is none, OSError when it cannot be opened."""

    def is_intact(file_id: int, size_bytes: int, md5: str) -> bool:
        """Whether a content file exists with this content.  Blocks while it reads."""


class IContentSync(Interface):
    """Tracks which content files are on stable storage (:class:`lcc.storage.disk.content_sync.ContentSync`).

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
    """A fetcher that reports its steps."""

    def watch(watcher: Callable[[FetchStep], None]) -> None:
        """Report each step of all fetches to the watcher from now on."""


class IFetcherPlugin(Interface):
    """Brings a fetcher: a ``twisted.plugin`` in ``lcc/fetchers/plugins`` (doc/fetchers.md).

    It must not import what it does not need before :meth:`build` is called: the schemes are asked for by
    ``lcc-admin``, too.
    """

    name: str = Attribute("Names it among all plugins; ``[bot] fetchers`` may name it.")
    schemes: Sequence[str] = Attribute("The URL schemes that its fetcher fetches, lower case.")

    def build(reactor: Any, settings: BotConfig) -> IFetcher:
        """The fetcher for one robot.  Nothing is opened yet."""


# Feeds.


class IFeedPlugin(Interface):
    """Says what the feed worker does in each of its stages: a ``twisted.plugin`` in ``lcc/feeds/plugins``
    (doc/feeds.md).

    One object serves many runs: what belongs to one is kept in it (``run.own``, :class:`lcc.feeds.run.FeedRun`).  A
    stage that raises ends the job; nothing of it takes effect then.  Most plugins extend one of ours:
    ``lcc.feeds.default.DefaultPlugin`` has all stages.
    """

    name: str = Attribute("Names it among all plugins; ``lcc-admin feed add --plugin`` names it.")
    summary: str = Attribute("A few words for people.")

    def open(run: Any) -> None:
        """Initialise the worker; ``close`` is not called if this raises."""

    def fetch(run: Any) -> bytes:
        """The raw content at the URL: ``run.content()`` is what the robot fetched."""

    def fetchclean(run: Any, data: bytes) -> bytes:
        """Clean the content; what follows expects UTF-8."""

    def parse(run: Any, data: bytes) -> tuple[FeedInfo, Sequence[FeedItem]]:
        """What the feed says of itself, and its items."""

    def filter(run: Any, items: Sequence[FeedItem]) -> Iterable[FeedItem]:
        """The items that are not to be disregarded."""

    def clean(run: Any, item: FeedItem) -> FeedItem:
        """The item, cleaned."""

    def process(run: Any, item: FeedItem) -> FeedItem:
        """The item, processed in some way."""

    def storefeed(run: Any, info: FeedInfo, items: Sequence[FeedItem]) -> None:
        """Store what the feed says of itself."""

    def store(run: Any, item: FeedItem) -> None:
        """Store an item."""

    def close(run: Any) -> None:
        """Clean up the worker; called whatever else failed."""


# Tasks.


class ITaskRules(Interface):
    """When tasks and jobs are due, used by the store (pure: :class:`lcc.domain.task_rules.TaskRules`)."""

    def first_due(when: When, now: float) -> int:
        """When the first job of a task is due that is added, or resumed, now.  Raises ValueError: never."""

    def next_due(when: When, task: int, started_time: float, due_time: float, first: bool) -> int:
        """When the next job of a task is due.  Raises ValueError: never.

        :param started_time, due_time: of its last job.
        :param first: that was its first one."""

    def due_by(when: When, task: int, started_time: float | None, now: float) -> int:
        """When the next job of a task that waits is due at the latest, whatever the wall clock has shown before.
        Raises ValueError: never.

        :param started_time: of its last job; None: there was none."""

    def robots_allow(rules: str, allow: str, url: str) -> bool:
        """Whether a robots.txt allows a URL (:func:`lcc.domain.robots_rules.is_allowed`)."""

    def robots_delay(rules: str) -> float:
        """The seconds between fetches that a robots.txt asks for
        (:func:`lcc.domain.robots_rules.crawl_delay_seconds`)."""

    def robots_in_place(status: int) -> str:
        """What an error allows in place of robots.txt (:func:`lcc.domain.robots_rules.allow_for`)."""

    def retry_due(job: int, attempt: int, now: float, before: float | None, wish_seconds: int | None) -> int | None:
        """When a job is tried again that has failed in passing, or was lost; None: never.

        :param attempt: that has failed, from 1.
        :param before: when the next job of its task is due; None: it is of none.
        :param wish_seconds: the delay that it asks for."""

    def next_poll(due_time: int, skip_hours: Collection[int], skip_days: Collection[int]) -> int:
        """When to poll what is due then, and not to be polled in these hours (UTC) and on these days (0: Monday)."""

    def next_period(
        history: str,
        news: bool,
        interval_seconds: int,
        period_seconds: int,
        least_seconds: int,
        most_seconds: int,
        asked_seconds: int,
    ) -> tuple[str, int]:
        """History and period of what is polled, after a poll.

        :param history: of the last polls, as this has given it; empty: none.
        :param interval_seconds: since the poll before.
        :param asked_seconds: what the source itself asks for at least; 0: nothing."""


class IItemRules(Interface):
    """Which items are the same, and which are news (pure: :class:`lcc.domain.items.ItemRules`)."""

    def unknown_links(rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem]) -> list[bytes]:
        """The links by which rows without a known identity may be known.

        :param known: by identity."""

    def judge(rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem], linked: Iterable[KnownItem]) -> list[Judged]:
        """What each item of a document is.

        :param rows: with different identities.
        :param known: what is stored of these identities.
        :param linked: what is stored with one of :meth:`unknown_links`."""


class IItemStore(Interface):
    """Stores what jobs collect."""

    def store(txn: Any, task: int, job: int, page: str, items: Sequence[str], now: int) -> ItemsStored:
        """Store items, within the transaction that records the ending of their job.  It may be run again.

        :param page: key of the page that the job was given, whose text it may store; empty: it was given none.
        :param items: JSON objects, as the worker has written them.
        Raises ValueError: they make no sense; in words for the job's owner.  Nothing of the job takes effect."""


# The spider.


class ILinkExtractor(Interface):
    """Finds the links of documents of some types: a ``twisted.plugin`` in ``lcc/spider/extractors/plugins``
    (doc/spider.md).  It is called in a worker process with limits of memory and time."""

    name: str = Attribute("Names it among all extractors.")
    mimetypes: Collection[str] = Attribute("Those it reads: type/subtype, lower case.")

    def extract(content: bytes, found: Any) -> None:
        """Hand the links over in the order of the document.

        :param content: the document, or its beginning.
        :param found: knows what else there is to know of the page, and takes what is found:
            :class:`lcc.spider.extractors.found.Found`.  It raises ``Full`` at its limits, which the caller expects.
        """


class IPageStore(Interface):
    """Keeps what a spider has read: a ``twisted.plugin`` in ``lcc/spider/stores/plugins`` (doc/spider.md)."""

    name: str = Attribute("Names it among all stores, in ``[spider] stores`` and in the frontier.")
    summary: str = Attribute("A few words for people.")

    def open(folder: Path, place: str, disk: Any, settings: Any) -> Any:
        """An :class:`IOpenStore` that continues at this place: what was written behind it is taken back.

        :param folder: its own; it exists.
        :param place: as ``flush`` gave it and the frontier has it; empty: at the beginning.
        :param disk: a :class:`lcc.storage.disk.file_system.Disk`.
        :param settings: a :class:`lcc.model.links.StoreSettings`.
        :raises OSError: it cannot be opened; may be tried again.
        """


class IOpenStore(Interface):
    """An open store.  It is called in a thread, one call at a time; any OSError means that it is to be closed, and
    opened again at the last place that the frontier has."""

    def write(pages: Sequence[tuple[Page, PageLinks]]) -> None:
        """Take pages with their links, in order.

        :raises OSError: it cannot.
        """

    def flush() -> str:
        """Bring all that was taken to the disk; gives the place behind it.

        :raises OSError: it cannot.
        """

    def close() -> None:
        """It is not needed any longer; what was not flushed may be lost."""


class IFrontierRules(Interface):
    """The rules of the frontier, used by its store (pure: :class:`lcc.domain.spider.rules.FrontierRules`)."""


class IFrontier(Interface):
    """The frontier of all crawls (:mod:`lcc.storage.spider.store`), written by spiders only.

    Every method returns a Deferred that fails with StoreUnavailable if the database is unreachable (the caller
    repeats the call), and with Busy once another spider has taken over the buckets of this one (:meth:`retire`), or a
    newer one of its name has claimed them: then it begins again with :meth:`claim`.  All writes are made in one
    thread, in the order of the calls; each may be repeated."""

    def claim(name: str) -> Deferred[SpiderClaim]:
        """Become the spider of this name; the former one of this name is fenced off, and its buckets are this one's.
        To be called first."""

    # Buckets: who reads and tells which hosts.

    def spiders() -> Deferred[list[SpiderStatus]]:
        """All spiders that have not ended, this one included."""

    def beat() -> Deferred[None]:
        """Show that this spider lives."""

    def retire(run: int, beats: int) -> Deferred[bool]:
        """Another spider is lost, as far as this one can see: its buckets are free from now on, and it is fenced off.

        :param beats: as they were all the time; False: there are more by now, nothing is changed."""

    def take_buckets(wanted: int) -> Deferred[dict[int, str]]:
        """Take free buckets until this spider has so many; gives all that it has, with their tokens (empty: from the
        beginning)."""

    def give_buckets(buckets: Collection[int]) -> Deferred[None]:
        """Let others have these."""

    def end() -> Deferred[None]:
        """This spider ends: its buckets are free."""

    # Crawls.

    def crawls() -> Deferred[list[Crawl]]:
        """All of them."""

    def open_orders(limit: int) -> Deferred[list[SpiderOrder]]:
        """The next orders of operators, in the order in which they were given."""

    def carry_out(order: SpiderOrder, starts: Sequence[FoundUrl], now: int) -> Deferred[None]:
        """Carry out an order, unless another spider has; what it cannot do is answered with an error.

        :param starts: the URLs of its ``starts`` that passed the filters, named by the crawl's rules."""

    def refuse_order(order: SpiderOrder, why: str, now: int) -> Deferred[None]:
        """Answer an order with an error, unless another spider has answered it."""

    def remove_page() -> Deferred[bool]:
        """Delete a bounded number of rows of a crawl that is being removed; False: there is none."""

    # Reading.

    def places() -> Deferred[dict[str, str]]:
        """By name of a store: what the last batch said of it."""

    def known(crawl: int, keys: Collection[bytes]) -> Deferred[dict[bytes, KnownUrl]]:
        """Those of these URLs that the frontier has."""

    def trap_counts(traps: Collection[Trap]) -> Deferred[dict[Trap, int]]:
        """Counts above 0."""

    def commit(batch: FrontierBatch, now: int) -> Deferred[None]:
        """Save what was read, in one transaction, durable when the Deferred fires.

        A page that was committed before counts no more, nor do its links; so pages may come again (after a crash,
        or with a bucket of another spider).  New URLs and hosts above the crawl's limits are dropped, and counted."""

    # Telling.

    def ready_hosts(crawl: int, buckets: Collection[int], now: int, limit: int) -> Deferred[list[ReadyHost]]:
        """Hosts with URLs to tell now and room in their windows, those that have waited longest first."""

    def watched(watched: Sequence[tuple[HostRef, int]], now: int) -> Deferred[None]:
        """The providers of hosts."""

    def fail_host(host: HostRef, code: int, now: int) -> Deferred[None]:
        """No provider was given for a host: it is parked, and tried again then.

        :param code: of the error table."""

    def tell(hosts: Sequence[HostRef], now: int) -> Deferred[list[Telling]]:
        """Mark the next URLs of these hosts as told, as many as their windows take; gives the sets to be told, in
        order.  What is never told after all (a crash) is found by :meth:`told_urls`."""

    def told_hosts(crawl: int, buckets: Collection[int], now: int, limit: int) -> Deferred[list[ReadyHost]]:
        """Hosts with URLs that were told ``told_wait`` seconds ago or earlier, and not asked for since."""

    def told_urls(host: HostRef, before: int, limit: int) -> Deferred[list[ToldUrl]]:
        """The URLs of a host that were told earliest, before this time, and have no answer."""

    def answer(answers: Sequence[UrlAnswer], asked: Sequence[HostRef], now: int) -> Deferred[None]:
        """What became of URLs that were told.  (What is cached and was not read yet is no answer: read it, and
        :meth:`commit`.)

        :param asked: hosts that need not be asked for again for a while."""


class IUrlFilter(Interface):
    """Decides which URLs enter a spider's frontier: a ``twisted.plugin`` in ``lcc/spider/filters/plugins``
    (doc/spider.md)."""

    name: str = Attribute("Names it among all filters; ``[spider] filters`` and the counts of crawls have it.")
    summary: str = Attribute("A few words for people.")
    needs_facts: bool = Attribute("It judges by what the frontier knows; without, candidates need no look-up.")

    def build(rules: FilterRules) -> Callable[[Candidate, Facts], str | None]:
        """The filter for one crawl: it returns why a candidate does not pass, or None.

        It is called for each link, in the reactor's thread: it takes microseconds whatever the URL, and keeps
        nothing of it.  Facts are empty if it needs none.

        :raises ConfigError: the crawl's rules make no sense.
        """
