"""Orders of ``lcc-admin`` for the scheduler, and its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from lcc.admin.context import Admin
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from lcc.storage.tasks.orders import ORDERS

T = TypeVar("T")

SCHEDULER_AWAY = (
    "the scheduler has not answered yet: it does this as soon as it runs\n"
    "Next: lcc-admin status shows whether it runs; systemctl start lcc-role@scheduler starts it"
)
_WAIT_SECONDS = 2.0
_STEP_SECONDS = 0.1


@contextmanager
def tasks_database(admin: Admin, *, patient: bool = True) -> Iterator[BlockingDatabase]:
    """The tables of tasks.

    :raises Failed: they cannot be reached or used.
    """
    with admin.database_at(place_of(admin.config, TASKS), patient=patient) as database:
        yield database


def offered(ctx: click.Context, read: Callable[[BlockingDatabase], list[T]]) -> list[T]:
    """What a shell that completes a word is offered; nothing, if the tables of tasks cannot be read."""
    admin = Admin(ctx.find_root().params.get("config_path"))
    try:
        with tasks_database(admin, patient=False) as database:
            return read(database)
    except Failed:
        return []


def order(database: BlockingDatabase, kind: str, target: int, body: Mapping[str, Any], now: int) -> int:
    """Give an order; returns its number."""
    return database.write(ORDERS.give, kind, target, body, now)


def answer(
    database: BlockingDatabase, number: int, wait: Callable[[float], None] = time.sleep
) -> dict[str, Any] | None:
    """What the scheduler has made of an order; None: it does not run, or is slow.

    :raises Failed: it could not be carried out.
    """
    for _ in range(round(_WAIT_SECONDS / _STEP_SECONDS)):
        found = database.interact(ORDERS.answer, number)
        if found is not None:
            if "error" in found:
                raise Failed(str(found["error"]), "correct it, then try again")
            return found
        wait(_STEP_SECONDS)
    return None


def say_order(as_json: bool, record: Mapping[str, Any], text: str, done: bool) -> None:
    """Say what was ordered, and whether it is done."""
    if as_json:
        click.echo(json.dumps({**record, "done": done}))
        return
    click.echo(clean(text if done else f"ordered: {text}"))
    if not done:
        click.echo(SCHEDULER_AWAY, err=True)
