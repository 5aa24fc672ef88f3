"""Orders of ``lcc-admin`` for the scheduler, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lcc.admin.context import Admin
from lcc.admin.role_tables import RoleTables
from lcc.commands.errors import Failed
from lcc.storage.database.migrations import TASKS
from lcc.storage.tasks.orders import ORDERS

SCHEDULER_AWAY = (
    "the scheduler has not answered yet: it does this as soon as it runs\n"
    "Next: lcc-admin status shows whether it runs; systemctl start lcc-role@scheduler starts it"
)
_TABLES = RoleTables(TASKS, ORDERS, SCHEDULER_AWAY)
tasks_database = _TABLES.database
offered = _TABLES.offered
order = _TABLES.order
answer = _TABLES.answer
say_order = _TABLES.say
T = TypeVar("T")


def scheduler_knows(admin: Admin, question: Callable[..., T], *arguments: Any) -> T | None:
    """What the scheduler's tables say; None where they are not to be had, as they may be on another machine."""
    try:
        with tasks_database(admin, patient=False) as tasks:
            return tasks.interact(question, *arguments)
    except Failed:
        return None
