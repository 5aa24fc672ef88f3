"""``lcc-admin move``, ``moves`` and ``split``: providers that move between sub-LCCs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.frontend.sublccs import SEE_LIST
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import PID
from lcc.commands.errors import Failed
from lcc.commands.watch import refresh_until_interrupted, watch_option
from lcc.domain.frontend.sub_lccs import home_of, is_stale
from lcc.domain.wording import utc
from lcc.insight.places import move_record
from lcc.model.frontend.moves import UNFINISHED, Move
from lcc.model.frontend.places import SubLcc, SubState
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.moves import CannotMove, cancel_move, list_moves, moves_in, order_move
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import NoSuchSubLcc, get_sublcc, list_sublccs, list_vitals
from lcc.storage.providers.providers import provider_files

SEE_MOVES = "lcc-admin moves shows all moves"
_COLUMNS = (
    Column("id", 6, "number"),
    Column("pid", 10, "number", title="provider"),
    Column("source", 12, title="from"),
    Column("dest", 12, title="to"),
    Column("state", 10),
    Column("rows", 10, "number"),
    Column("content_left", 10, "number", title="files left"),
    Column("changed", 19, "time", title="since (UTC)"),
    Column("why", 0),
)
_PAGE = 1000


@click.command("move")
@click.argument("pid", type=PID)
@click.option("--to", "to", metavar="SUB", help="The sub-LCC to move it to.")
@click.option(
    "--bandwidth",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Maximum rate at which its content is copied, in bytes per second.",
)
@click.option("--cancel", is_flag=True, help="Cancel its move; possible until it has flipped.")
@json_option
@pass_admin
def move_command(admin: Admin, pid: int, to: str | None, bandwidth: int | None, cancel: bool, as_json: bool) -> None:
    """Move a provider to another sub-LCC with all its data, while it publishes.

    The queue managers of both sub-LCCs carry the move out; lcc-admin moves shows its progress.
    """
    if (to is None) != cancel:
        raise click.UsageError("give either --to SUB or --cancel")
    with admin.front_end() as database:
        if to is None:
            moved = _done(database, lambda txn: cancel_move(txn, pid, "cancelled by an operator", admin.now()))
        else:
            moved = _done(database, partial(_order, admin, pid, to, bandwidth))
        names = _names(database)
    if as_json:
        click.echo(json.dumps(move_record(moved, names)))
    elif cancel:
        click.echo(f"Provider {pid} stays in sub-LCC {names[moved.source]}.")
    else:
        click.echo(f"Provider {pid} moves from {names[moved.source]} to {to} (move {moved.id}).")


@click.command("split")
@click.argument("name", metavar="FROM")
@click.option("--to", "to", required=True, metavar="SUB", help="The sub-LCC to move them to.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Share of the files of its registered providers to move.",
)
@click.option(
    "--bandwidth",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Maximum rate at which content is copied, in bytes per second.",
)
@json_option
@pass_admin
def split_command(admin: Admin, name: str, to: str, share: float, bandwidth: int | None, as_json: bool) -> None:
    """Move some providers of a sub-LCC to another one, one after the other.

    Selects registered providers, those with the most files first, as long as they fit into the share.
    """
    with admin.front_end() as database:
        source = _done(database, lambda txn: get_sublcc(txn, name))
        with admin.sublcc(source) as own:
            files = own.interact(provider_files)
        moving = {move.pid for move in database.interact(moves_in, UNFINISHED)}
        there = [pid for pid in files if pid not in moving and _is_there(database, pid, source)]
        room = share * sum(files[pid] for pid in there)
        moved: list[Move] = []
        for pid in sorted(there, key=lambda pid: (-files[pid], pid)):
            if files[pid] <= room:
                moved.append(_done(database, partial(_order, admin, pid, to, bandwidth)))
                room -= files[pid]
        names = _names(database)
    listing = Listing(_COLUMNS, as_json)
    for move in moved:
        listing.row(move_record(move, names))
    listing.end(f"no provider of {name} fits into this share")


@click.command("moves")
@click.option("--all", "done", is_flag=True, help="Include those that are done or cancelled.")
@watch_option
@json_option
@pass_admin
def moves_command(admin: Admin, done: bool, watch: bool, every: float, as_json: bool) -> None:
    """List moves of providers, with their progress."""
    with admin.front_end() as database:
        if watch:
            refresh_until_interrupted(lambda: _text(database, done, as_json), every, json_lines=as_json)
            return
        listing = Listing(_COLUMNS, as_json)
        names = _names(database)
        for move in _moves(database, done):
            listing.row(move_record(move, names))
        listing.end("no moves" if done else "no moves under way (--all shows those that are done)")


def _text(database: BlockingDatabase, done: bool, as_json: bool) -> str:
    names = _names(database)
    records = [move_record(move, names) for move in _moves(database, done)]
    if as_json:
        return "\n".join(json.dumps(record) for record in records) or "{}"
    lines = [
        f"{record['id']:>6}  {record['pid']:>10}  {record['source']} -> {record['dest']}  {record['state']:10}"
        f"  {record['rows']:>10} rows  {record['content_left']:>8} files left  {utc(record['changed'])}"
        f"  {record['why']}"
        for record in records
    ]
    return "\n".join(lines) or "no moves under way"


def _moves(database: BlockingDatabase, done: bool) -> list[Move]:
    found: list[Move] = []
    after = 0
    while page := database.interact(list_moves, after, _PAGE):
        found += [move for move in page if done or move.state in UNFINISHED]
        after = page[-1].id
    return found


def _order(admin: Admin, pid: int, to: str, bandwidth: int | None, txn: Txn) -> Move:
    dest = get_sublcc(txn, to)
    if dest.state is not SubState.OPEN:
        raise CannotMove(f"sub-LCC {to} is {dest.state.value}")
    reported = list_vitals(txn).get(dest.subid)
    if reported is not None and is_stale(reported, admin.now(), admin.config.fe.stale):
        raise CannotMove(f"sub-LCC {to} has not reported for a while: is its queue manager running?")
    return order_move(txn, pid, dest, bandwidth, admin.now())


def _done(database: BlockingDatabase, what: Callable[[Txn], Any]) -> Any:
    try:
        return database.write(what)
    except NoSuchSubLcc as error:
        raise Failed(str(error), SEE_LIST) from None
    except CannotMove as error:
        raise Failed(str(error), SEE_MOVES) from None


def _is_there(database: BlockingDatabase, pid: int, sub: SubLcc) -> bool:
    found, (row,) = database.interact(lambda txn: (list_sublccs(txn), placements(txn, [pid])))
    home = home_of(found, pid)
    return (row.subid if row is not None else home.subid if home is not None else 0) == sub.subid


def _names(database: BlockingDatabase) -> dict[int, str]:
    return {sub.subid: sub.name for sub in database.interact(list_sublccs)}
