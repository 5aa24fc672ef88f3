"""What the result of a fetch does to its queue row and its cache row: pure decisions.

A row that has changed while it was being fetched (its generation has moved on) is not forgotten: content that came is
kept all the same, but the row stays queued.
"""

from __future__ import annotations

from lcc.errors import Remedy, entry_for
from lcc.model import Outcome


def decide(
    code: int,
    generation: int,
    row_fetch: bool | None,
    row_generation: int,
    attempts: int,
    unreached: int,
    attempts_max: int,
    hold_attempts_max: int,
) -> Outcome:
    """What to do about a result (parameters: :class:`lcc.interfaces.IQueueRules`).

    :param attempts_max: fetches before a retryable error becomes final.
    :param hold_attempts_max: the same for an error of the provider's site.  Its URL goes to the end of its set, so
        that one dead host among a provider's roots does not stand before the live ones for ever.
    """
    if not row_fetch:
        return Outcome.DISCARD
    if code == 0:
        return Outcome.STORE if generation == row_generation else Outcome.STORE_AGAIN
    remedy = entry_for(code).remedy
    if remedy is Remedy.HOLD_PROVIDER:
        final = generation == row_generation and unreached + 1 >= hold_attempts_max
        return Outcome.KEEP if final else Outcome.HOLD
    if generation != row_generation or remedy is Remedy.WAIT:
        return Outcome.AGAIN
    if remedy is Remedy.RETRY:
        return Outcome.RETRY if attempts + 1 < attempts_max else Outcome.KEEP
    return Outcome.DELETE if remedy is Remedy.DELETE else Outcome.KEEP


def is_same_content(md5: str, size_bytes: int, stored_md5: str, stored_length: int | None) -> bool:
    """Whether fetched content is what the cache has already."""
    return bool(md5) and md5 == stored_md5 and size_bytes == stored_length
