"""Which sub-LCC a provider is in, and how far moves are: as a front end's database says, for commands and monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lcc.domain.frontend.sub_lccs import home_of, is_stale
from lcc.domain.wording import Lines, duration, more, number, utc
from lcc.model.frontend.moves import UNFINISHED, Move, MoveState
from lcc.model.frontend.places import AtHome, Placement, SubLcc, SubState
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.moves import last_move, moves_in
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import list_sublccs, list_vitals

Record = Mapping[str, Any]
MOVES_SHOWN = 5


def move_record(move: Move, names: Mapping[int, str]) -> dict[str, Any]:
    """A move, for JSON.

    :param names: of sub-LCCs, by their numbers.
    """
    return {
        "id": move.id,
        "pid": move.pid,
        "source": names.get(move.source, str(move.source)),
        "dest": names.get(move.dest, str(move.dest)),
        "state": move.state.value,
        "rows": move.number("rows"),
        "content_left": move.number("content_left"),
        "freezes": move.number("freezes"),
        "flip": move.flip,
        "ordered": move.made_time,
        "changed": move.changed_time,
        "why": move.why if move.state is not MoveState.DONE else "",
    }


def move_text(record: Record) -> str:
    """A move, in words."""
    state, text = MoveState(record["state"]), f"from sub-LCC {record['source']} to {record['dest']}"
    since = f"{utc(record['changed'])} UTC"
    if state is MoveState.DONE:
        return f"moved {text} at {since}"
    if state is MoveState.CANCELLED:
        return f"its move {text} was cancelled at {since}: {record['why']}"
    left = f", {number(record['content_left'], 'file')} left" if record["content_left"] else ""
    why = f"; {record['why']}" if record["why"] else ""
    return f"moving {text}: {state.value}, {number(record['rows'], 'row')} copied{left}{why}"


def place_of_provider(txn: Txn, pid: int) -> tuple[SubLcc, Placement] | None:
    """The sub-LCC of a provider, and how it is there; None: no sub-LCC has ids like this."""
    subs = list_sublccs(txn)
    (row,) = placements(txn, [pid])
    home = home_of(subs, pid)
    place = row or Placement(pid, 0 if home is None else home.subid)
    sub = next((each for each in subs if each.subid == place.subid), None)
    return None if sub is None else (sub, place)


def place_record(txn: Txn, pid: int) -> dict[str, Any] | None:
    """Where a provider is, and its last move; None: no sub-LCC has ids like this."""
    found = place_of_provider(txn, pid)
    if found is None:
        return None
    sub, place = found
    move = last_move(txn, pid)
    names = {each.subid: each.name for each in list_sublccs(txn)}
    return {
        "sublcc": sub.name,
        "state": place.state.value,
        "move": None if move is None else move_record(move, names),
    }


def place_text(record: Record) -> str:
    """Where a provider is, in words.

    :param record: or what says in ``error`` why nobody knows.
    """
    if "error" in record:
        return f"in which sub-LCC, is unknown: {record['error']}"
    parts = [f"in sub-LCC {record['sublcc']}"]
    if record["state"] == AtHome.MAKING.value:
        parts.append("being registered")
    if record["state"] == AtHome.FROZEN.value:
        parts.append("standing still: who logs in waits")
    move = record["move"]
    if move is not None:
        parts.append(move_text(move))
    return "; ".join(parts)


def elsewhere_lines(found: Iterable[Record]) -> Iterator[str]:
    """Providers of other sub-LCCs with a root for a URL, in words."""
    for each in found:
        if "error" not in each:
            yield f"belongs to provider {each['pid']} in sub-LCC {each['sublcc']}, by its root {each['root']}"
        elif each["sublcc"] is None:
            yield f"other sub-LCCs may have it: {each['error']}"
        else:
            yield f"sub-LCC {each['sublcc']} may have it: {each['error']}"


def front_record(txn: Txn, now: int, stale_seconds: int) -> dict[str, Any]:
    """Sub-LCCs, and moves under way."""
    subs, vitals = list_sublccs(txn), list_vitals(txn)
    names = {sub.subid: sub.name for sub in subs}
    known = [(sub, vitals.get(sub.subid)) for sub in subs if sub.state is not SubState.REMOVED]
    return {
        "sublccs": [
            {
                "name": sub.name,
                "state": sub.state.value,
                "providers": None if reported is None else reported.providers,
                "files": None if reported is None else reported.files,
                "queued": None if reported is None else reported.queued,
                "reported": None if reported is None else reported.time,
                "stale": is_stale(reported, now, stale_seconds),
            }
            for sub, reported in known
        ],
        "moves": [move_record(move, names) for move in moves_in(txn, UNFINISHED)],
    }


def front_lines(record: Record, now: int, me: str = "") -> Iterator[tuple[str, str]]:
    """The same in words.

    :param me: name of this sub-LCC; empty: the front end itself, which tells of all.
    """
    if not me:
        for sub in record["sublccs"]:
            yield "sub-LCC", f"{sub['name']}: {_sub_text(sub, now)}"
    elif me not in {sub["name"] for sub in record["sublccs"]}:
        yield "front end", f"knows no sub-LCC {me}: run lcc-admin fe add there"
    else:
        yield "front end", f"this is sub-LCC {me} of {len(record['sublccs'])}"
    moves = [move for move in record["moves"] if not me or me in (move["source"], move["dest"])]
    lines: Lines = [("moves", f"provider {move['pid']}: {move_text(move)}") for move in moves[:MOVES_SHOWN]]
    yield from lines
    yield from more(MOVES_SHOWN, len(moves), "move")


def _sub_text(sub: Record, now: int) -> str:
    if sub["reported"] is None:
        return f"{sub['state']}, has not reported yet"
    ago = f"reported {duration(now - sub['reported'])} ago{', STALE' if sub['stale'] else ''}"
    counts = f"{number(sub['providers'], 'provider')}, {number(sub['files'], 'file')}, {number(sub['queued'], 'URL')}"
    return f"{sub['state']}, {counts} queued; {ago}"
