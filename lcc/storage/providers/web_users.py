"""Users of the web monitor: ``webusers``, written by lcc-admin only."""

from __future__ import annotations

import attrs

from lcc.storage.database.transactions import Txn

NAME_CHARS = 100
USERS_MAX = 10_000
"""Limit of a listing."""

_SELECT = "SELECT name, password, operates, created FROM webusers"


@attrs.frozen
class WebUser:
    """A user of the web monitor.

    :ivar name: of the login.
    :ivar password_hash: :mod:`lcc.storage.providers.passwords`.
    :ivar operates: may give orders; False: read-only.
    :ivar created: seconds since 1970.
    """

    name: str
    password_hash: str
    operates: bool = False
    created: int = 0


def get_web_user(txn: Txn, name: str) -> WebUser | None:
    """The user with this name; None: unknown."""
    row = txn.one(f"{_SELECT} WHERE name = ?", [name])
    return None if row is None else _user(row)


def list_web_users(txn: Txn) -> list[WebUser]:
    """All of them, by name."""
    return [_user(row) for row in txn.query(f"{_SELECT} ORDER BY name LIMIT ?", [USERS_MAX])]


def set_web_user(txn: Txn, user: WebUser) -> None:
    """Store a user, replacing one with the same name."""
    values = (user.name, user.password_hash, int(user.operates), user.created)
    txn.upsert("webusers", ["name", "password", "operates", "created"], [values], ["name"])


def remove_web_user(txn: Txn, name: str) -> bool:
    """Delete one; False: unknown name."""
    there = txn.one("SELECT 1 FROM webusers WHERE name = ?", [name]) is not None
    txn.execute("DELETE FROM webusers WHERE name = ?", [name])
    return there


def _user(row: tuple[object, ...]) -> WebUser:
    name, password, operates, created = row
    return WebUser(str(name), str(password), bool(operates), int(str(created)))
