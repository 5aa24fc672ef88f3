"""``lcc-admin push``: sites that push what has changed, and their keys; hubs that push what is new in feeds; who is
pushed by the hub of content users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.domain.registration.sites import host_of
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.hub_words import hub_record, subscriber_record
from lcc.insight.push_words import key_record
from lcc.model.push.pushes import KeyState
from lcc.model.push.websub import HubState
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import HUB, PUSH
from lcc.storage.database.place import place_of
from lcc.storage.hub.subscribers import list_subscribers
from lcc.storage.push.keys import REFUSED_SECONDS, decide_key, list_keys
from lcc.storage.push.subscriptions import list_subscriptions

_COLUMNS = (
    Column("folder", 40),
    Column("state", 8),
    Column("pid", 5, "number"),
    Column("named", 19, "time", title="named (UTC)"),
    Column("proven", 19, "time", title="proven (UTC)"),
    Column("reason"),
)
_HUBS = (
    Column("task", 6, "number", title="feed"),
    Column("state", 8),
    Column("pushed_time", 19, "time", title="pushed (UTC)"),
    Column("expires_time", 19, "time", title="expires (UTC)"),
    Column("hub", 40),
    Column("reason"),
)
_SUBSCRIBERS = (
    Column("site", 30),
    Column("user", 5, "number"),
    Column("state", 8),
    Column("delivered_time", 19, "time", title="delivered (UTC)"),
    Column("expires_time", 19, "time", title="expires (UTC)"),
    Column("topic", 40),
    Column("reason"),
)
HUBS_SHOWN = 1000


@contextmanager
def _tables(admin: Admin) -> Iterator[BlockingDatabase]:
    with admin.database_at(place_of(admin.config, PUSH)) as database:
        yield database


def _host(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    try:
        return host_of(normalise(text if "://" in text else f"https://{text}/"))
    except UrlError as error:
        raise click.BadParameter(error.text) from None


@click.group("push")
def push_group() -> None:
    """Sites that push what has changed by IndexNow, and hubs (doc/push.md)."""


@push_group.command("list")
@click.option("--state", type=click.Choice([state.value for state in KeyState]), help="Only keys in this state.")
@json_option
@pass_admin
def list_command(admin: Admin, state: str | None, as_json: bool) -> None:
    """List the keys that sites have named, the newest first."""
    listing = Listing(_COLUMNS, as_json)
    with _tables(admin) as database:
        keys = database.interact(list_keys, None if state is None else KeyState(state))
    for key in keys:
        listing.row(key_record(key))
    listing.end("no site has pushed anything" if state is None else f"no keys are {state}")


@push_group.command("hubs")
@click.option("--state", type=click.Choice([state.value for state in HubState]), help="Only those in this state.")
@json_option
@pass_admin
def hubs_command(admin: Admin, state: str | None, as_json: bool) -> None:
    """List the subscriptions of feeds at hubs (WebSub), the newest first."""
    listing = Listing(_HUBS, as_json)
    with _tables(admin) as database:
        found = database.interact(list_subscriptions, None if state is None else HubState(state), HUBS_SHOWN)
    for each in found:
        record = hub_record(each)
        listing.row(record if as_json else {column.name: record[column.name] for column in _HUBS})
    listing.end("no feed is subscribed to at a hub" if state is None else f"no subscriptions are {state}")


@push_group.command("subscribers")
@click.option("--failing", is_flag=True, help="Only those whose deliveries fail, the longest first.")
@json_option
@pass_admin
def subscribers_command(admin: Admin, failing: bool, as_json: bool) -> None:
    """List the subscribers of the hub of content users, the newest first."""
    listing = Listing(_SUBSCRIBERS, as_json)
    at_home = admin.front_end() if admin.config.is_front_end else admin.database_at(place_of(admin.config, HUB))
    with at_home as database:
        found = database.interact(list_subscribers, HUBS_SHOWN, failing)
    for each in found:
        record = subscriber_record(each)
        listing.row(record if as_json else {column.name: record[column.name] for column in _SUBSCRIBERS})
    listing.end("all deliveries succeed" if failing else "nobody has subscribed at the hub")


@push_group.command("approve")
@click.argument("host", callback=_host)
@json_option
@pass_admin
def approve_command(admin: Admin, host: str, as_json: bool) -> None:
    """Let a site that waits for approval become a watched provider."""
    _decide(admin, host, True, as_json)


@push_group.command("refuse")
@click.argument("host", callback=_host)
@json_option
@pass_admin
def refuse_command(admin: Admin, host: str, as_json: bool) -> None:
    """Accept no more pushes with the keys of a site, and drop what waits for their proof."""
    _decide(admin, host, False, as_json)


def _decide(admin: Admin, host: str, approve: bool, as_json: bool) -> None:
    with _tables(admin) as database:
        count = database.write(decide_key, host, approve, admin.now() + REFUSED_SECONDS)
    word = "approved" if approve else "refused"
    if as_json:
        click.echo(json.dumps({"host": host, word: count}))
    elif count:
        click.echo(f"{host}: {count} {'key' if count == 1 else 'keys'} {word}")
    else:
        click.echo(f"{host}: no key {'waits for approval' if approve else 'is known'}")
