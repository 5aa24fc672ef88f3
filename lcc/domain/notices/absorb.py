"""What a notice does to the queue and the cache: pure decisions.

The order of operations is that of the provider's sets, by their order numbers (``connseq``): an operation of an older
set than the last one known of a URL does nothing to its queue row, its cache row or its tombstone.  With the same
number, what comes later wins.  A queue row keeps the place of its first operation and does the last one.
"""

from __future__ import annotations

from lcc.model import Action, CachedState, QueuedState, UrlNotice, description_of

_NOTHING_TOLD = ("", None, None)


def is_unchanged(notice: UrlNotice, cached: CachedState) -> bool:
    """Whether the provider tells of nothing new: md5, length and mtime are all told, and the same as told before (or,
    where nothing was told before, the same as fetched)."""
    if not notice.md5 or notice.length is None or notice.mtime is None:
        return False
    told = (cached.told_md5, cached.told_length, cached.told_mtime)
    if told == _NOTHING_TOLD:
        told = (cached.md5, cached.length, cached.mtime)
    return told == (notice.md5, notice.length, notice.mtime)


def is_elsewhere(notice: UrlNotice, cached: CachedState) -> bool:
    """Whether the content is to be fetched from another URL than before."""
    return (notice.furl or notice.curl) != (cached.furl or notice.curl)


def is_described_anew(notice: UrlNotice, cached: CachedState) -> bool:
    """Whether anything is told of the content, besides itself and its fetch URL, that was not told before."""
    return description_of(notice) != cached.description


def decide(
    notice: UrlNotice, connseq: int, floor: int, queued: QueuedState | None, cached: CachedState | None
) -> Action:
    """What to do about a notice (parameters: :class:`lcc.interfaces.IQueueRules`)."""
    if connseq < floor:
        return Action.OLDER
    if queued is not None and connseq < queued.connseq:
        return Action.OLDER
    if cached is not None and connseq < cached.connseq:
        return Action.OLDER
    if notice.named_only:
        return Action.NAMED
    if notice.delete:
        return Action.DELETE
    if notice.ifabsent and ((cached is not None and cached.cached) or (queued is not None and queued.fetch)):
        return Action.KNOWN
    if queued is not None or cached is None or not cached.cached:
        return Action.FETCH
    if not is_unchanged(notice, cached) or is_elsewhere(notice, cached):
        return Action.FETCH
    return Action.UPDATE if is_described_anew(notice, cached) else Action.CONFIRM
