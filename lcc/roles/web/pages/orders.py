"""What is ordered of the scheduler from a page: it alone writes tasks and jobs, as with the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs
from twisted.logger import Logger

from lcc.insight.task_inputs import EVERY_MAX, InputError, checked_when
from lcc.model.tasks import Task, When
from lcc.numbers import parse_number
from lcc.roles.web.pages.base import MonitorPage
from lcc.roles.web.pages.providers import number
from lcc.storage.database.tables.answered_orders import AnsweredOrders
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.orders import (
    JOB_KILL,
    JOB_RERUN,
    ORDERS,
    TASK_POLL,
    TASK_REMOVE,
    TASK_RESUME,
    TASK_SET,
    TASK_SUSPEND,
    order_task,
)
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

_log = Logger()

TASK_ORDERS = {
    "suspend": TASK_SUSPEND,
    "resume": TASK_RESUME,
    "remove": TASK_REMOVE,
    "set": TASK_SET,
    "poll": TASK_POLL,
}
JOB_ORDERS = {"rerun": JOB_RERUN, "kill": JOB_KILL}
"""What a form says in its field ``do``, and the order that it is."""


@attrs.frozen
class Told:
    """What a page tells of the order that it was asked for.

    :ivar answer: None: it is not carried out yet.
    """

    number: int
    answer: Mapping[str, Any] | None


def told(txn: Txn, order: int, orders: AnsweredOrders = ORDERS) -> Told | None:
    """What became of an order; None: none is asked for (0).

    :param orders: whose it is; those of the scheduler.
    """
    return Told(order, orders.answer(txn, order)) if order else None


class OrderingPage(MonitorPage):
    """A page of tasks; those with :meth:`post` order something of the scheduler."""

    def asked_order(self, request: BodyRequest) -> int:
        """The order that the page is to tell of; 0: none."""
        return number(read_query(request).get("order", "0"))

    async def asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Ask the tables of tasks."""
        return await self.monitor.tasks.interact(function, *arguments)

    def number_below(self, request: BodyRequest) -> int:
        """The number that the path ends with."""
        return number((request.postpath or [b""])[0].decode("latin-1"))

    async def order(self, request: BodyRequest, what: str, kind: str, target: Any, body: Mapping[str, Any]) -> int:
        """Give an order; returns its number.

        :param what: for the log.
        """
        given: int = await self.monitor.tasks.write(ORDERS.give, kind, target, body, int(self.monitor.now()))
        self.ordered(request, what, target)
        return given

    async def order_task(self, request: BodyRequest, task: Task) -> tuple[int, int]:
        """Order a new task; returns its id, and the order's number."""
        new, given = await self.monitor.tasks.write(order_task, task, int(self.monitor.now()))
        self.ordered(request, "add task", new)
        return new, given

    def same_page(self, request: BodyRequest, order: int) -> None:
        """Redirect to the page that the form is on, which tells of the order."""
        path = urlsplit(request.uri.decode("latin-1")).path
        self.front.redirect(request, f"{path}?order={order}")


def bad_input(error: InputError) -> HttpError:
    """What was given cannot be: in words, with what to do."""
    return HttpError(400, f"Not done: {error}. Go back and {error.remedy}.")


def when_of(fields: Mapping[str, str], timezone: str, now: float) -> When:
    """When a form says that something is due.

    :param timezone: of times of the day, where the form names none.
    :raises HttpError: never, or that makes no sense.
    """
    every, at, cron = (fields.get(name, "").strip() for name in ("every", "at", "cron"))
    zone = fields.get("timezone", "").strip() or timezone
    try:
        seconds = seconds_of(every)
        return checked_when(When(seconds or 0, at, cron, zone if at or cron else ""), now)
    except InputError as error:
        raise bad_input(error) from None


def seconds_of(text: str, least: int = 1) -> int | None:
    """A period of a form; None: the field is empty.

    :raises InputError: it is none.
    """
    if not text:
        return None
    try:
        found = parse_number(text, EVERY_MAX)
    except ValueError:
        found = 0
    if found < least:
        remedy = f"give {least:,} to {EVERY_MAX:,} seconds"
        raise InputError(f"{text[:40]!r} is no period in seconds", remedy)
    return found
