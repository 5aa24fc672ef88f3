"""Tasks: the list, a page for each, and the form that adds one."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.domain.tasks.job_hosts import check_rules
from lcc.insight.task_inputs import InputError, check_kind, check_name, checked_command
from lcc.model.tasks import COMMAND, Job, JobSpec, Task, TaskState
from lcc.roles.web.pages.orders import (
    TASK_ORDERS,
    OrderingPage,
    Told,
    bad_input,
    told,
    when_of,
)
from lcc.roles.web.pages.providers import number
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.views import FEED, ordered_task
from lcc.storage.tasks.orders import TASK_SET
from lcc.storage.tasks.views import failing_tasks, get_task, jobs_page, tasks_page
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_TASKS = 50
JOBS_SHOWN = 20
_LATEST = 2**62


class TasksPage(OrderingPage):
    """``/tasks``: a page of them at a time: by id, those of a kind, suspended ones; failing ones, longest first."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        only, kind = query.get("only", ""), query.get("kind", "").strip()
        since, _, last = query.get("after", "0-0").rpartition("-")
        after = number(since or "0"), number(last)
        if only == "failing":
            tasks = await self.asked(failing_tasks, after, PAGE_TASKS)
        else:
            state = TaskState.SUSPENDED if only == "suspended" else None
            tasks = await self.asked(tasks_page, after[1], "" if state else kind, PAGE_TASKS, state)
        titles = {"failing": "Failing tasks", "suspended": "Suspended tasks"}
        self.front.page(
            request,
            "tasks",
            titles.get(only, f"Tasks of the kind {kind[:40]}" if kind else "Tasks"),
            only=only if only in titles else "",
            kind=kind,
            tasks=tasks,
            after=f"{tasks[-1].since_time or 0}-{tasks[-1].id}" if len(tasks) == PAGE_TASKS else "",
        )


@attrs.frozen
class _Seen:
    """What the page of a task shows.

    :ivar is_new: the scheduler has yet to add it.
    """

    task: Task
    is_new: bool
    jobs: tuple[Job, ...]
    told: Told | None


def see_task(txn: Txn, number: int, order: int) -> _Seen | None:
    """All that the page of a task shows; None: there is no such task."""
    task, new = get_task(txn, number), False
    if task is None:
        task, new = ordered_task(txn, number), True
    if task is None:
        return None
    return _Seen(task, new, tuple(jobs_page(txn, _LATEST, number, (), "", JOBS_SHOWN)), told(txn, order))


class TaskPage(OrderingPage):
    """``/task/N``: a task, its schedule, its last jobs; and what is to become of it."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        task_id, order = self.number_below(request), self.asked_order(request)
        found = await self.asked(see_task, task_id, order)
        if found is None:
            before = await self.asked(told, order)
            if before is None:
                raise HttpError(404, f"There is no task {task_id}.")
            self.front.page(request, "ordered", f"Task {task_id}", told=before, back="/tasks", list="tasks")
            return
        self.front.page(request, "task", f"Task {task_id}", found=found, task=found.task, told=found.told)

    async def post(self, request: BodyRequest) -> None:
        fields, task_id = self.sent(request), self.number_below(request)
        do = fields.get("do", "")
        if do not in TASK_ORDERS:
            raise HttpError(400, "This form is not known here.")
        if await self.asked(see_task, task_id, 0) is None:
            raise HttpError(404, f"There is no task {task_id}.")
        body: dict[str, Any] = {}
        if TASK_ORDERS[do] == TASK_SET:
            when = when_of(fields, self.monitor.config.timezone, self.monitor.now())
            body = {"when": attrs.asdict(when), "auto": False}
        self.same_page(request, await self.order(request, f"{do} task", TASK_ORDERS[do], task_id, body))


class AddTaskPage(OrderingPage):
    """``/task-add``: the form for a new task."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        self.front.page(request, "task_add", "Add a task", zone=self.monitor.config.timezone)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        kind = fields.get("kind", "").strip() or COMMAND
        command = fields.get("command", "").strip()
        # Browsers send \r\n; an empty line is an empty argument, but not at the end.
        args = [line.removesuffix("\r") for line in fields.get("args", "").rstrip("\r\n").split("\n")]
        words = ([command] if command else []) + (args if args != [""] else [])
        resource = fields.get("resource", "").strip()
        on = tuple(fields.get("on", "").split())
        try:
            check_kind(kind)
            check_rules(on)
            if resource:
                check_name(resource)
            command, arguments = checked_command(kind, words)
        except InputError as error:
            raise bad_input(error) from None
        except ValueError as error:
            raise HttpError(400, f"Not done: {error}.") from None
        when = when_of(fields, self.monitor.config.timezone, self.monitor.now())
        state = TaskState.SUSPENDED if fields.get("suspended") else TaskState.ACTIVE
        spec = JobSpec(kind, command, arguments, resource, on=on, data=fields.get("data", ""))
        new, order = await self.order_task(request, Task(0, spec, when, state))
        self.front.redirect(request, f"/{'feed' if kind == FEED else 'task'}/{new}?order={order}")
