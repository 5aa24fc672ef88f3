"""``lcc-admin status``: one screen of the whole system."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click

from lcc.admin.context import Admin, DatabaseFailed, pass_admin
from lcc.admin.frontend.places import front_standing
from lcc.admin.output import cell
from lcc.admin.processes.servers import server_lines, servers
from lcc.admin.tasks.orders import tasks_database
from lcc.commands.watch import clean, refresh_until_interrupted, watch_option
from lcc.domain.wording import duration, number
from lcc.errors import entry_for
from lcc.insight.crawl_words import spider_lines, spider_record
from lcc.insight.disks import database_disk
from lcc.insight.qm_state import Live, delay_text, read_live
from lcc.insight.task_words import scheduler_lines
from lcc.model import Delay
from lcc.model.spider.crawls import CrawlState, CrawlStatus, SpiderStatus
from lcc.storage.database.migrations import SPIDER, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.disk.file_system import DISK
from lcc.storage.disk.spool import spool_room
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.spider.claims import spiders
from lcc.storage.spider.views import crawl_statuses
from lcc.storage.tasks.figures import TaskFigures, task_figures
from lcc.storage.views.inspect import delays
from lcc.storage.views.overview import Overview, overview

TOP = 5
ROBOTS = 8
"""Of a machine."""
LIMIT = 100_000


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; with --watch, one per line.")
@watch_option
@pass_admin
def status_command(admin: Admin, as_json: bool, watch: bool, every: float) -> None:
    """Show the state of queue manager, robots, queue, scheduler, managers, spiders, search and push server.

    With the configuration of a front end: of its sub-LCCs, and of moves between them.
    """

    def text() -> str:
        front, front_screen = front_standing(admin, admin.now())
        if admin.config.is_front_end:
            return json.dumps({"front_end": front}) if as_json else _screen(front_screen)
        live, answer = look(admin)
        try:
            figures = _tasks(admin)
        except DatabaseFailed as error:  # on SQLite they have a file of their own; the rest is known all the same
            tasks, screen = {"error": str(error)}, [("scheduler", f"unknown: {error}")]
        else:
            tasks, screen = _record(figures, answer["time"]), list(scheduler_lines(figures, answer["time"]))
        running, crawls = _crawls(admin)
        asked = servers(admin.config)
        if as_json:
            spiders_too = {"spiders": [spider_record(each) for each in running]}
            return json.dumps(answer | {"front_end": front, "tasks": tasks} | spiders_too | asked)
        screen = [*lines(answer, live), *front_screen, *screen]
        if crawls:
            active = sum(each.crawl.state is CrawlState.ACTIVE and not each.is_done for each in crawls)
            screen.append(("crawls", f"{len(crawls):,}, {active:,} active (lcc-admin spider status)"))
            screen += spider_lines(running, answer["time"], admin.config.spider.lease)
        screen += server_lines(asked)
        return _screen(screen)

    if watch:
        refresh_until_interrupted(text, every, json_lines=as_json)
    else:
        click.echo(text())


def _screen(screen: list[tuple[str, str]]) -> str:
    return "\n".join(clean(f"{name:<13} {line}".rstrip()) for name, line in screen)


def _tasks(admin: Admin) -> TaskFigures:
    if not place_of(admin.config, TASKS).is_there():
        return TaskFigures()
    with tasks_database(admin, patient=False) as database:
        return database.interact(task_figures, admin.now())


def _crawls(admin: Admin) -> tuple[list[SpiderStatus], list[CrawlStatus]]:
    """Spiders and crawls; none where their tables are not to be had."""
    place = place_of(admin.config, SPIDER)
    if not place.is_there():
        return [], []
    try:
        with admin.database_at(place, patient=False) as database:
            return database.interact(lambda txn: (spiders(txn), crawl_statuses(txn)))
    except DatabaseFailed:
        return [], []


def _record(figures: TaskFigures, now: int) -> dict[str, Any]:
    """For JSON."""
    record = attrs.asdict(figures, recurse=False)
    managers = [
        {
            "name": each.name,
            "host": each.host,
            "state": each.state(now).value,
            "since_time": each.since(now),
            "heard_time": each.heard_time,
            "paused": each.paused,
            "capacity": each.capacity or None,
            "running": each.running,
            "kinds": [limits._asdict() for limits in each.kinds],
        }
        for each in figures.managers
    ]
    waiting = max(0, figures.open - figures.running)
    return record | {"alive": figures.is_alive(now), "waiting": waiting, "managers": managers}


def look(admin: Admin) -> tuple[Live, dict[str, Any]]:
    """What the queue manager says of itself, and all that ``--json`` shows."""
    now = admin.now()
    with admin.database() as database:
        state, figures, (held, reasons) = database.interact(_read, now)
    live = read_live(state, now)
    return live, {
        "time": now,
        "database": admin.config.database.url.partition(":")[0],
        "epoch": figures.epoch,
        "alive": live.alive,
        "age": live.age_seconds if live.state else None,
        "trouble": live.trouble,
        "qm": live.state or None,
        "providers": {"registered": figures.providers, "removing": figures.removing},
        "cache": {"files": figures.files, "space": figures.space_bytes, "change": figures.change},
        "queue": [attrs.asdict(waiting) for waiting in figures.queue],
        "next_retry": figures.next_retry,
        "oldest": None if figures.oldest is None else attrs.asdict(figures.oldest),
        "busiest": [{"pid": pid, "queued": queued} for pid, queued in figures.busiest],
        "delayed": reasons,
        "delays": [delay._asdict() for delay in held],
        "full_sets_wanted": figures.wanted,
        "deletions_held": {"providers": figures.held[0], "pages": figures.held[1]},
        "errors": figures.errors,
        "errors_kept": [{"code": code, "kept": kept} for code, kept in figures.codes.items()],
        "errors_kept_more": figures.codes_more,
        "orders": figures.orders,
        "deletes": [{"machine": machine, **count._asdict()} for machine, count in figures.deletes.items()],
        "spool": spool(admin.config.under_home(admin.config.uns.spool), admin.config.uns.spool_reserve),
        "database_disk": database_disk(admin.config, DISK),
    }


def _read(txn: Txn, now: int) -> tuple[str, Overview, tuple[list[Delay], dict[str, int]]]:
    return saved_state(txn), overview(txn, TOP, LIMIT, now), delays(txn, now, TOP)


def spool(folder: Path, reserve_bytes: int) -> dict[str, Any] | None:
    """Sets and bytes in the spool of the UNS on this machine, and why its disk takes no more; None: there is none."""
    try:
        files = [entry for entry in os.scandir(folder) if entry.is_file()]
        sets = [entry.stat().st_size for entry in files if entry.name.endswith(".set")]
        damaged = sum(1 for _ in os.scandir(folder / "damaged")) if (folder / "damaged").is_dir() else 0
    except OSError:
        return None
    no_room = spool_room(folder, reserve_bytes).missing()
    return {"sets": len(sets), "bytes": sum(sets), "damaged": damaged, "no_room": no_room}


Lines = Iterator[tuple[str, str]]


def lines(answer: dict[str, Any], live: Live) -> Lines:
    """The screen: a name, which is empty where the line above goes on, and a text."""
    yield "database", f"{answer['database']}, epoch {answer['epoch']}, change {answer['cache']['change']}"
    if answer["database_disk"]:
        yield "", answer["database_disk"]
    yield from _queue_manager(answer, live)
    yield from _queue(answer)
    yield from _waiting(answer)
    yield from _troubles(answer)
    cache = answer["cache"]
    yield "cache", f"{cache['files']:,} files, {cache['space']:,} bytes"
    for count in answer["deletes"]:
        more = "more than " if count["more"] else ""
        yield "", f"{more}{count['number']:,} files to be removed on machine {count['machine']}"
    if answer["spool"] is not None:
        spooled = answer["spool"]
        damaged = f"; {spooled['damaged']} damaged" if spooled["damaged"] else ""
        yield (
            "spool",
            f"{number(spooled['sets'], 'set')}, {spooled['bytes']:,} bytes (of the UNS on this machine){damaged}",
        )

        if spooled["no_room"]:
            yield "", f"accepts no more sets, providers are told to try again later: {spooled['no_room']}"


def _queue_manager(answer: dict[str, Any], live: Live) -> Lines:
    state = live.state
    if not live.alive:
        yield "queue manager", live.trouble.removeprefix("the queue manager ") if state else "none has run yet"
        return
    yield "queue manager", f"run {state['run']} is running; last seen {duration(live.age_seconds)} ago"
    if state.get("database"):
        yield "", f"waiting for the database: {state['database']}"
    if state.get("paused_since") is not None:
        since = duration(answer["time"] - state["paused_since"])
        yield "", f"PAUSED at the console for {since}: sends no orders"
    if state["overload"]:
        since = f" for {duration(state['time'] - state['overload_since'])}" if state.get("overload_since") else ""
        yield "", f"overloaded{since}, accepts no sets: {state['overload']}"
    for name, is_open in state["ports"].items():
        yield "", f"port for {name}: {'open' if is_open else 'closed'}"
    names = " ".join(state["unses"]) or "none"
    yield "UNS", f"{names}; {state['absorb_waiting']:,} elements waiting to be absorbed"
    if state.get("unses_paused"):
        yield "", f"PAUSED at the console: {' '.join(state['unses_paused'])}: providers are told to try again later"
    for central in state.get("centrals", ()):
        yield "central", f"{central['name']}: connected, machines: {central['machines']}"
    if not state["machines"]:
        yield "BOT-M", "none connected yet"
    for machine in state["machines"]:
        stands = "connected" if machine["ready"] else "connecting" if machine["connected"] else "unreachable"
        robots = f"robots for {machine['capacity']} concurrent fetches" if machine["capacity"] else "no robots"
        if not machine["connected"]:
            # What its robots could do when it was last heard of helps nobody now.
            robots = "no robots"
        elif machine.get("refused"):
            robots = "gets no orders"
        elif machine.get("trouble"):
            robots = "cannot store content"
        yield "BOT-M", f"{_who(machine)}: {stands}, {robots}, {number(machine['orders'], 'outstanding order')}"
        yield from _robots(machine)
        for why in (machine.get("refused"), machine.get("trouble"), machine.get("robots_refused")):
            if machine["connected"] and why:
                yield "", why
        if machine.get("paused"):
            yield "", f"PAUSED at the console: {machine['paused']}: takes no new orders"
    for awaited in live.awaited:
        wait = duration(awaited["until"] - answer["time"])
        yield (
            "",
            f"machine {awaited['machine']} may hold orders of an earlier queue manager for {wait}",
        )
    if live.awaited:
        yield "", f"{number(state['withheld']['providers'], 'provider')} waiting for these machines"
    for_hosts = sum(host["count"] for host in live.host_turns)
    if for_hosts:
        yield "", f"{number(for_hosts, 'provider')} waiting for another one of the same host"
    rates = state["rates"]
    if rates:
        yield "rates", f"{rates['results_recorded']:g} fetches/s, {rates['sets_answered']:g} sets/s"


def _robots(machine: dict[str, Any]) -> Lines:
    robots = machine.get("robots", ())
    for each in robots[:ROBOTS]:
        paused = ", PAUSED" if each["paused"] else ""
        yield "", f"robot {each['name']}: {each['busy']} of {each['capacity']:,} fetches{paused}"
    further = machine.get("robots_count", 0) - len(robots[:ROBOTS])
    if robots and further > 0:
        yield "", f"and {number(further, 'more robot')}"


def _who(machine: dict[str, Any]) -> str:
    """The machine, its BOT-M's name, and through whom it is connected."""
    via = machine.get("via", "")
    through = f" via {', '.join(via.split())}" if via else ""
    name = machine.get("name", "")
    return f"machine {machine['machine']} ({name}{through})" if name else f"machine {machine['machine']}"


def _queue(answer: dict[str, Any]) -> Lines:
    if not answer["queue"]:
        yield "queue", "empty"
    for waiting in answer["queue"]:
        later = f" ({waiting['later']:,} of them outside hours)" if waiting["later"] else ""
        yield (
            "queue",
            f"priority {waiting['priority']}: {number(waiting['urls'], 'URL')}{later}"
            f" in {number(waiting['sets'], 'set')} of {number(waiting['providers'], 'provider')}",
        )
    oldest = answer["oldest"]
    if oldest is not None:
        ago = duration(answer["time"] - oldest["time"])
        yield (
            "oldest set",
            f"{oldest['psetid']} of provider {oldest['pid']}, received {cell(oldest['time'], 'time')} UTC ({ago} "
            f"ago),"
            f" {number(oldest['urls'], 'URL')} left",
        )
    if answer["busiest"]:
        yield "most queued", ", ".join(f"provider {each['pid']}: {each['queued']:,}" for each in answer["busiest"])


def _waiting(answer: dict[str, Any]) -> Lines:
    if answer["next_retry"] is not None:
        urls = sum(waiting["retrying"] for waiting in answer["queue"])
        wait = duration(answer["next_retry"] - answer["time"])
        yield "retries", f"{number(urls, 'URL')} waiting for a retry, the first in {wait}"
    delayed = ", ".join(f"{count:,} by {reason}" for reason, count in answer["delayed"].items())
    if delayed:
        yield "delayed", f"providers: {delayed}"
    for values in answer["delays"]:
        delay = Delay(**values)
        who = f"provider {delay.pid}: " if delay.pid else ""
        yield "", f"{who}{delay_text(delay, answer['time'])}"


def _troubles(answer: dict[str, Any]) -> Lines:
    removing = answer["providers"]["removing"]
    being = f", {removing:,} being removed" if removing else ""
    yield "providers", f"{answer['providers']['registered']:,}{being}"
    for reason, count in answer["full_sets_wanted"].items():
        yield "", f"{count:,} asked for a full set: {reason}"
    held = answer["deletions_held"]
    if held["providers"]:
        yield (
            "",
            f"deletions of {number(held['pages'], 'page')} HELD, of {number(held['providers'], 'provider')}: "
            f"lcc-admin provider allow-deletions or drop-deletions",
        )
    yield "errors", f"{answer['errors']:,} to be reported to providers"
    at_least = "at least " if answer["errors_kept_more"] else ""
    for row in answer["errors_kept"][:TOP]:
        yield "", f"{row['code']} {entry_for(row['code']).text}: {at_least}{row['kept']:,}"
    for kind, count in answer["orders"].items():
        yield "orders", f"{count:,} of {kind} wait for the queue manager"
