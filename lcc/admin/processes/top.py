"""``lcc-admin top``: what is being fetched right now.

The queue manager's saved state says which machines there are; each one's BOT-M is asked at its content port.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
from click.core import ParameterSource

from lcc.admin.context import Admin, pass_admin
from lcc.admin.processes.botm_status import NotAsked, ask_machine
from lcc.commands.watch import clean, interval_option, refresh_until_interrupted
from lcc.insight.qm_state import Live, read_live
from lcc.storage.queue.maintenance.saved_state import saved_state

SHOWN = 40
ASKED_AT_ONCE = 16
_ROW = (("robot", str), ("pid", int), ("url", str), ("attempt", int), ("seconds", float), ("bytes", int))
"""What is shown of a fetch."""
_HEAD = f"{'machine':>7}  {'robot':<12}  {'provider':>8}  {'seconds':>7}  {'bytes':>13}  url"


@click.command("top")
@click.option("--once", is_flag=True, help="Print once and exit.")
@interval_option
@click.option("--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="Maximum number of fetches.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per refresh.")
@pass_admin
def top_command(admin: Admin, once: bool, every: float, limit: int, as_json: bool) -> None:
    """Show the fetches in progress, longest-running first.

    Bytes are counted as stored so far, decoded. Where standard output is no terminal, it prints once, unless --every
    is given.
    """
    asked = click.get_current_context().get_parameter_source("every") is not ParameterSource.DEFAULT
    once = once or not (asked or sys.stdout.isatty())

    def text() -> str:
        answer = look(admin)
        if as_json:
            return json.dumps({**answer, "fetching": answer["fetching"][:limit]})
        return "\n".join(lines(answer, limit))

    if once:
        click.echo(text() if as_json else clean(text()))
    else:
        refresh_until_interrupted(text, every, json_lines=as_json)


def look(admin: Admin) -> dict[str, Any]:
    """What is being fetched, by machine and provider, and what could not be found out."""
    with admin.database() as database:
        live = read_live(database.interact(saved_state), admin.now())
    fetching: list[dict[str, Any]] = []
    troubles: list[str] = [live.trouble] if live.trouble else []
    waiting = out = 0
    machines = list(_machines(admin, live))
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:  # one that hangs is not to keep the others waiting
        answers = pool.map(lambda place: _ask(admin, *place), machines)
        for rows, out_there, waiting_there, trouble in answers:
            fetching += rows
            out += out_there
            waiting += waiting_there
            troubles += [trouble] if trouble else []
    fetching.sort(key=lambda row: -row["seconds"])
    rates = live.state.get("rates", {}) if live.alive else {}
    return {
        "time": admin.now(),
        "fetching": fetching,
        "running": out,
        "waiting": waiting,
        "capacity": live.state.get("capacity", 0) if live.alive else 0,
        "per_second": rates.get("results_recorded"),
        "troubles": troubles,
    }


def _ask(admin: Admin, machine: int, address: str) -> tuple[list[dict[str, Any]], int, int, str]:
    """What a machine fetches (the oldest of it), how much that is in all and how much waits there; or why that is not
    known."""
    try:
        said = ask_machine(admin.config, address)
        rows = [{"machine": machine, **{name: kind(row[name]) for name, kind in _ROW}} for row in said["fetching"]]
        return rows, int(said["out"]), int(said["waiting"]), ""
    except NotAsked as error:
        return [], 0, 0, f"machine {machine}: {error}"
    except (KeyError, TypeError, ValueError):
        return [], 0, 0, f"machine {machine}: its BOT-M runs another version"


def _machines(admin: Admin, live: Live) -> Iterator[tuple[int, str]]:
    """The machines that are connected, and where each is asked; an empty address: as this configuration says."""
    own = admin.config.botm.machine
    connected = [each for each in live.state.get("machines", ()) if each.get("connected")] if live.alive else []
    for machine in connected:
        is_own = machine["machine"] == own and admin.config.botm.serves != "botms"
        yield machine["machine"], "" if is_own else machine.get("content", "") or "nowhere"


def lines(answer: dict[str, Any], limit: int) -> Iterator[str]:
    """For a person."""
    rate = "" if answer["per_second"] is None else f"; {answer['per_second']:g} per second"
    yield (
        f"{answer['running']:,} of {answer['capacity']:,} fetches running, {answer['waiting']:,} orders waiting{rate}"
    )
    yield from answer["troubles"]
    if answer["fetching"]:
        yield _HEAD
    for row in answer["fetching"][:limit]:
        again = f" (attempt {row['attempt']})" if row["attempt"] > 1 else ""
        yield (
            f"{row['machine']:>7}  {row['robot']:<12}  {row['pid']:>8}  {row['seconds']:>7.1f}  {row['bytes']:>13,}"
            f"  {row['url']}{again}"
        )
    more = max(answer["running"], len(answer["fetching"])) - min(limit, len(answer["fetching"]))
    if more > 0 and answer["fetching"]:
        yield f"… and {more:,} more"
