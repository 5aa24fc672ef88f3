"""What a notice does where more than the provider's own sets have a say: pure decisions.

The site's own words (told, pushed, listed) are ordered among each other by the order numbers of their sets.  Each has
its own last number: an operation that is older than the last one of the same source does nothing.  One that is older
than the row's attributes still counts as naming it, and an entry of a document, which may have been read after the
newer word, as something to fetch again.  A deletion by any of them takes away all that were said before it, and the
hints; ``retract`` takes away its own source only.  What nobody names any longer is deleted; what is only
polled from then on is withdrawn: to its provider and to content users it is gone.

The attributes of what the provider tells itself are the provider's: to other sources it is something to fetch again.

Hints have no number, and do nothing where the site's own word is behind the row, or has deleted it.  Polled documents
are nobody's word: they raise nothing, and change nothing but that they are fetched.  To all other sources a row that
is only polled is as if it was not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcc.domain.notices.absorb import is_described_anew, is_elsewhere, is_unchanged
from lcc.model import COUNTED, HINTS, SITE, Action, CachedState, Decision, QueuedState, Source, Standing, UrlNotice

_SITE, _HINTS = int(SITE), int(HINTS)
_TOLD, _POLLED = int(Source.TOLD), int(Source.POLLED)
_LISTED = int(Source.LISTED)
_OWN_WORDS = (_TOLD, int(Source.PUSHED), _LISTED)


def decide_among(
    notice: UrlNotice,
    source: int,
    connseq: int,
    floor: int,
    page: Sequence[Standing],
    queued: QueuedState | None,
    cached: CachedState | None,
) -> Decision:
    """What to do about a notice (parameters: :class:`lcc.interfaces.IQueueRules`)."""
    said = _Said(notice, source, connseq, floor, page, queued, cached)
    if notice.named_only:
        return said.answer(
            Action.NAMED if source & _TOLD and connseq >= max(floor, said.numbers[0]) else Action.OLDER
        )
    if notice.recheck:
        idle = said.fetched is not None and not said.waits and not said.mask & _SITE
        return said.again() if idle else said.answer(Action.OLDER)
    if notice.delete and source & _SITE:
        return said.delete()
    if notice.delete or notice.retract:
        return said.retract()
    if source & _SITE:
        return said.update()
    return said.hint() if source & _HINTS else said.poll()


def numbers_of(rows: Iterable[Standing]) -> list[int]:
    """The last number of each of the site's own words, of rows that are about one URL."""
    return list(map(max, zip((0, 0, 0), *[row.numbers for row in rows], strict=True)))


def without_told(standing: Standing, connseq: int) -> tuple[int, Standing]:
    """What a full set of this number leaves of what it does not name, if that is told by no newer set.

    :returns: the mask of all that name it still; the standing, of a tombstone if nothing does.
    """
    left, numbers = standing.source & ~_TOLD, (connseq, *standing.numbers[1:])
    if left:
        return left, Standing.of(standing.connseq, left, numbers)
    return 0, Standing.of(max(numbers), _TOLD, numbers)


class _Said:
    """A notice, and what is known of its URL.

    :ivar mask: all that name it; 0: nothing.
    :ivar numbers: of the site's own words.
    :ivar is_the_sites: the site has, or had, a word on it, or on another view of the page.
    :ivar attributes: order number of the operation that the attributes are from.
    :ivar waits: it is to be fetched.
    :ivar fetched: its content; None: there is none.
    :ivar shown: the same, if it is not only polled.
    """

    def __init__(
        self,
        notice: UrlNotice,
        source: int,
        connseq: int,
        floor: int,
        page: Sequence[Standing],
        queued: QueuedState | None,
        cached: CachedState | None,
    ) -> None:
        self.notice, self.source, self.connseq, self.floor = notice, source, connseq, floor
        rows = [Standing(row.connseq, row.source, row.words) for row in (queued, cached) if row is not None]
        self.numbers = numbers_of((*rows, *page) if source & _SITE else rows)
        self.is_the_sites = any(map(any, (self.numbers, *[row.numbers for row in page])))
        self.waits = queued is not None and queued.fetch
        self.fetched = cached if cached is not None and cached.cached else None
        self.shown = self.fetched if self.fetched is not None and self.fetched.source & COUNTED else None
        live = [row for row, lives in ((queued, self.waits), (cached, self.fetched is not None)) if row and lives]
        self.mask = live[0].source & (COUNTED | _POLLED) if live else 0
        self.attributes = max((row.connseq for row in live), default=0)

    def answer(self, action: Action, notice: UrlNotice | None = None, by: int = 0) -> Decision:
        """
        :param by: whose word it is that it is gone, if it is.
        """
        connseq, source = (self.attributes, self.mask) if self.mask else (max(self.numbers), by)
        return Decision(action, Standing.of(connseq, source, self.numbers), notice or self.notice)

    def again(self) -> Decision:
        """Fetch it as what it is known as."""
        known, notice = self.fetched, self.notice
        if known is None:
            return self.answer(Action.AGAIN)
        hours, burl, subtype = known.description
        told = (known.told_md5, known.told_length, known.told_mtime)
        if self.source & _SITE and (notice.md5 or notice.length is not None or notice.mtime is not None):
            told = (notice.md5, notice.length, notice.mtime)
        names = (notice.curl, known.furl, burl, notice.mimetype, subtype)
        return self.answer(Action.AGAIN, UrlNotice(*names, *told, hours, sent=notice.sent or "[]"))

    # The site's own words.

    def _take_away(self, bits: int) -> int:
        """These own words do not name it any longer, as far as they have not said so since; returns which."""
        void = 0
        for at, bit in enumerate(_OWN_WORDS):
            if bits & bit and self.numbers[at] <= self.connseq and (bit != _TOLD or self.connseq >= self.floor):
                self.numbers[at] = self.connseq
                void |= bit
        self.mask &= ~void
        return void

    def _lost(self, before: int, by: int) -> Decision:
        """Some do not name it any longer."""
        if self.mask & COUNTED or (before and not before & COUNTED and self.mask):
            return self.answer(Action.KNOWN)
        if not self.mask:
            return self.answer(Action.DELETE, by=by)
        return self.answer(Action.WITHDRAW)

    def delete(self) -> Decision:
        """The site has deleted it.  Each own word that is newer stays; to the others the deletion is their last."""
        before = self.mask
        if (self.source & _TOLD and self.connseq < self.floor) or not self._take_away(_SITE):
            return self.answer(Action.OLDER)
        if not self.mask & _SITE:
            self.mask &= ~_HINTS
        return self._lost(before, _SITE)

    def retract(self) -> Decision:
        """Its source does not name it any longer."""
        before, own = self.mask, self.source & _SITE
        void = self._take_away(own)
        self.mask &= ~self.source | _SITE
        if not (void or before != self.mask):
            return self.answer(Action.OLDER)
        return self._lost(before, own or before & _HINTS or before)

    def update(self) -> Decision:
        """The site names it."""
        named = 0
        for at, bit in enumerate(_OWN_WORDS):
            if (
                self.source & bit
                and self.connseq >= self.numbers[at]
                and (bit != _TOLD or self.connseq >= self.floor)
            ):
                self.numbers[at] = self.connseq
                named |= bit
        if not named:
            return self.answer(Action.OLDER)
        before = self.mask
        self.mask |= named | (self.source & ~_SITE)
        counted = before & COUNTED
        notice, shown = self.notice, self.shown
        if counted and self.connseq < self.attributes:
            # A document is read after its number was drawn: it may tell of a change that the newer word did not know.
            may_be_newer = self.source & _LISTED and not notice.ifabsent
            if may_be_newer and (shown is None or self.waits or not is_unchanged(notice, shown)):
                return self.again()
            return self.answer(Action.KNOWN)
        if before & _TOLD and not self.source & _TOLD:
            if notice.ifabsent:
                return self.answer(Action.KNOWN)
            if shown is None or self.waits or not is_unchanged(notice, shown):
                return self.again()
            return self.answer(Action.CONFIRM)
        self.attributes = self.connseq
        if notice.ifabsent and (shown is not None or counted):
            return self.answer(Action.KNOWN)
        if self.waits or shown is None or not is_unchanged(notice, shown) or is_elsewhere(notice, shown):
            return self.answer(Action.FETCH)
        return self.answer(Action.UPDATE if is_described_anew(notice, shown) else Action.CONFIRM)

    # Others.

    def hint(self) -> Decision:
        """Somebody else names it."""
        before, counted = self.mask, self.mask & COUNTED
        if counted & _SITE or (not counted and self.is_the_sites):
            return self.answer(Action.OLDER)
        self.mask |= self.source
        if counted:
            return self.answer(Action.KNOWN if before != self.mask else Action.OLDER)
        return self.answer(Action.FETCH)

    def poll(self) -> Decision:
        """The LCC wants to read it, as it is from now on: a fetch that has begun already may have found less."""
        self.mask |= self.source
        if self.waits:
            return self.answer(Action.AGAIN)
        return self.again() if self.shown is not None else self.answer(Action.FETCH)
