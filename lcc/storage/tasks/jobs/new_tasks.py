"""New tasks: their ids, and their rows."""

from __future__ import annotations

import attrs

from lcc.interfaces import ITaskRules
from lcc.model.tasks import Task, TaskState
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import TASKS, derived_values, task_values
from lcc.storage.tasks.write import TaskWrite

TASK_IDS = "task_id"


def insert_task(write: TaskWrite, rules: ITaskRules, task: Task) -> None:
    """A new task, due as its rules say.

    :raises ValueError: it never is.
    """
    due = rules.first_due(task.when, write.now) if task.state is TaskState.ACTIVE else None
    new = attrs.evolve(task, created_time=write.now, due_time=due)
    derived = derived_values(task.spec)
    write.txn.insert("tasks", (*TASKS.columns, *derived), [(*task_values(new), *derived.values())])


def draw_task_id(txn: Txn) -> int:
    """The id of a new task."""
    return draw(txn, TASK_IDS)
