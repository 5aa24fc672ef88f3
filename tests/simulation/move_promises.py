"""What is promised of providers that move (P18), looked at after each transaction, and in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import md5

from lcc.model.frontend.moves import Move, MoveState

from .front import FrontEnd
from .one_lcc import Lcc
from .sites import Site

_NEXT = {
    MoveState.PLANNED: (MoveState.COPYING, MoveState.CANCELLED),
    MoveState.COPYING: (MoveState.FREEZING, MoveState.CANCELLED),
    MoveState.FREEZING: (MoveState.COPYING, MoveState.FLIPPED, MoveState.CANCELLED),
    MoveState.FLIPPED: (MoveState.ACTIVE,),
    MoveState.ACTIVE: (MoveState.DONE,),
}
_FENCED = "SELECT pid FROM fenced WHERE state IN ('frozen', 'left', 'arriving')"
_HELD = (
    "SELECT h.pid, MAX(h.whole) FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state = 'left'"
    " WHERE h.whole > 0 GROUP BY h.pid"
)
_HERE = f"SELECT pid FROM pidb WHERE removed = 0 AND pid NOT IN ({_FENCED})"
"""Providers that are here, and not fenced."""


class MovePromises:
    """Watches a front end and its sub-LCCs.

    :param broken: told what was, with the promise that it breaks.
    :param power_cut: whether a machine has lost its power.
    """

    def __init__(
        self,
        front: FrontEnd,
        sites: Sequence[Site],
        broken: Callable[[str, str], None],
        power_cut: Callable[[str], bool],
    ) -> None:
        self._front = front
        self._all_sites = sites
        self.others: Callable[[], set[int]] = set
        """Gives providers of sites that are not looked at."""
        self._broken = broken
        self._power_cut = power_cut
        self._lost: set[tuple[int, int]] = set()
        self._moves: dict[int, Move] = {}
        self._open: dict[Lcc, set[int]] = {lcc: set() for lcc in front.lccs.values()}
        self._seen: Counter[str] = Counter()
        self._back: dict[Lcc, set[int]] = {}
        """Providers that are open in a sub-LCC which was put back, and elsewhere: until it looks at its fences."""
        front.watchers.append(self._changed)
        for lcc in self._open:
            self.committed(lcc)

    @property
    def counts(self) -> dict[str, int]:
        """What there was of moves."""
        ended = Counter(move.state for move in self._moves.values())
        return {
            "moves ordered": len(self._moves),
            "moves done": ended[MoveState.DONE],
            "moves cancelled": ended[MoveState.CANCELLED],
            "moves frozen": self._seen["frozen"],
            "moves thawed": self._seen["thawed"],
        }

    @property
    def _sites(self) -> dict[int, Site]:
        """Those that have providers, by their numbers."""
        return {site.pid: site for site in self._all_sites if site.pid}

    # While it runs.

    def _changed(self, moves: list[Move]) -> bool:
        for move in moves:
            before = self._moves.get(move.id)
            self._moves[move.id] = move
            if before is None or before.state is move.state:
                continue
            if move.state not in _NEXT.get(before.state, ()):
                self._broken("P18", f"move {move.id} was {before.state.value}, and is {move.state.value}")
            self._seen["frozen"] += move.state is MoveState.FREEZING
            self._seen["thawed"] += (before.state, move.state) == (MoveState.FREEZING, MoveState.COPYING)
        return True

    def committed(self, lcc: Lcc) -> None:
        """A transaction has written tables of a sub-LCC."""
        self._check_damaged(lcc)
        here = {pid for (pid,) in lcc.rows(_HERE)} & self._sites.keys()
        if here == self._open[lcc]:
            return
        self._open[lcc] = here
        back = self._back.get(lcc, set())
        back &= here
        for other, there in self._open.items():
            for pid in (here & there) - back - self._back.get(other, set()) if other is not lcc else ():
                self._broken("P18", f"provider {pid} is in sub-LCCs {lcc.name} and {other.name}")

    def put_back(self, lcc: Lcc) -> None:
        """The database of a sub-LCC was, from a backup."""
        self._back[lcc] = {
            pid for (pid,) in lcc.rows(_HERE) if pid in self._sites and self._front.home(pid) is not lcc
        }
        self.committed(lcc)

    def _check_damaged(self, lcc: Lcc) -> None:
        """What the source is said to have lost is not there."""
        for pid, text in lcc.rows("SELECT pid, rowtext FROM staged WHERE kind = 'damaged'"):
            row = json.loads(text)
            machine, file = row["machine"], row["file"]
            if (machine, file) in self._lost or any(self._power_cut(host.address) for host in lcc.stores.values()):
                continue  # else the copy may be lost
            self._lost.add((machine, file))
            sql = f"SELECT curl, md5 FROM lccurl WHERE fetched_machineid = {machine} AND fetched_fileid = {file}"
            data = next(other.content(machine, file) for other in self._open if machine in other.stores)
            for curl, digest in lcc.rows(sql):
                if data is not None and md5(data, usedforsecurity=False).hexdigest() == digest:
                    self._broken("P18", f"{curl} of {pid} is fetched again, and its content is at {machine}/{file}")

    def fetch_begins(self, lcc: Lcc, site: Site, url: str) -> None:
        """A robot of a sub-LCC begins to fetch a page."""
        home = self._front.home(site.pid)
        if home is not lcc and site.pid not in self._back.get(lcc, set()):
            self._broken("P18", f"{url} is fetched by sub-LCC {lcc.name}; its provider is in {home.name}")

    # In the end.

    def _held(self, lcc: Lcc) -> list[int]:
        """Providers that have left, with sets that are held of them and that nobody has taken."""
        held = []
        for pid, whole in lcc.rows(_HELD):
            sql = f"SELECT MAX(last_number) FROM setspos WHERE uns = CAST('held/{lcc.number}/{pid}' AS BLOB)"
            if max(other.rows(sql)[0][0] or 0 for other in self._open) < whole:
                held.append(pid)
        return held

    def undone(self) -> list[str]:
        """What is left to be done."""
        left = [f"move {move.id} of {move.pid} is {move.state.value} ({move.why})" for move in self._front.unfinished]
        for lcc in self._open:
            for table in ("staged", "stagedcache", "stagedqueue"):
                if count := lcc.rows(f"SELECT COUNT(*) FROM {table}")[0][0]:
                    left.append(f"{count} rows are in {table} of sub-LCC {lcc.name}")
            left += [f"a set of {pid} is held by sub-LCC {lcc.name}" for pid in self._held(lcc)]
            for (pid,) in lcc.rows("SELECT pid FROM pidb"):
                if pid not in self._sites and pid not in self.others():
                    left.append(f"provider {pid}, which carries content, is still in sub-LCC {lcc.name}")
        return left

    def check_the_end(self) -> None:
        """Everything has healed and drained: each provider is in one sub-LCC, with all that it has."""
        for pid in self._sites:
            home = self._front.home(pid)
            there = [lcc for lcc, pids in self._open.items() if pid in pids]
            if there != [home]:
                names = ", ".join(lcc.name for lcc in there) or "none"
                self._broken("P18", f"provider {pid} is in sub-LCC {home.name}, says PMDB; it is in {names}")
            for lcc in self._open:
                for table in ("pidb", "lccurl", "qdb", "urlerrs", "proots", "heldsweeps") if lcc is not home else ():
                    if count := lcc.rows(f"SELECT COUNT(*) FROM {table} WHERE pid = {pid}")[0][0]:
                        self._broken("P18", f"{count} rows of {pid} are left in {table} of sub-LCC {lcc.name}")
        if self._front.is_quiet:
            self._check_served()

    def _check_served(self) -> None:
        """Nothing has gone wrong: a page is fetched when it was told, and at no other time.

        A page that was refused for a quota is fetched whenever it is told, unchanged or not.
        """
        for site in self._sites.values():
            for path, times in site.served.items():
                is_own = path in site.told_anew and (site.spoken is None or path not in site.spoken.named)
                if is_own and times > site.told_anew[path] and not site.may_be_full:
                    self._broken(
                        "P18", f"{site.url(path)} was fetched {times} times, told {site.told_anew[path]} times"
                    )
