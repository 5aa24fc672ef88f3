"""Moves of providers as their sub-LCC knows them itself, without the front end's database."""

from __future__ import annotations

import attrs

from lcc.domain.wording import utc
from lcc.model.frontend.moves import Fence
from lcc.storage.database.transactions import Txn

_WORDS = {
    Fence.FOLLOWED: "being copied to another sub-LCC",
    Fence.FROZEN: "about to leave for another sub-LCC: nothing is fetched, and logins wait",
    Fence.ARRIVING: "arriving from another sub-LCC: nothing is fetched until all its rows are here",
}


@attrs.frozen
class LocalMoves:
    """
    :ivar leaving, arriving: providers that move now.
    :ivar came, left: moves that are over, as far as they are known.
    """

    leaving: int = 0
    arriving: int = 0
    came: int = 0
    left: int = 0

    def __str__(self) -> str:
        """What there is, in words; empty: nothing."""
        counted = ((self.leaving, "leaving"), (self.arriving, "arriving"), (self.came, "came"), (self.left, "left"))
        return ", ".join(f"{count:,} {what}" for count, what in counted if count)


def local_moves(txn: Txn) -> LocalMoves:
    """Count them; a row is read for each provider that ever moved."""
    states = dict(txn.query("SELECT state, COUNT(*) FROM fenced GROUP BY state"))
    ended = dict(txn.query("SELECT arrived, COUNT(*) FROM flips GROUP BY arrived"))
    leaving = states.get(Fence.FOLLOWED.value, 0) + states.get(Fence.FROZEN.value, 0)
    return LocalMoves(leaving, states.get(Fence.ARRIVING.value, 0), ended.get(1, 0), ended.get(0, 0))


def moving_text(txn: Txn, pid: int) -> str:
    """How a provider moves; empty: it does not."""
    state = txn.value("SELECT state FROM fenced WHERE pid = ?", [pid])
    return "" if state is None else _WORDS.get(Fence(state), "")


def left_text(txn: Txn, pid: int) -> str:
    """That a provider has moved away, and when; empty: it has not."""
    row = txn.one("SELECT arrived, subid, time FROM flips WHERE pid = ? ORDER BY flip DESC LIMIT 1", [pid])
    if row is None or row[0]:
        return ""
    return f"Provider {pid} moved to another sub-LCC (number {row[1]}) at {utc(row[2])} UTC."
