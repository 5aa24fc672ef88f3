"""``lcc-admin resource``: what only one job at a time uses."""

from __future__ import annotations

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.tasks.orders import answer, order, say_order, tasks_database
from lcc.admin.tasks.values import RESOURCE
from lcc.commands.errors import Failed
from lcc.insight.task_inputs import INTERVAL_MAX
from lcc.model.shellwords import shell_command
from lcc.model.tasks import Resource
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.orders import RESOURCE_REMOVE, RESOURCE_SET
from lcc.storage.tasks.views import resources

SEE_RESOURCES = "lcc-admin resource list shows them"
_COLUMNS = (
    Column("name", 24),
    Column("interval_seconds", 8, "number", title="interval"),
    Column("started_time", 19, "time", title="last used (UTC)"),
)
_interval = click.option(
    "--interval",
    "interval_seconds",
    type=click.IntRange(0, INTERVAL_MAX),
    required=True,
    metavar="SECONDS",
    help="From the start of one job to the start of the next.",
)


@click.group("resource")
def resource_group() -> None:
    """Manage resources of jobs: each is used by one job at a time, and may have an interval."""


def _find(database: BlockingDatabase, name: str) -> Resource | None:
    return next((each for each in database.interact(resources) if each.name == name), None)


@resource_group.command("add")
@click.argument("name", type=RESOURCE)
@_interval
@json_option
@pass_admin
def add_command(admin: Admin, /, name: str, interval_seconds: int, as_json: bool) -> None:
    """Add a resource with an interval.  Without one, a name in --resource is enough."""
    with tasks_database(admin) as database:
        if _find(database, name) is not None:
            raise Failed(f"there is a resource {name!r} already", shell_command("lcc-admin", "resource", "set", name))
        _set(admin, database, name, interval_seconds, as_json)


@resource_group.command("set")
@click.argument("name", type=RESOURCE)
@_interval
@json_option
@pass_admin
def set_command(admin: Admin, /, name: str, interval_seconds: int, as_json: bool) -> None:
    """Change the interval of a resource."""
    with tasks_database(admin) as database:
        if _find(database, name) is None:
            raise Failed(f"there is no resource {name!r}", SEE_RESOURCES)
        _set(admin, database, name, interval_seconds, as_json)


def _set(admin: Admin, database: BlockingDatabase, name: str, interval_seconds: int, as_json: bool) -> None:
    body = {"name": name, "interval_seconds": interval_seconds}
    done = answer(database, order(database, RESOURCE_SET, 0, body, admin.now())) is not None
    say_order(as_json, {"name": name}, f"resource {name}: {interval_seconds} s", done)


@resource_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, /, as_json: bool) -> None:
    """List resources that have an interval."""
    listing = Listing(_COLUMNS, as_json)
    with tasks_database(admin) as database:
        found = database.interact(resources)
    for each in found:
        listing.row(
            {
                "name": each.name,
                "interval_seconds": each.interval_seconds,
                "started_time": each.started_time or None,
            }
        )
    listing.end("no resource has an interval")


@resource_group.command("remove")
@click.argument("name", type=RESOURCE)
@json_option
@pass_admin
def remove_command(admin: Admin, /, name: str, as_json: bool) -> None:
    """Remove the interval of a resource; its jobs still run one at a time."""
    with tasks_database(admin) as database:
        if _find(database, name) is None:
            raise Failed(f"there is no resource {name!r}", SEE_RESOURCES)
        done = answer(database, order(database, RESOURCE_REMOVE, 0, {"name": name}, admin.now())) is not None
    say_order(as_json, {"name": name}, f"resource {name} is removed", done)
