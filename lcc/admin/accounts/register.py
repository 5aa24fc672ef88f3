"""``lcc-admin register``: registrations, both steps of them, and the operator's word on those that wait for it."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import attrs
import click
import pymysql
from twisted.internet.threads import deferToThreadPool

from lcc.admin.context import RETRIES, SEE_DATABASE, Admin, DatabaseFailed, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import NUMBER, PID
from lcc.commands.boottime import react
from lcc.commands.errors import Failed
from lcc.config import Config, DatabaseConfig
from lcc.errors import RegistrationRefused, StoreUnavailable
from lcc.fetchers.registry import build_fetchers
from lcc.interfaces import IRegistrationStore
from lcc.model import Progress, Proves, Registration
from lcc.roles.fe_rs.store import FrontRegistrationStore
from lcc.roles.rs.assembly import Assembly, Means
from lcc.roles.rs.challenge import Challenge
from lcc.roles.rs.mails import done_mail, utc
from lcc.roles.rs.prover import NotProven
from lcc.roles.rs.registrar import Registrar
from lcc.roles.rs.web.api import challenge_object, registration_object
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.database import Database
from lcc.storage.database.migrations import SchemaError
from lcc.storage.database.place import front_end_place
from lcc.storage.providers.registrations import RegistrationStore, list_registrations, remove_registration

_COLUMNS = (
    Column("number", 6, "number"),
    Column("kind", 8),
    Column("state", 6),
    Column("pid", 5, "number"),
    Column("expires", 19, "time", title="expires (UTC)"),
    Column("contact", 24),
    Column("roots"),
)


@click.group("register")
def register_group() -> None:
    """Manage registrations of sites."""


@register_group.command("ask")
@click.option("--site", required=True, help="URL of the site: the topmost folder its owner can put a file into.")
@click.option("--contact", help="Contact mail address.")
@click.option("--bandwidth", help="Requested bandwidth, in bytes per second.")
@click.option("--hours", help="Requested hours in which it may be fetched from, such as 0-8,22-23.")
@click.option("--timezone", help="Time zone of these hours.  Default: that of the LCC.")
@click.option("--priority", help="Requested priority, 0 to [rs] priority_max.")
@click.option("--root-of", type=PID, help="Add the site as a root of this provider.")
@click.option("--password-of", type=PID, help="Give this provider, which has the site as a root, a new password.")
@click.option("--mail", is_flag=True, help="Also mail secret and password to the contact.")
@json_option
@pass_admin
def ask_command(
    admin: Admin, /, root_of: int | None, password_of: int | None, mail: bool, as_json: bool, **values: str | None
) -> None:
    """Step one: print secret, file name and password."""
    fields = {name: value for name, value in values.items() if value is not None}
    if root_of is not None and password_of is not None:
        raise click.UsageError("--root-of and --password-of cannot both be given")
    if root_of is not None or password_of is not None:
        unused = [name for name in fields if name != "site"]
        if unused:
            raise click.UsageError(f"--{unused[0]} is for new providers")
    if mail:
        if not admin.config.mail.host or root_of is not None or password_of is not None:
            raise click.UsageError("--mail needs a mail server ([mail] host), and a new provider")
        fields["mail"] = "yes"

    async def ask(registrar: Registrar) -> Challenge:
        if root_of is not None:
            return await registrar.root_for(root_of, fields)
        if password_of is not None:
            return await registrar.ask_password({**fields, "pid": str(password_of)})
        return await registrar.ask_provider(fields)

    challenge = _registering(admin, ask)
    if as_json:
        click.echo(json.dumps(challenge_object(challenge)))
        return
    registration = challenge.registration
    click.echo(f"registration: {registration.number}")
    click.echo(f"file: {registration.file}")
    click.echo(f"secret: {challenge.secret}")
    for url in challenge.urls:
        click.echo(f"url: {url}")
    if challenge.password:
        click.echo(f"password: {challenge.password}")
    click.echo(f"expires: {utc(registration.expires)}")
    click.echo(f"then: lcc-admin register check {registration.number}")


@register_group.command("check")
@click.argument("number", type=NUMBER)
@json_option
@pass_admin
def check_registration_command(admin: Admin, number: int, as_json: bool) -> None:
    """Step two: fetch the secret from the site."""
    _tell(_registering(admin, lambda registrar: registrar.check_number(number), number), as_json)


@register_group.command("approve")
@click.argument("number", type=NUMBER)
@json_option
@pass_admin
def approve_command(admin: Admin, number: int, as_json: bool) -> None:
    """Approve a proven registration."""

    async def approve(registrar: Registrar) -> Registration:
        done: Registration = await registrar.store.approve(number, admin.now())
        if done.contact:
            registrar.send(done_mail(done, done.contact))
        return done

    _tell(_registering(admin, approve, number), as_json)


@register_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List current and recently completed registrations."""
    listing = Listing(_COLUMNS, as_json)
    with admin.accounts() as database:
        registrations = database.interact(list_registrations, admin.now())
    for each in registrations:
        wishes = attrs.asdict(each.wishes)
        wishes["bandwidth"] = wishes.pop("bandwidth_bytes")
        listing.row({**registration_object(each), "contact": each.contact, "created": each.created, **wishes})
    listing.end("no registrations in progress")


@register_group.command("remove")
@click.argument("number", type=NUMBER)
@pass_admin
def remove_command(admin: Admin, number: int) -> None:
    """Remove a registration; a provider created by it stays."""
    with admin.accounts() as database:
        if not database.write(remove_registration, number):
            raise Failed(f"no such registration: {number}", "lcc-admin register list shows them all")


_NEXT = {
    "faults": "correct these values, and ask again",
    "not-provable": "lcc-admin provider set PID --new-password gives a password without a proof",
    "unknown": "lcc-admin register list and lcc-admin provider list show what there is",
    "not-proven": "put the file there, then: lcc-admin register check {number}",
    "changed": "lcc-admin register remove {number}, and ask again",
    "gone": "lcc-admin register remove {number}",
    "full": "raise the limit in [rs], or remove registrations that nobody needs (lcc-admin register list)",
    "busy": "try again later",
    "throttled": "try again later",
}
"""What the operator can do about each kind of :class:`RegistrationRefused`, of registration ``{number}``."""


def _all_of(refused: RegistrationRefused) -> str:
    return "\n".join([refused.text, *(f"{name}: {fault}" for name, fault in refused.faults.items())])


def _tell(registration: Registration, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(registration_object(registration)))
    elif registration.state is Progress.PROVEN:
        click.echo(f"secret found; now waiting for lcc-admin register approve {registration.number}")
    else:
        what = {
            Proves.PROVIDER: "registered as",
            Proves.ROOT: "a further root of",
            Proves.PASSWORD: "the new password is good for",
        }
        click.echo(f"{what[registration.kind]} provider {registration.pid}")


def _store(
    config: Config, settings: DatabaseConfig, reactor: Any
) -> tuple[Database, IRegistrationStore, SubDatabases | None]:
    """The database of registrations, their store, and the databases of sub-LCCs, if this is a front end."""
    if not config.is_front_end:
        database = Database(settings.url, config.home, reactor, settings, random=Random())
        return database, RegistrationStore(database, config.rs), None
    place = front_end_place(config)
    database = Database(place.url, place.home, reactor, settings, random=Random(), series=place.series)
    databases = SubDatabases(lambda url: Database(url, config.home, reactor, settings, random=Random(), lean=True))
    return (
        database,
        FrontRegistrationStore(database, databases, config.rs, config.fe.stale, lambda: int(time.time())),
        databases,
    )


def _registering(admin: Admin, do: Callable[[Registrar], Awaitable[Any]], number: int = 0) -> Any:
    """What ``do(registrar)`` gives.

    :param number: of the registration that it is about; 0: there is none yet.

    :raises Failed: it cannot be.
    """
    with admin.accounts():
        pass  # it is there, and can be used: said in plain words if not
    config, results = admin.config, []
    settings = attrs.evolve(config.database, retries=min(config.database.retries, RETRIES))

    async def run(reactor: Any) -> None:
        database, store, databases = _store(config, settings, reactor)
        means = Means(
            reactor,
            time.time,
            lambda: secrets.token_hex(8),
            lambda path: config.under_home(path).read_text(encoding="utf-8"),
            lambda function, *args: deferToThreadPool(reactor, reactor.getThreadPool(), function, *args),
            build_fetchers,
        )
        database.start()
        assembly = Assembly(config, store, means)
        try:
            results.append(await do(assembly.registrar))
        except NotProven as error:
            what = f"{error.url}: {error.detail.code} {error.detail.text}"
            results.append(
                Failed(
                    f"secret not found: {what}",
                    f"put the file there exactly as shown, then: lcc-admin register check {number}",
                )
            )
        except RegistrationRefused as refused:
            results.append(Failed(_all_of(refused), _NEXT[refused.kind].format(number=number or "NUMBER")))
        except (StoreUnavailable, SchemaError, sqlite3.Error, pymysql.MySQLError) as error:
            results.append(DatabaseFailed(f"cannot reach the database: {error}", SEE_DATABASE))
        await assembly.close()
        if databases is not None:
            await databases.stopService()
        await database.stop()

    try:
        react(run)
    except SystemExit as ended:
        if ended.code:
            raise
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result
