"""``lcc-admin fe``: the front end over several LCCs, and its sub-LCCs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from lcc.admin.context import SEE_CHECK, Admin, pass_admin
from lcc.admin.frontend.repair import repair_command
from lcc.admin.output import Column, Listing, json_option, say_facts
from lcc.admin.values import NONE, PID, number_or_none
from lcc.commands.errors import Failed
from lcc.config import mysql_password, sublcc_name_fault
from lcc.domain.frontend.sub_lccs import free_room, is_stale
from lcc.errors import ConfigError
from lcc.insight.places import place_of_provider
from lcc.model.frontend.places import AtHome, SubLcc, SubState, Vitals
from lcc.model.shellwords import shell_word
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.moves import concerns_move
from lcc.storage.fe.placements import count_placed, count_unsettled
from lcc.storage.fe.sublccs import (
    NoSuchSubLcc,
    SubLccExists,
    add_sublcc,
    change_sublcc,
    get_sublcc,
    list_sublccs,
    list_vitals,
)
from lcc.storage.providers.pid_range import RangeTaken, last_pid, limit_pids
from lcc.storage.providers.providers import provider_ids
from lcc.storage.queue.machine_range import limit_machines, machine_range
from lcc.transport.wires import sublcc_endpoint

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

SEE_LIST = "lcc-admin fe list shows all sub-LCCs"
_COLUMNS = (
    Column("name", 12),
    Column("state", 8),
    Column("providers", 9, "number"),
    Column("files", 12, "number"),
    Column("queued", 10, "number"),
    Column("free", 5, "number", title="free"),
    Column("reported", 19, "time", title="reported (UTC)"),
    Column("stale", 5),
    Column("pids", 0, title="provider ids"),
)
_is_range = re.compile(r"([1-9][0-9]{0,9})-([1-9][0-9]{0,9})", re.ASCII).fullmatch


def _name(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    fault = sublcc_name_fault(text)
    if fault:
        raise click.BadParameter(fault)
    return text


def _range(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int]:
    """First and last; (0, 0): none was given."""
    if text is None:
        return 0, 0
    match = _is_range(text)
    first, last = (int(match[1]), int(match[2])) if match else (1, 0)
    if not first <= last < 2**31:
        raise click.BadParameter(f"{text!r} is no range of ids, such as 1-10000000")
    return first, last


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--uns",
        multiple=True,
        metavar="ENDPOINT",
        help="Endpoint of a UNS of it, such as tls:lcc1.example.org:9001 or tcp:127.0.0.1:9000 (repeatable).",
    ),
    click.option(
        "--proxy-protocol/--no-proxy-protocol",
        default=None,
        help="Whether to tell its UNSes the providers' addresses ([uns] proxies there); default: yes.",
    ),
    click.option("--notifiers", metavar="ENDPOINT", help="Endpoint of its port of notifiers."),
    click.option("--content", metavar="URL", help="Content port of its (central) BOT-M, as [cu] content."),
    click.option("--database", metavar="URL", help="URL of its database, if that has no password."),
    click.option(
        "--database-file",
        type=click.File("r", encoding="utf-8"),
        help="File whose first line is that URL (-: standard input).",
    ),
    click.option("--files-max", type=number_or_none, metavar="NUMBER|none", help="Maximum number of files."),
    click.option("--space-max", type=number_or_none, metavar="BYTES|none", help="Maximum size of its content."),
)


def _options(command: CommandT) -> CommandT:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _given(admin: Admin, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a sub-LCC that were given on the command line."""
    given: dict[str, Any] = {}
    if values["uns"]:
        given["uns"] = tuple(values["uns"])
        for text in values["uns"]:
            _check_endpoint(admin, text)
    if values["notifiers"]:
        _check_endpoint(admin, values["notifiers"])
    url = values["database"]
    if url is not None and mysql_password(url):
        raise click.UsageError("a password on the command line is seen by others: use --database-file")
    if values["database_file"] is not None:
        url = values["database_file"].readline().strip()
    if url is not None:
        given["database"] = _absolute(url)
    for option, field in (("files_max", "files_max"), ("space_max", "space_max_bytes")):
        if values[option] is not None:
            given[field] = None if values[option] == NONE else values[option]
    given |= {name: values[name] for name in ("proxy_protocol", "notifiers", "content") if values[name] is not None}
    return given


def _check_endpoint(admin: Admin, text: str) -> None:
    if any(char.isspace() for char in text) or ":" not in text:
        raise click.BadParameter(f"{text!r} is no endpoint, such as tls:HOST:PORT")
    try:
        sublcc_endpoint(admin.config, text, 1)
    except ConfigError as error:
        raise Failed(str(error), SEE_CHECK) from None


def _absolute(url: str) -> str:
    """Of a SQLite database the whole path: it is another home's."""
    kind, _, path = url.partition(":")
    return f"sqlite:{Path(path).absolute()}" if kind == "sqlite" and path else url


@click.group("fe")
def fe_group() -> None:
    """Manage a front end over several LCCs (doc/front-end.md)."""


fe_group.add_command(repair_command)


@fe_group.command("init")
@pass_admin
def init_command(admin: Admin) -> None:
    """Create the tables of the front end ([fe] database)."""
    with admin.front_end(create=True) as database:
        database.interact(database_epoch)  # the first use makes the tables, or brings them up to date
    click.echo("The front end's database is ready.")


@fe_group.command("add")
@click.argument("name", callback=_name)
@_options
@click.option("--pids", callback=_range, metavar="FIRST-LAST", help="Ids of its providers; default: the next free.")
@click.option(
    "--machines", callback=_range, metavar="FIRST-LAST", help="Ids of its machines; default: the next free."
)
@click.option(
    "--number",
    "subid",
    type=click.IntRange(1, 2**31 - 1),
    help="Its number in a front end's database that was lost (see lcc-admin fe repair).",
)
@json_option
@pass_admin
def add_command(
    admin: Admin,
    /,
    name: str,
    pids: tuple[int, int],
    machines: tuple[int, int],
    subid: int | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Add an LCC, new or in use, as a sub-LCC.

    From now on its new providers get ids of its range only.  It may go on running.
    """
    given = _given(admin, values)
    for option, field in (("--uns", "uns"), ("--database or --database-file", "database")):
        if field not in given:
            raise click.UsageError(f"{option} is missing")
    values = {"proxy_protocol": True, "notifiers": "", "content": "", **given}
    wanted = SubLcc(
        subid=subid or 0,
        name=name,
        state=SubState.OPEN,
        first_pid=pids[0],
        last_pid=pids[1],
        first_machine=machines[0],
        last_machine=machines[1],
        made_time=admin.now(),
        **values,
    )

    def limit_ids(txn: Txn, sub: SubLcc) -> None:
        limit_pids(txn, sub.first_pid, sub.last_pid)
        limit_machines(txn, sub.first_machine, sub.last_machine)

    with admin.front_end() as front, admin.sublcc(wanted) as own:

        def add(txn: Txn) -> SubLcc:
            made = add_sublcc(txn, wanted)
            # Before the front end's commit: what cannot be is not noted.
            own.write(limit_ids, made)
            return made

        try:
            made = front.write(add)
        except SubLccExists as error:
            raise Failed(str(error), "give another name, number, or ids that are free (--pids, --machines)") from None
        except RangeTaken as error:
            raise Failed(f"{name}: {error}", _range_remedy(own)) from None
    if as_json:
        click.echo(json.dumps(_record(made, None, admin)))
        return
    click.echo(f"{name}: provider ids {made.first_pid}-{made.last_pid}")
    click.echo(f"{name}: machine ids {made.first_machine}-{made.last_machine} ([botm] machine)")
    proxies = ", the front end's address in [uns] proxies" if made.proxy_protocol else ""
    click.echo(f'Next: set [fe] database, [fe] name = "{name}"{proxies} in its lcc.toml, if not done, and restart it')


@fe_group.command("set")
@click.argument("name")
@_options
@json_option
@pass_admin
def set_command(admin: Admin, /, name: str, as_json: bool, **values: Any) -> None:
    """Change the addresses or the capacity of a sub-LCC."""
    _change(admin, name, as_json, "changed", _given(admin, values))


@fe_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List the sub-LCCs with their last reports."""
    listing = Listing(_COLUMNS, as_json)
    with admin.front_end() as database:
        found, reports = database.interact(lambda txn: (list_sublccs(txn), list_vitals(txn)))
    for sub in found:
        if sub.state is not SubState.REMOVED:
            record = _record(sub, reports.get(sub.subid), admin)
            listing.row(record if as_json else {**record, "free": _percent(record["free"])})
    listing.end("no sub-LCCs")


@fe_group.command("show")
@click.argument("name")
@json_option
@pass_admin
def show_command(admin: Admin, name: str, as_json: bool) -> None:
    """Show the addresses of a sub-LCC, and its last report."""
    with admin.front_end() as database:
        sub, reports, placed = _asked(
            database, lambda txn: (found := get_sublcc(txn, name), list_vitals(txn), count_placed(txn, found.subid))
        )
    record = {**_record(sub, reports.get(sub.subid), admin), "placed": placed}
    if as_json:
        click.echo(json.dumps(record))
        return
    say_facts(
        (key.replace("_", " "), " ".join(value) if isinstance(value, list) else _percent(value))
        for key, value in record.items()
        if value is not None
    )


@fe_group.command("where")
@click.argument("pid", type=PID)
@json_option
@pass_admin
def where_command(admin: Admin, pid: int, as_json: bool) -> None:
    """Show which sub-LCC a provider is in."""
    with admin.front_end() as database:
        found = database.interact(place_of_provider, pid)
    if found is None:
        raise Failed(f"no sub-LCC has provider ids like {pid}", SEE_LIST)
    sub, place = found
    if as_json:
        click.echo(json.dumps({"pid": pid, "sublcc": sub.name, "epoch": place.epoch, "state": place.state.value}))
        return
    click.echo(f"{sub.name}" if place.state is AtHome.HERE else f"{sub.name} ({place.state.value})")


@fe_group.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Give it new providers again.")
@json_option
@pass_admin
def drain_command(admin: Admin, name: str, undo: bool, as_json: bool) -> None:
    """Give a sub-LCC no new providers."""
    state = SubState.OPEN if undo else SubState.DRAINING
    _change(admin, name, as_json, state.value, {"state": state})


@fe_group.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Even if its database is unreachable, or has providers.")
@json_option
@pass_admin
def remove_command(admin: Admin, name: str, force: bool, as_json: bool) -> None:
    """Remove a sub-LCC that has no providers.  Its ids are not given out again."""
    if not force:
        with admin.front_end() as database:
            sub, unsettled, moves = _asked(
                database,
                lambda txn: (
                    found := get_sublcc(txn, name),
                    count_unsettled(txn, found.subid),
                    concerns_move(txn, found.subid),
                ),
            )
        if moves:
            raise Failed(f"providers move from or to sub-LCC {name}", "wait for their moves, or cancel them")
        if unsettled:
            raise Failed(
                f"a provider of sub-LCC {name} is being registered", "try again in some minutes, or use --force"
            )
        # Rows in PMDB stay when a provider is removed: whoever logs in with its id hears that there is none.
        with admin.sublcc(sub) as own:
            has_some = bool(own.interact(provider_ids, None, 1))
        if has_some:
            raise Failed(
                f"sub-LCC {name} has providers",
                f"move them (lcc-admin split {shell_word(name)} --to SUB --share 1; move PID), or remove them there",
            )
    _change(admin, name, as_json, "removed", {"state": SubState.REMOVED})


def _range_remedy(own: BlockingDatabase) -> str:
    """What to do about ids of a sub-LCC that are not of the ranges it was to get."""
    (first, last), last_id = own.interact(lambda txn: (machine_range(txn), last_pid(txn)))
    if last:
        pids = f"provider ids up to {last_id} (--pids)"
        return f"give it the ranges that it had: machine ids {first}-{last} (--machines), {pids}"
    return (
        "give it ranges that include all its ids (--pids, --machines); if it has cached nothing yet, remove its home "
        "folder, set [botm] machine in its lcc.toml to an id of the range, and run lcc-admin init there again"
    )


def _change(admin: Admin, name: str, as_json: bool, word: str, values: dict[str, Any]) -> None:
    with admin.front_end() as database:
        try:
            sub = database.write(lambda txn: change_sublcc(txn, name, **values))
        except NoSuchSubLcc as error:
            raise Failed(str(error), SEE_LIST) from None
    if as_json:
        click.echo(json.dumps(_record(sub, None, admin)))
    else:
        click.echo(f"{name}: {word}")


def _asked(database: BlockingDatabase, question: Callable[[Txn], Any]) -> Any:
    try:
        return database.interact(question)
    except NoSuchSubLcc as error:
        raise Failed(str(error), SEE_LIST) from None


def _record(sub: SubLcc, vitals: Vitals | None, admin: Admin) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": sub.name,
        "number": sub.subid,
        "state": sub.state.value,
        "uns": list(sub.uns),
        "proxy_protocol": sub.proxy_protocol,
        "notifiers": sub.notifiers or None,
        "content": sub.content or None,
        "pids": f"{sub.first_pid}-{sub.last_pid}",
        "machines": f"{sub.first_machine}-{sub.last_machine}",
        "files_max": sub.files_max,
        "space_max": sub.space_max_bytes,
        "reported": None,
        "stale": is_stale(vitals, admin.now(), admin.config.fe.stale),
    }
    known = dict.fromkeys(("providers", "files", "space_bytes", "queued", "change_number", "epoch"))
    if vitals is None:
        return {**record, **known, "free": None}
    record["reported"] = vitals.time
    reported = attrs.asdict(vitals)
    return {**record, **{key: reported[key] for key in known}, "free": round(free_room(sub, vitals), 4)}


def _percent(value: Any) -> Any:
    return f"{100 * value:.0f} %" if isinstance(value, float) else value
