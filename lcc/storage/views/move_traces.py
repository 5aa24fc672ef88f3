"""What a sub-LCC's database says of moves, for the repair of a front end's database (doc/front-end.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

import attrs

from lcc.model.frontend.moves import Fence
from lcc.model.frontend.traces import CarrierTrace, FencedAt, FlipTrace, Traces
from lcc.numbers import INT64_MAX, parse_number
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import CARRIES

# As lcc.storage.queue.moves.staging writes them.
_CARRIER = "SELECT pid, password, contact, bandwidth FROM pidb WHERE password LIKE ? AND removed = 0"
_is_password = re.compile(CARRIES + r"([0-9]{1,18}) of ([0-9]{1,18})", re.ASCII).fullmatch
_is_contact = re.compile(r"content of provider ([0-9]{1,10}) from (\S+) \(move [0-9]+\)", re.ASCII).fullmatch
_is_stream = re.compile(rb"move/([0-9]{1,18})").fullmatch


def read_traces(txn: Txn, subid: int, first_pid: int, last_pid: int) -> Traces:
    """
    :param subid: number of this sub-LCC.
    :param first_pid, last_pid: its range.
    """
    fences = {
        pid: FencedAt(epoch, Fence(state)) for pid, epoch, state in txn.query("SELECT pid, epoch, state FROM fenced")
    }
    flips: list[FlipTrace] = []
    for flip, pid, other, arrived, epoch, time in txn.query(
        "SELECT flip, pid, subid, arrived, epoch, time FROM flips ORDER BY flip"
    ):
        source, dest = (other, subid) if arrived else (subid, other)
        flips.append(FlipTrace(bool(arrived), flip, pid, source, dest, epoch, time))
    carriers = _carriers(txn)
    here = txn.query(
        "SELECT pid FROM pidb WHERE removed = 0 AND (pid < ? OR pid > ? OR pid IN (SELECT pid FROM fenced))",
        [first_pid, last_pid],
    )
    streams = txn.query("SELECT DISTINCT uns FROM setspos WHERE uns >= ? AND uns < ?", [b"move/", b"move0"])
    cursors = txn.query("SELECT rowtext FROM staged WHERE kind = 'cursor'")
    moves = [
        0,
        *(carrier.move for carrier in carriers),
        *(parse_number(match[1].decode(), INT64_MAX) for (uns,) in streams if (match := _is_stream(bytes(uns)))),
        *(json.loads(text)["move"] for (text,) in cursors),
    ]
    named = [each for flip in flips for each in (flip.source, flip.dest)]
    origin = int(txn.value("SELECT MAX(subid) FROM origins", (), 0) or 0)
    traces = Traces(fences, flips, carriers, frozenset(), {}, max(moves), max([origin, *named]))
    return with_providers(txn, traces, {pid for (pid,) in here})


def with_providers(txn: Txn, traces: Traces, pids: Collection[int]) -> Traces:
    """The same, and which of these providers are there."""
    sql = (
        "SELECT p.pid, COALESCE(s.files_used, 0) FROM pidb p LEFT JOIN pstats s ON s.pid = p.pid"
        " WHERE p.removed = 0 AND p.pid IN ({in})"
    )
    found = dict(txn.query_in(sql, sorted(pids)))
    return attrs.evolve(traces, here=traces.here | found.keys(), files={**traces.files, **found})


def _carriers(txn: Txn) -> list[CarrierTrace]:
    found: list[CarrierTrace] = []
    for pid, password, contact, bandwidth in txn.query(_CARRIER, [f"{CARRIES}%"]):
        move, about = _is_password(password), _is_contact(contact)
        root = txn.value("SELECT root FROM proots WHERE pid = ? ORDER BY position LIMIT 1", [pid], "")
        if move and about:
            number, time, moved = (parse_number(text, INT64_MAX) for text in (move[1], move[2], about[1]))
            found.append(CarrierTrace(pid, moved, number, time, about[2], str(root), bandwidth))
    return found
