"""Bugs of moves between sub-LCCs."""

from __future__ import annotations

from ..run import MOVES
from .bug import Bug

MOVED = [
    Bug(
        "flip-before-drain",
        "P6: a source says that it has obeyed while its robots fetch",
        "lcc/roles/qm/moves/obeying.py",
        "            if not (tasks_rest and self._is_still(pid)) or await self._database.select(has_orders, pid):\n",
        "            if not tasks_rest or await self._database.select(has_orders, pid):\n",
        kind=MOVES,
    ),
    Bug(
        "activation-without-flip",
        "P18: a provider is active at its destination, and PMDB has not said that it is there",
        "lcc/roles/qm/moves/mover.py",
        "        await self._front.write(front_moves.flip, move, since, self._engine.now())\n",
        "        await self._arrive(move, source)\n",
        kind=MOVES,
    ),
    Bug(
        "debt-forgotten",
        "P11: a destination does not know how long a provider has to wait",
        "lcc/storage/queue/moves/arrivals.py",
        "        delay = _by_this_clock(Delay(**row), write.now)\n        DELAYS.upsert(txn, [list(delay)])\n",
        "        pass\n",
        kind=MOVES,
    ),
    Bug(
        "origin-dropped",
        "P18: a row that moves on is of its last home only: who has not read it there does not get it",
        "lcc/storage/queue/moves/arriving_rows.py",
        '_ORIGIN = "COALESCE(r.origin_subid, ?), COALESCE(r.origin_number, r.change_number)"',
        '_ORIGIN = "?, r.change_number"',
        kind=MOVES,
    ),
    Bug(
        "stale-map",
        "P18: changes are read by a map that does not have the last move",
        "lcc/roles/cu/front/changes.py",
        "    if not knows_flips(txn, ask.view):\n        return None\n",
        "",
        kind=MOVES,
    ),
    Bug(
        "spooled-set-wins",
        "P5: a set in a spool of the source is newer than those of the destination",
        "lcc/storage/queue/moves/arrivals.py",
        "    stats.maxconnseq += ORDER_MARGIN\n",
        "",
        kind=MOVES,
    ),
    Bug(
        "late-set-lost",
        "P2: sets that come to the source after the move stay there",
        "lcc/roles/qm/moves/mover.py",
        "                await self._take_held(pid, sublccs[subid])\n",
        "                pass\n",
        kind=MOVES,
    ),
    Bug(
        "away-is-lost",
        "P18: content of a machine that is away is taken for lost, and its pages are fetched again",
        "lcc/roles/botm/content_port.py",
        'return _say(request, 503, f"machine {machine} is not connected',
        'return _say(request, 404, f"machine {machine} is not connected',
        kind=MOVES,
    ),
]
