"""``lcc-admin web-user``: who may log in at the web monitor."""

from __future__ import annotations

import json
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import password_file_option, read_password
from lcc.commands.errors import Failed
from lcc.storage.providers.passwords import generate_password, hash_password
from lcc.storage.providers.web_users import NAME_CHARS, WebUser, list_web_users, remove_web_user, set_web_user

_COLUMNS = (
    Column("name", 24),
    Column("operates", 8),
    Column("created", 19, "time", title="created (UTC)"),
)


@click.group("web-user")
def web_user_group() -> None:
    """Manage users of the web monitor."""


@web_user_group.command("add")
@click.argument("name")
@click.option("--operate", is_flag=True, help="May operate, such as retry.  Default: read-only.")
@password_file_option
@json_option
@pass_admin
def add_command(admin: Admin, name: str, operate: bool, password_file: Any, as_json: bool) -> None:
    """Add a user of the web monitor; print its password.

    If NAME exists, its password and role are replaced, and its logins end.
    """
    if not name.strip() or not name.isprintable() or len(name) > NAME_CHARS:
        raise click.BadParameter(f"must be 1 to {NAME_CHARS} printable characters", param_hint="NAME")
    generated = password_file is None
    password = generate_password() if generated else read_password(password_file)
    user = WebUser(name, hash_password(password, generated=generated), operate, admin.now())
    with admin.database() as database:
        database.write(set_web_user, user)
    shown = password if generated else None
    if as_json:
        click.echo(json.dumps({"name": name, "operates": operate, "password": shown}))
    else:
        click.echo(f"name: {name}\npassword: {'as given' if shown is None else shown}")


@web_user_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List users of the web monitor (passwords are not stored)."""
    listing = Listing(_COLUMNS, as_json)
    with admin.database() as database:
        users = database.interact(list_web_users)
    for user in users:
        listing.row({"name": user.name, "operates": user.operates, "created": user.created})
    listing.end("nobody may log in at the web monitor")


@web_user_group.command("remove")
@click.argument("name")
@pass_admin
def remove_command(admin: Admin, name: str) -> None:
    """Remove a user of the web monitor, and end its logins."""
    with admin.database() as database:
        if not database.write(remove_web_user, name):
            raise Failed(f"there is no web user {name}", "lcc-admin web-user list shows who there is")
