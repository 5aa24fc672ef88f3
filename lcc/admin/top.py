"""``lcc-admin top``: what is being fetched right now.

The queue manager's saved state says which machines there are; each one's BOT-M is asked at its content port.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from lcc.admin.botm_status import NotAsked, ask_machine
from lcc.admin.context import Admin, pass_admin
from lcc.commands.watching import every_option, keep_showing
from lcc.monitor.live import Live, read_live
from lcc.storage.queue_state import saved_state

SHOWN = 40
_HEAD = f"{'machine':>7}  {'robot':<12}  {'provider':>8}  {'seconds':>7}  {'bytes':>13}  url"


@click.command("top")
@click.option("--once", is_flag=True, help="Look once.")
@every_option
@click.option("--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="At most so many fetches.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a look.")
@pass_admin
def top_command(admin: Admin, once: bool, every: float, limit: int, as_json: bool) -> None:
    """Show what is being fetched right now, those first that have taken longest.

    The bytes are those that are stored so far, decoded.
    """

    def text() -> str:
        answer = look(admin)
        if as_json:
            return json.dumps({**answer, "fetching": answer["fetching"][:limit]})
        return "\n".join(lines(answer, limit))

    if once:
        click.echo(text())
    else:
        keep_showing(text, every, json_lines=as_json)


def look(admin: Admin) -> dict[str, Any]:
    """What is being fetched, by machine and provider, and what could not be found out."""
    with admin.database() as database:
        live = read_live(database.interact(saved_state), admin.now())
    fetching: list[dict[str, Any]] = []
    troubles: list[str] = [live.trouble] if live.trouble else []
    waiting = 0
    for machine, address in _machines(admin, live):
        try:
            said = ask_machine(admin.config, address)
            rows = [{"machine": machine or int(said["machine"]), **row} for row in said["fetching"]]
            waiting += int(said["waiting"])
            fetching += rows
        except NotAsked as error:
            troubles.append(f"machine {machine}: {error}")
        except (KeyError, TypeError, ValueError):
            troubles.append(f"machine {machine}: its BOT-M is of another version")
    fetching.sort(key=lambda row: -row["seconds"])
    rates = live.state.get("rates", {}) if live.alive else {}
    return {
        "time": admin.now(),
        "fetching": fetching,
        "waiting": waiting,
        "capacity": live.state.get("capacity", 0) if live.alive else 0,
        "per_second": rates.get("results_recorded"),
        "troubles": troubles,
    }


def _machines(admin: Admin, live: Live) -> Iterator[tuple[int, str]]:
    """The machines that are connected, and where each is asked; empty: as this configuration says."""
    own = admin.config.botm.machine
    connected = [each for each in live.state.get("machines", ()) if each.get("connected")] if live.alive else []
    for machine in connected:
        is_own = machine["machine"] == own and admin.config.botm.serves != "botms"
        yield machine["machine"], "" if is_own else machine.get("content", "") or "nowhere"


def lines(answer: dict[str, Any], limit: int) -> Iterator[str]:
    """For a person."""
    rate = "" if answer["per_second"] is None else f"; {answer['per_second']:g} a second"
    yield (
        f"{len(answer['fetching']):,} of {answer['capacity']:,} fetches at once, "
        f"{answer['waiting']:,} wait for a robot{rate}"
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
    if len(answer["fetching"]) > limit:
        yield f"… and {len(answer['fetching']) - limit:,} more"
