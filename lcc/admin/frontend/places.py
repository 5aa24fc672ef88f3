"""What commands of an LCC say of the front end: where a provider is, and what moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lcc.admin.context import Admin, DatabaseFailed
from lcc.admin.frontend.sublccs import SEE_LIST
from lcc.commands.errors import Failed
from lcc.insight.places import front_lines, front_record, place_of_provider, place_record, place_text
from lcc.model.frontend.places import SubLcc, SubState
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.fe.sublccs import list_sublccs
from lcc.storage.views.inspect import owners


@contextmanager
def database_of(admin: Admin, pid: int) -> Iterator[BlockingDatabase]:
    """The database that has a provider: of this LCC; at a front end, of the provider's sub-LCC.

    :raises Failed: no sub-LCC has ids like this, or a database cannot be reached.
    """
    if not admin.config.is_front_end:
        with admin.database() as database:
            yield database
        return
    with admin.front_end() as front:
        found = front.interact(place_of_provider, pid)
    if found is None:
        raise Failed(f"no sub-LCC has provider ids like {pid}", SEE_LIST)
    with admin.sublcc(found[0]) as database:
        yield database


def provider_place(admin: Admin, pid: int) -> dict[str, Any] | None:
    """Where the front end has a provider; None: there is no front end, or it has no such ids.

    If its database cannot be reached, ``error`` says so.
    """
    if not admin.config.fe.database:
        return None
    try:
        with admin.front_end(patient=False) as front:
            return front.interact(place_record, pid)
    except DatabaseFailed as error:
        return {"error": str(error)}


def not_here(admin: Admin, pid: int) -> str:
    """Where a provider is that is not in this LCC; empty: nobody knows."""
    place = provider_place(admin, pid)
    if place is None or "error" in place or place["sublcc"] == admin.config.fe.name:
        return ""
    return f"provider {pid} is not in this LCC: {place_text(place)}"


def elsewhere(admin: Admin, url: str) -> list[dict[str, Any]]:
    """Providers of other sub-LCCs with a root for a URL: ``sublcc``, ``pid``, ``root``; or ``sublcc``, ``error``."""
    if not admin.config.fe.database:
        return []
    try:
        subs = sublccs(admin)
    except DatabaseFailed as error:
        return [{"sublcc": None, "error": str(error)}]
    found: list[dict[str, Any]] = []
    for sub in subs:
        if sub.name == admin.config.fe.name:
            continue
        try:
            with admin.sublcc(sub) as database:
                found += [
                    {"sublcc": sub.name, "pid": owner.pid, "root": owner.root}
                    for owner in database.interact(owners, url)
                ]
        except DatabaseFailed as error:
            found.append({"sublcc": sub.name, "error": str(error)})
    return found


def sublccs(admin: Admin) -> list[SubLcc]:
    """Sub-LCCs that are not removed."""
    with admin.front_end(patient=False) as front:
        return [sub for sub in front.interact(list_sublccs) if sub.state is not SubState.REMOVED]


def front_standing(admin: Admin, now: int) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    """The front end for ``status``: for JSON (None: there is none), and lines."""
    config = admin.config.fe
    if not config.database:
        return None, []
    try:
        with admin.front_end(patient=False) as front:
            record = front.interact(front_record, now, config.stale)
    except DatabaseFailed as error:
        return {"error": str(error)}, [("front end", f"unknown: {error}")]
    return record, list(front_lines(record, now, config.name))
