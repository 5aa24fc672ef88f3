"""``lcc-admin user``: content users, who may read the cache over the network."""

from __future__ import annotations

import json

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import NUMBER, PID
from lcc.commands.errors import Failed
from lcc.roles.access import access_token
from lcc.storage.providers.content_users import (
    ContentUser,
    add_content_user,
    list_content_users,
    remove_content_user,
)
from lcc.storage.providers.passwords import generate_password, hash_password

NAME_CHARS = 200
_COLUMNS = (
    Column("cuid", 5, "number"),
    Column("name", 24),
    Column("content", 7),
    Column("created", 19, "time", title="created (UTC)"),
    Column("providers"),
)


@click.group("user")
def user_group() -> None:
    """Manage content users, who may read the cache."""


@user_group.command("add")
@click.argument("name")
@click.option("--provider", "providers", type=PID, multiple=True, help="Only content of this provider (repeatable).")
@click.option("--rows-only", is_flag=True, help="Rows without content.")
@json_option
@pass_admin
def add_command(admin: Admin, /, name: str, providers: tuple[int, ...], rows_only: bool, as_json: bool) -> None:
    """Register a content user; print its id and token."""
    if not name.strip() or not name.isprintable() or len(name) > NAME_CHARS:
        raise click.BadParameter(f"must be 1 to {NAME_CHARS} printable characters", param_hint="NAME")
    secret = generate_password()
    hashed = hash_password(secret, generated=True)
    pids = frozenset(providers) if providers else None
    user = ContentUser(0, name, hashed, pids, not rows_only, admin.now())
    with admin.accounts() as database:
        cuid = database.write(add_content_user, user)
    token = access_token(cuid, secret)
    click.echo(json.dumps({"cuid": cuid, "token": token}) if as_json else f"cuid: {cuid}\ntoken: {token}")


@user_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List content users (tokens are not stored)."""
    listing = Listing(_COLUMNS, as_json)
    with admin.accounts() as database:
        users = database.interact(list_content_users)
    for user in users:
        pids = None if user.providers is None else sorted(user.providers)
        listing.row(
            {
                "cuid": user.cuid,
                "name": user.name,
                "content": user.content if as_json else "yes" if user.content else "no",
                "created": user.created,
                "providers": pids if as_json else "all" if pids is None else " ".join(map(str, pids)),
            }
        )
    listing.end("there are no content users")


@user_group.command("remove")
@click.argument("cuid", type=NUMBER)
@pass_admin
def remove_command(admin: Admin, cuid: int) -> None:
    """Remove a content user; its token becomes invalid."""
    with admin.accounts() as database:
        if not database.write(remove_content_user, cuid):
            raise Failed(f"there is no content user {cuid}", "lcc-admin user list shows who there is")
