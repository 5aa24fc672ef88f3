"""Tables that a role owns: ``lcc-admin`` reads them, and gives the role orders there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import click

from lcc.admin.context import Admin
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.place import place_of
from lcc.storage.database.tables.answered_orders import AnsweredOrders

T = TypeVar("T")

_WAIT_SECONDS = 2.0
_STEP_SECONDS = 0.1


@attrs.frozen
class RoleTables:
    """
    :ivar series: of the tables.
    :ivar orders: to the role.
    :ivar away: what to say if the role does not answer.
    """

    series: str
    orders: AnsweredOrders
    away: str

    @contextmanager
    def database(self, admin: Admin, *, patient: bool = True) -> Iterator[BlockingDatabase]:
        """The tables.

        :param patient: False: do not retry.
        :raises Failed: they cannot be reached or used.
        """
        with admin.database_at(place_of(admin.config, self.series), patient=patient) as database:
            yield database

    def offered(self, ctx: click.Context, read: Callable[[BlockingDatabase], list[T]]) -> list[T]:
        """What a shell that completes a word is offered; nothing, if the tables cannot be read."""
        admin = Admin(ctx.find_root().params.get("config_path"))
        try:
            with self.database(admin, patient=False) as database:
                return read(database)
        except Failed:
            return []

    def order(
        self, database: BlockingDatabase, kind: str, target: int | str, body: Mapping[str, Any], now: int
    ) -> int:
        """Give an order; returns its number."""
        return database.write(self.orders.give, kind, target, body, now)

    def answer(
        self, database: BlockingDatabase, number: int, wait: Callable[[float], None] = time.sleep
    ) -> dict[str, Any] | None:
        """What the role has made of an order; None: it does not run, or is slow.

        :raises Failed: it could not be carried out.
        """
        for _ in range(round(_WAIT_SECONDS / _STEP_SECONDS)):
            found = database.interact(self.orders.answer, number)
            if found is not None:
                if "error" in found:
                    raise Failed(str(found["error"]), "correct it, then try again")
                return found
            wait(_STEP_SECONDS)
        return None

    def say(self, as_json: bool, record: Mapping[str, Any], text: str, done: bool) -> None:
        """Say what was ordered, and whether it is done."""
        if as_json:
            click.echo(json.dumps({**record, "done": done}))
            return
        click.echo(clean(text if done else f"ordered: {text}"))
        if not done:
            click.echo(self.away, err=True)
