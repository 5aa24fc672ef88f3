"""Orders of ``lcc-admin`` for the scheduler, and its answers."""

from __future__ import annotations

from lcc.admin.role_tables import RoleTables
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
