"""The queue and the cache: their rules, and the tables that the queue manager writes.

Every method that returns a Deferred fails with StoreUnavailable if the database is unreachable (the caller retries
later), and with Busy if a newer queue manager has claimed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

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
    FetchResult,
    Kept,
    MachineState,
    Outcome,
    Provider,
    QueuedState,
    Quota,
    ReadAhead,
    Recorded,
    RetryPage,
    SetPiece,
    SlotPage,
    Standing,
    UnsStanding,
    UrlNotice,
    Waiting,
)
from lcc.model.frontend.moves import Fence


class IQueueRules(Interface):
    """The rules of the queue, used by the store (pure: :class:`lcc.domain.notices.rules.QueueRules`)."""

    def key(pid: int, curl: str, mimetype: str) -> bytes:
        """The key of a provider's URL (:data:`lcc.model.KEY_BYTES`)."""

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

    def is_mass_deletion(count: int, told: int) -> bool:
        """Whether a full set deletes so much that it needs confirmation.

        :param count: pages that it does not name.
        :param told: these, and the others of the provider in the cache."""

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
    (:mod:`lcc.storage.queue.maintenance.repair`)."""

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

    def want_full_sets(reason: str, error_epoch: int = 0) -> Deferred[None]:
        """Ask all providers for full sets.

        :param error_epoch: order numbers and numbers of errors are lost: those of orders jump ahead, those of errors
            are of this epoch (1 to 2^20 - 1) from now on, which is drawn at random.  0: none are lost."""

    def begin_epoch(before: str, epoch: str, least_change: int) -> Deferred[str]:
        """End the epoch ``before`` of the database: invalidates the tokens of content users, and all counters jump
        ahead.

        :param least_change: the number of a change that is known to exist.
        :returns: the current epoch (not ``epoch``, if this was done before)."""

    def machine_fault(machine: int) -> Deferred[str]:
        """Why a machine of this id may not be let in; empty: it may."""

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

    has_unconfirmed: bool = Attribute(
        """A write has failed, or was cancelled, that may have been committed: what it has queued was not told."""
    )

    def tell_unconfirmed(now: int) -> Deferred[Absorbed]:
        """Tell what such writes would have told."""

    def fences() -> Deferred[dict[int, Fence]]:
        """The providers that are about to move to another sub-LCC, or have."""

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

    def lose_set(pid: int, now: int) -> Deferred[None]:
        """An accepted set of this provider is lost: ask it for a full set.  If it is leaving, or has left, its new
        home does."""

    def lose_sets(now: int) -> Deferred[None]:
        """The same, where it is not known whose set is lost."""

    def save_state(text: str) -> Deferred[None]:
        """Save the queue manager's state (:mod:`lcc.roles.qm.maintenance.state`), in place of the last one."""

    def carry_out_orders(now: int) -> Deferred[CarriedOut]:
        """Carry out a bounded part of the orders of ``lcc-admin``."""

    def housekeeping(now: int) -> Deferred[Kept]:
        """Do one bounded page of the background jobs, if one is due: expiry of unconfirmed content and of tombstones,
        the counts of full sets, consistency checks."""
