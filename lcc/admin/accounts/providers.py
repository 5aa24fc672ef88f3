"""``lcc-admin provider``: registering content providers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs
import click

from lcc.admin.context import SEE_PROVIDERS, Admin, existing, pass_admin
from lcc.admin.frontend.places import database_of, not_here, provider_place
from lcc.admin.output import Column, Listing, cell, json_option
from lcc.admin.queue.repair import warn_if_not_running
from lcc.admin.tasks.orders import scheduler_knows
from lcc.admin.values import (
    NONE,
    PID,
    contact_callback,
    hours_callback,
    number_or_none,
    password_file_option,
    positive_or_none,
    read_password,
    roots_callback,
    seconds_or_none,
    timezone_callback,
)
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.urls import Roots, normalise_root, site_of
from lcc.errors import UrlError
from lcc.insight.places import place_text
from lcc.insight.qm_state import delay_text
from lcc.insight.robots_words import robots_words
from lcc.model import Delay, Provider, ProviderStatus
from lcc.storage.database.tables.order_rows import (
    ALLOW_DELETIONS,
    DROP_DELETIONS,
    TEXT_CHARS,
    WANT_FULL_SET,
    add_order,
)
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.passwords import generate_password, generate_token, hash_password
from lcc.storage.providers.providers import (
    NoSuchProvider,
    ProviderExists,
    change_provider,
    get_provider,
    list_providers,
    locked_provider,
    order_deletion_outside,
    order_removal,
    provider_status,
)
from lcc.storage.providers.watched import (
    BY_OPERATOR,
    OPERATOR,
    SeveralWatched,
    find_or_make_watched,
    register_provider,
    watch_again,
)
from lcc.storage.queue.intake.held_deletions import HeldSweep, held_sweep
from lcc.storage.tasks.polling.robots import read_robots
from lcc.storage.views.inspect import delays_of

LIMIT = "NUMBER|none"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_COLUMNS = (
    Column("pid", 5, "number"),
    Column("priority", 8, "number"),
    Column("bandwidth", 10, "number"),
    Column("hours", 12),
    Column("files_max", 9, "number"),
    Column("space_max", 12, "number"),
    Column("removed", 7),
    Column("watched", 7),
    Column("roots"),
)


_ROBOTS = "robots"
"""In place of an interval, or of hours: robots.txt has a say again."""


def _limit(option: str, field: str, meaning: str, kind: Callable[[str], float | str] = number_or_none) -> Any:
    return click.option(option, field, type=kind, metavar=LIMIT, help=meaning)


# What "add" and "set" share; the parameters are named as the fields of a Provider.
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _limit(
        "--bandwidth", "bandwidth_bytes", "Bandwidth for fetching from it, in bytes per second.", positive_or_none
    ),
    click.option(
        "--interval",
        "interval_seconds",
        type=lambda value: value if value == _ROBOTS else seconds_or_none(value),
        metavar="SECONDS|none|robots",
        help="Minimum time from the start of one fetch to the start of the next; 'robots': of a watched one, as its "
        "robots.txt says when it is read next.",
    ),
    click.option(
        "--hours",
        callback=lambda context, parameter, value: (
            value if value == _ROBOTS else hours_callback(context, parameter, value)
        ),
        metavar="HOURS|robots",
        help="Hours in which it may be fetched from, such as 0-8,22-23; 'robots': of a watched one, as robots.txt "
        "says when it is read next.",
    ),
    click.option(
        "--timezone",
        callback=timezone_callback,
        help="Time zone of its hours, such as Europe/Berlin; '': that of the LCC.",
    ),
    click.option("--priority", type=click.IntRange(0, 2), help="Priority; 2 is fetched first."),
    _limit("--files-max", "files_max", "File quota."),
    _limit("--space-max", "space_max_bytes", "Space quota in bytes."),
    _limit("--full-sets", "full_sets", "Unsolicited full sets per period."),
    click.option(
        "--allow-private/--no-allow-private",
        default=None,
        help="Allow private and loopback addresses, for sites on your own network.",
    ),
    click.option("--insecure/--no-insecure", default=None, help="Do not verify its TLS certificates."),
    click.option("--contact", callback=contact_callback, help="Contact mail address, for operators."),
)


def _provider_options(command: CommandT) -> CommandT:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given on the command line, ``none`` as None."""
    if values.get("interval_seconds") == _ROBOTS:
        values = values | {"interval_seconds": None, "interval_by": ""}
    elif values.get("interval_seconds") is not None:
        values = values | {"interval_by": BY_OPERATOR}  # robots.txt does not change it any more
    if values.get("hours") == _ROBOTS:
        values = values | {"hours": None, "timezone": None, "hours_by": ""}
    elif values.get("hours") is not None or values.get("timezone") is not None:
        values = values | {"hours_by": BY_OPERATOR}
    return {name: None if value == NONE else value for name, value in values.items() if value is not None}


@click.group("provider")
def provider_group() -> None:
    """Manage content providers."""


@provider_group.command("add")
@click.option(
    "--root",
    "roots",
    multiple=True,
    required=True,
    callback=roots_callback,
    help="Prefix of the URLs that it may submit, such as http://www.example.org/ (repeatable).",
)
@password_file_option
@click.option(
    "--watched",
    is_flag=True,
    help="Only watch these roots, each as a provider without a password, as [watched] says.",
)
@click.option(
    "--moved",
    is_flag=True,
    help="Also if a provider of these roots has moved to another sub-LCC; for when it has been removed there.",
)
@_provider_options
@json_option
@pass_admin
def add_command(
    admin: Admin,
    /,
    roots: tuple[str, ...],
    password_file: Any,
    watched: bool,
    moved: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Register a provider; print its id and password.

    A root that is watched already keeps its provider, with all that is known of it, and gets the password.

    With --watched nobody is registered: a site is watched, until its owner registers it. A root that is watched
    already keeps its provider; one of a registered provider belongs to that.
    """
    if watched:
        if password_file is not None:
            raise click.UsageError("a watched provider has no password: --watched and --password-file")
        _add_watched(admin, roots, moved, as_json, _given(values))
        return
    generated = password_file is None
    password = generate_password() if generated else read_password(password_file)
    hashed = hash_password(password, generated=generated)
    provider = Provider(pid=0, roots=roots, password_hash=hashed, **_given(values))

    def add(txn: Txn) -> int:
        if moved:
            watch_again(txn, roots)
        return register_provider(txn, provider)

    with admin.database() as database:
        try:
            pid = database.write(add)
        except ProviderExists as error:
            raise Failed(str(error), SEE_PROVIDERS) from None
        except SeveralWatched as error:
            text = "register one of them, then give it the others: lcc-admin provider set PID --add-root ROOT"
            raise Failed(str(error), text) from None
    if as_json:
        # One that was given is known; who prints it may have it logged.
        click.echo(json.dumps({"pid": pid, **({"password": password} if generated else {})}))
        return
    click.echo(f"pid: {pid}")
    click.echo(f"password: {password}" if generated else "password: as given")


def _add_watched(admin: Admin, roots: tuple[str, ...], moved: bool, as_json: bool, changes: dict[str, Any]) -> None:
    def add(txn: Txn) -> list[int]:
        if moved:
            watch_again(txn, roots)
        pids = []
        for root in roots:
            pid = find_or_make_watched(txn, root, admin.config.watched, OPERATOR)
            provider = existing(locked_provider(txn, pid), pid)
            if changes and provider.watched:
                change_provider(txn, attrs.evolve(provider, **changes))
            pids.append(pid)
        return pids

    with admin.database() as database:
        try:
            pids = database.write(add)
        except ProviderExists as error:
            raise Failed(str(error), SEE_PROVIDERS) from None
    for pid, root in zip(pids, roots, strict=True):
        click.echo(json.dumps({"pid": pid, "root": root}) if as_json else f"pid: {pid} ({root})")


def _as_row(provider: Provider) -> dict[str, Any]:
    row = attrs.asdict(provider, filter=attrs.filters.exclude("password_hash", "token_hash", "former_roots"))
    row["roots"] = list(provider.roots)
    # As the options and the seeds' tables name them; the units are in the manual.
    row["bandwidth"] = row.pop("bandwidth_bytes")
    row["space_max"] = row.pop("space_max_bytes")
    row["interval"] = row.pop("interval_seconds")
    return row


@provider_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List all providers."""
    listing = Listing(_COLUMNS, as_json)
    with admin.database() as database:
        for provider in database.interact(list_providers):
            listing.row(_as_row(provider))
    listing.end("no providers")


@provider_group.command("show")
@click.argument("pid", type=PID)
@json_option
@pass_admin
def show_command(admin: Admin, pid: int, as_json: bool) -> None:
    """Show settings and state of a provider; behind a front end, also where it is."""
    with database_of(admin, pid) as database:
        found, status, held, delays = database.interact(_standing, pid, admin.now())
    if found is None and (there := not_here(admin, pid)):
        raise Failed(there, "ask there, or with the front end's configuration")
    row = _as_row(existing(found, pid))
    place = provider_place(admin, pid)
    if place is not None:
        row["place"] = place
    row["files_used"] = status.files_used
    row["space_used"] = status.space_used_bytes
    row["full_sets_left"] = status.full_sets_left
    row["full_set_wanted"] = status.full_set_wanted
    row["deletions_held"] = None if held is None else held.deletions
    row["deletions_held_since"] = None if held is None else held.time
    row["errors"] = status.error_count
    row["queued"] = status.processing
    row["files_free"] = None if row["files_max"] is None else max(0, row["files_max"] - status.files_used)
    row["space_free"] = None if row["space_max"] is None else max(0, row["space_max"] - status.space_used_bytes)
    row["delays"] = [delay._asdict() for delay in delays]
    row["robots"] = list(_robots(admin, existing(found, pid)))
    if as_json:
        click.echo(json.dumps(row))
        return
    if place is not None:
        row["place"] = place_text(place)
    row["delays"] = "; ".join(delay_text(delay, admin.now()) for delay in delays) or None
    row["robots"] = "; ".join(row["robots"]) or None
    if held is not None:
        row["deletions_held"] = f"{held.deletions} of {held.told}: provider allow-deletions or drop-deletions"
        row["deletions_held_since"] = f"{cell(held.time, 'time')} UTC"
    for name, value in row.items():
        click.echo(clean(f"{name + ':':<21} {cell(value)}"))


def _robots(admin: Admin, provider: Provider) -> Iterator[str]:
    """What robots.txt of its site asks for."""
    site = site_of(provider.roots[0]) if provider.watched and provider.roots else ""
    known = (scheduler_knows(admin, read_robots, [site]) or {}) if site else {}
    return robots_words(provider, known.get(site), admin.config.slot_seconds)


def _standing(txn: Txn, pid: int, now: int) -> tuple[Provider | None, ProviderStatus, HeldSweep | None, list[Delay]]:
    status, held = provider_status(txn, pid, 0), held_sweep(txn, pid)
    return get_provider(txn, pid), status, held, delays_of(txn, pid, now)


@provider_group.command("set")
@click.argument("pid", type=PID)
@click.option("--root", "roots", multiple=True, callback=roots_callback, help="Replace all roots (repeatable).")
@click.option("--add-root", "added", multiple=True, callback=roots_callback, help="Add a root (repeatable).")
@click.option("--remove-root", "removed", multiple=True, help="Remove a root (repeatable).")
@click.option("--yes", is_flag=True, help="Delete cached content outside the remaining roots without asking.")
@password_file_option
@click.option("--new-password", is_flag=True, help="Generate a new password and print it once.")
@click.option("--new-token", is_flag=True, help="Generate a token for POST /sets and print it once.")
@click.option("--no-token", is_flag=True, help="The provider's token is valid no longer.")
@_provider_options
@pass_admin
def set_command(
    admin: Admin,
    /,
    pid: int,
    roots: tuple[str, ...],
    added: tuple[str, ...],
    removed: tuple[str, ...],
    yes: bool,
    password_file: Any,
    new_password: bool,
    new_token: bool,
    no_token: bool,
    **values: Any,
) -> None:
    """Change settings of a provider.  A limit of 'none' removes it.

    If roots are removed, queued URLs outside the remaining roots are dropped, each reported to the provider as an
    error. Cached content there is deleted if you confirm, now or later (delete-outside).

    A watched provider that gets a password is a registered one from then on.
    """
    changes = _given(values)
    password = token = ""
    if roots and (added or removed):
        raise click.UsageError("--root replaces all roots; do not combine it with --add-root or --remove-root")
    if roots:
        changes["roots"] = roots
    if password_file is not None and new_password:
        raise click.UsageError("--password-file and --new-password cannot both be given")
    if password_file is not None:
        changes |= {
            "password_hash": hash_password(read_password(password_file), generated=False),
            "watched": False,
        }
    elif new_password:
        password = generate_password()
        changes |= {"password_hash": hash_password(password, generated=True), "watched": False}
    if new_token and no_token:
        raise click.UsageError("--new-token and --no-token cannot both be given")
    if new_token or no_token:
        token = generate_token(pid) if new_token else ""
        changes["token_hash"] = hash_password(token, generated=True) if token else ""
    if not (changes or added or removed):
        raise click.UsageError("nothing to change: give at least one option")

    def changed(provider: Provider) -> Provider:
        own = changes
        if changes.get("interval_by") == "" and not provider.watched:
            raise Failed(
                f"provider {pid} is registered: no robots.txt is asked for its interval",
                f"lcc-admin provider set {pid} --interval SECONDS, or none",
            )
        if changes.get("hours_by") == "" and not provider.watched:
            raise Failed(
                f"provider {pid} is registered: no robots.txt is asked for its hours",
                f"lcc-admin provider set {pid} --hours HOURS, or ''",
            )
        if provider.watched and new_token and not password:
            raise Failed(
                f"provider {pid} is watched: it submits nothing",
                f"lcc-admin provider set {pid} --new-password --new-token registers it",
            )
        if provider.watched and (roots or added or removed):
            raise Failed(
                f"provider {pid} is watched: it has one root",
                "lcc-admin provider add --watched watches others; with a password it is a registered provider",
            )
        if added or removed:
            own = {**changes, "roots": _without(tuple(dict.fromkeys((*provider.roots, *added))), removed)}
        return attrs.evolve(provider, **own)

    def change(txn: Any) -> None:
        provider = changed(existing(locked_provider(txn, pid), pid))
        change_provider(txn, provider, delete_outside=delete_outside)

    with admin.database() as database:
        try:
            before = existing(database.interact(get_provider, pid), pid)
            narrowed = _is_narrowed(before.roots, changed(before).roots)
            delete_outside = narrowed and (yes or _asked_to_delete(pid))
            database.write(change)
        except NoSuchProvider as error:
            raise Failed(str(error), SEE_PROVIDERS) from None
    if narrowed:
        click.echo(f"queued URLs of provider {pid} outside its roots are dropped")
        stays = f"is kept; lcc-admin provider delete-outside {pid} deletes it"
        click.echo(f"its cached content outside its roots {'is being deleted' if delete_outside else stays}")
    if password:
        click.echo(f"password: {password}")
    if token:
        click.echo(f"token: {token}")


def _without(roots: tuple[str, ...], removed: tuple[str, ...]) -> tuple[str, ...]:
    """The roots that are left."""
    left = list(roots)
    for text in removed:
        try:
            root = text if text in roots else normalise_root(text)
        except UrlError as error:
            raise click.BadParameter(str(error), param_hint="--remove-root") from None
        if root not in left:
            raise Failed(f"{root} is not a root of this provider", "lcc-admin provider show lists its roots")
        left.remove(root)
    if not left:
        raise Failed("a provider needs at least one root", "lcc-admin provider remove removes the provider")
    return tuple(left)


def _is_narrowed(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    return not all(map(Roots(after).contains, before))


def _asked_to_delete(pid: int) -> bool:
    question = f"Also delete cached content of provider {pid} outside its new roots?"
    return _is_interactive() and click.confirm(question)


def _is_interactive() -> bool:
    return sys.stdin.isatty()


@provider_group.command("delete-outside")
@click.argument("pid", type=PID)
@pass_admin
def delete_outside_command(admin: Admin, pid: int) -> None:
    """Delete cached content outside a provider's roots.

    Each URL is reported to the provider as an error.
    """
    with admin.database() as database:
        existing(database.interact(get_provider, pid), pid)
        try:
            database.write(order_deletion_outside, pid)
        except NoSuchProvider as error:
            raise Failed(str(error), SEE_PROVIDERS) from None
        click.echo(f"cached content of provider {pid} outside its roots is being deleted")
        warn_if_not_running(admin, database)


@provider_group.command("want-full-set")
@click.argument("pid", type=PID)
@click.option("--reason", default="operator", help="Reason, shown to the provider.", metavar="TEXT")
@pass_admin
def want_full_set_command(admin: Admin, pid: int, reason: str) -> None:
    """Ask a provider for a full set."""
    reason = " ".join(reason.split())
    if not reason or not reason.isprintable() or len(reason) > TEXT_CHARS:
        raise click.BadParameter(f"must be printable text of 1 to {TEXT_CHARS} characters", param_hint="--reason")
    with admin.database() as database:
        if existing(database.interact(get_provider, pid), pid).removed:
            raise Failed(f"provider {pid} is being removed", "register it again: lcc-admin provider add")
        database.write(add_order, WANT_FULL_SET, pid, 0, reason)
        click.echo(f"provider {pid} is asked for a full set at its next connection")
        warn_if_not_running(admin, database)


@provider_group.command("allow-deletions")
@click.argument("pid", type=PID)
@pass_admin
def allow_deletions_command(admin: Admin, pid: int) -> None:
    """Carry out the held deletions of a provider.

    URLs that the provider has submitted again since then are kept.
    """
    _order_about_held(admin, pid, ALLOW_DELETIONS, "URLs not in {set} are being deleted ({deletions} pages)")


@provider_group.command("drop-deletions")
@click.argument("pid", type=PID)
@pass_admin
def drop_deletions_command(admin: Admin, pid: int) -> None:
    """Discard the held deletions of a provider.

    The content is kept until a later set deletes it, or it expires.
    """
    _order_about_held(admin, pid, DROP_DELETIONS, "URLs not in {set} are kept ({deletions} pages)")


def _order_about_held(admin: Admin, pid: int, kind: str, done: str) -> None:
    with admin.database() as database:
        existing(database.interact(get_provider, pid), pid)
        held = database.interact(held_sweep, pid)
        if held is None:
            raise Failed(f"no held deletions for provider {pid}", "lcc-admin provider show lists them")
        database.write(add_order, kind, pid, 0, str(held.psetid))
        who = f"the full set of {cell(held.time, 'time')} UTC"
        click.echo(f"provider {pid}: {done.format(set=who, deletions=held.deletions)}")
        warn_if_not_running(admin, database)


@provider_group.command("remove")
@click.argument("pid", type=PID)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_admin
def remove_command(admin: Admin, pid: int, yes: bool) -> None:
    """Remove a provider, its queue and its content."""
    with admin.database() as database:
        provider = existing(database.interact(get_provider, pid), pid)
        if not yes and _is_interactive():
            click.confirm(f"Remove provider {pid} and delete all its content?", abort=True)
        database.write(order_removal, pid)
    click.echo(f"provider {pid} is being removed")
    if provider.watched:
        click.echo("its feeds are suspended when they are due next; lcc-admin task resume watches the site again")
