"""Orders for the scheduler: what commands and the monitor want of it (``taskorders``).

Whoever gives one checks it first, and draws the ids of new tasks, so that a person has them at once; the scheduler
carries orders out in the order in which they came, and answers in the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from lcc.interfaces import ITaskRules
from lcc.model.tasks import (
    MESSAGE_CHARS_MAX,
    DueJob,
    Job,
    JobResult,
    JobSpec,
    JobState,
    LogRow,
    Task,
    TaskState,
    When,
)
from lcc.storage.database.tables.answered_orders import AnsweredOrders
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks import moving
from lcc.storage.tasks.jobs.due import insert_job
from lcc.storage.tasks.jobs.endings import END_LEVEL, end_attempt, end_waiting
from lcc.storage.tasks.jobs.new_tasks import TASK_IDS, insert_task
from lcc.storage.tasks.polling.robots import ask_again, poll_robots, remove_task
from lcc.storage.tasks.polling.sitemaps import SITEMAP, confirm_sitemap, remove_sitemap
from lcc.storage.tasks.rows import JOBS, TASKS, derived_values, is_open, is_polled, job_of, task_of, task_values
from lcc.storage.tasks.write import TaskWrite

TASK_ADD = "task-add"
TASK_SET = "task-set"
TASK_SUSPEND = "task-suspend"
TASK_RESUME = "task-resume"
TASK_POLL = "task-poll"
TASK_REMOVE = "task-remove"
JOB_ADD = "job-add"
JOB_RERUN = "job-rerun"
JOB_KILL = "job-kill"
RESOURCE_SET = "resource-set"
RESOURCE_REMOVE = "resource-remove"
ROBOTS_POLL = "robots-poll"
ROBOTS_AGAIN = "robots-again"
"""Robots.txt of ``origins`` that could not be read are asked for after ``after_seconds``."""
SITEMAP_CONFIRM = "sitemap-confirm"

ORDERS = AnsweredOrders("taskorders", "taskorder_id")


class Order(NamedTuple):
    """An open row of ``taskorders``.

    :ivar target: a task or a job; 0: none.
    """

    id: int
    kind: str
    target: int
    body: Mapping[str, Any]


@attrs.define
class CarriedOut:
    """What orders came to.

    :ivar made: new jobs.
    :ivar killed: running attempts (job, attempt, why) that are to be ended at their managers.
    :ivar changed: jobs that wait no longer, or not as they did.
    :ivar count: orders that were carried out.
    """

    made: list[DueJob] = attrs.field(factory=list)
    killed: list[tuple[int, int, str]] = attrs.field(factory=list)
    changed: set[int] = attrs.field(factory=set)
    count: int = 0

    def add(self, other: CarriedOut) -> None:
        """Those of others, too."""
        self.made += other.made
        self.killed += other.killed
        self.changed |= other.changed
        self.count += other.count


# For whoever gives them.


def order_task(txn: Txn, task: Task, now: int) -> tuple[int, int]:
    """Order a new task (its id is drawn); returns its id, and the order's number."""
    number = draw(txn, TASK_IDS)
    return number, ORDERS.give(txn, TASK_ADD, number, task_body(task), now)


def order_job(txn: Txn, spec: JobSpec, after_seconds: int, now: int) -> int:
    """Order a job of no task; returns the order's number.  Its answer has the job's id."""
    return ORDERS.give(txn, JOB_ADD, 0, {"spec": attrs.asdict(spec), "after_seconds": after_seconds}, now)


def order_robots(txn: Txn, origins: Sequence[str], now: int) -> None:
    """Order that robots.txt of these sites are polled, unless such an order is open: who wants them asks again."""
    sql = "SELECT 1 FROM taskorders WHERE done_time IS NULL AND kind = ? LIMIT 1"
    if txn.one(sql, [ROBOTS_POLL]) is None:
        ORDERS.give(txn, ROBOTS_POLL, 0, {"origins": list(origins)}, now)


def task_body(task: Task) -> dict[str, Any]:
    """A task as an order has it."""
    return {
        "spec": attrs.asdict(task.spec),
        "when": attrs.asdict(task.when),
        "auto": task.auto,
        "least_seconds": task.least_seconds,
        "most_seconds": task.most_seconds,
        "suspended": task.state is TaskState.SUSPENDED,
    }


def read_task_body(number: int, body: Mapping[str, Any]) -> Task:
    """The task that :func:`task_body` has written."""
    state = TaskState.SUSPENDED if body.get("suspended") else TaskState.ACTIVE
    bounds = body["least_seconds"], body["most_seconds"]
    return Task(number, _spec_of(body["spec"]), When(**body["when"]), state, body["auto"], *bounds)


# For the scheduler.


def carry_out_orders(write: TaskWrite, rules: ITaskRules, numbers: Sequence[int]) -> CarriedOut:
    """Carry out these orders.

    :raises ValueError: one of them cannot be carried out; the transaction must not be committed.
    """
    sql = "SELECT id, kind, target, body, done_time FROM taskorders WHERE id IN ({in})"
    done = CarriedOut()
    for number, kind, target, body, done_time in sorted(write.txn.query_in(sql, numbers)):
        if done_time is not None:
            # This was committed before, and its answer was lost: whom it kills is to be told all the same.
            done.killed += _still_running(write, Order(number, kind, target, json.loads(body)))
            continue
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise ValueError(f"this scheduler knows no order {kind!r}")
        try:
            answer = handler(write, rules, Order(number, kind, target, json.loads(body)), done)
        except (KeyError, TypeError) as error:  # a newer command's
            raise ValueError(f"this scheduler does not understand the order {kind!r}: {error}") from error
        ORDERS.set_answer(write.txn, number, answer, write.now)
        done.count += 1
    return done


def _still_running(write: TaskWrite, order: Order) -> list[tuple[int, int, str]]:
    """The attempts that an order ends which was carried out."""
    column = {JOB_KILL: "id", TASK_REMOVE: "task"}.get(order.kind)
    if column is None:
        return []
    sql = f"SELECT id, attempt FROM jobs WHERE {column} = ? AND state = 'running'"
    return [(*row, _why_killed(order)) for row in write.txn.query(sql, [order.target])]


def _why_killed(order: Order) -> str:
    if order.kind == TASK_REMOVE:
        return f"task {order.target} was removed"
    return str(order.body.get("why") or "killed by an operator")[:MESSAGE_CHARS_MAX]


def refuse_order(write: TaskWrite, number: int, why: str) -> CarriedOut:
    """An order cannot be carried out."""
    ORDERS.set_answer(write.txn, number, {"error": why}, write.now)
    return CarriedOut(count=1)


def _spec_of(body: Mapping[str, Any]) -> JobSpec:
    return JobSpec(**{**body, "args": tuple(body["args"]), "on": tuple(body["on"])})


def _locked_task(write: TaskWrite, number: int) -> Task:
    row = write.txn.one(f"{TASKS.select} WHERE id = ?", [number])
    if row is None:
        raise ValueError(f"there is no task {number}")
    return task_of(row)


def _save(write: TaskWrite, task: Task) -> None:
    values = dict(zip(TASKS.columns, task_values(task), strict=True))
    del values["id"]
    values |= derived_values(task.spec)
    assignments = ", ".join(f"{name} = ?" for name in values)
    write.txn.execute(f"UPDATE tasks SET {assignments} WHERE id = ?", [*values.values(), task.id])


def _open_job(write: TaskWrite, task: int) -> Job | None:
    row = write.txn.one(f"{JOBS.select} WHERE opentask = ?", [task])
    return None if row is None else job_of(row)


def _task_add(write: TaskWrite, rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    task = read_task_body(order.target, order.body)
    if write.txn.one("SELECT 1 FROM tasks WHERE id = ?", [order.target]) is None:
        insert_task(write, rules, task)
    return {"task": order.target}


def _task_set(write: TaskWrite, rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    task, body = _locked_task(write, order.target), order.body
    was = task.when
    spec = {"args": list(task.spec.args), "on": list(task.spec.on)}
    changed = attrs.evolve(
        task,
        spec=_spec_of({**attrs.asdict(task.spec), **spec, **body.get("spec", {})}),
        when=When(**{**attrs.asdict(task.when), **body.get("when", {})}),
        auto=body.get("auto", task.auto),
        least_seconds=body.get("least_seconds", task.least_seconds),
        most_seconds=body.get("most_seconds", task.most_seconds),
    )
    if changed.when != was and changed.state is TaskState.ACTIVE:
        due = rules.first_due(changed.when, write.now)
        if changed.when.every_seconds and task.started_time is not None:
            due = max(write.now, task.started_time + changed.when.every_seconds)
        if _open_job(write, task.id) is None:
            changed = attrs.evolve(changed, due_time=due)
    _save(write, changed)
    if changed.spec.args[:1] != task.spec.args[:1]:
        # Another page: nothing is known of it yet.
        sql = "UPDATE tasks SET pid = 0, urlkey = NULL, asked_time = NULL, asked_order = 0, look_time = NULL"
        sql += ", seen = 0, moved_from = '' WHERE id = ?"
        write.txn.execute(sql, [task.id])
    elif changed.spec.args != task.spec.args:
        # With other options it is to be read once more, changed or not.
        write.txn.execute("UPDATE tasks SET seen = 0 WHERE id = ?", [task.id])
    job = _open_job(write, task.id)
    if job is not None and job.due_time is not None:
        columns = ("kind", "command", "args", "resource", "hosts")
        values = dict(zip(TASKS.columns, task_values(changed), strict=True))
        assignments = ", ".join(f"{name} = ?" for name in columns)
        write.txn.execute(
            f"UPDATE jobs SET {assignments} WHERE id = ?", [*(values[name] for name in columns), job.id]
        )
        done.changed.add(job.id)
        done.made.append(_due_of(attrs.evolve(job, spec=changed.spec)))
    return {"task": task.id}


def _task_suspend(write: TaskWrite, _rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    task = _locked_task(write, order.target)
    why = str(order.body.get("why", ""))
    _save(write, attrs.evolve(task, state=TaskState.SUSPENDED, due_time=None, message=why or task.message))
    write.txn.execute("UPDATE tasks SET look_time = NULL WHERE id = ?", [task.id])
    job = _open_job(write, task.id)
    if job is not None and job.state is not JobState.RUNNING:
        end_waiting(write, job.id, job.attempt, "its task was suspended")
        done.changed.add(job.id)
    return {"task": task.id}


def _task_resume(write: TaskWrite, rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    task = _locked_task(write, order.target)
    if task.state is TaskState.ACTIVE:
        return {"task": task.id}
    due = None
    if _open_job(write, task.id) is None:
        due = rules.first_due(task.when, write.now)
        if task.when.every_seconds and task.started_time is not None:
            due = max(due, task.started_time + task.when.every_seconds)
    _save(write, attrs.evolve(task, state=TaskState.ACTIVE, due_time=due, failures=0, since_time=None))
    # Whose its page is is asked once more: its provider may have been removed.
    write.txn.execute("UPDATE tasks SET pid = 0, urlkey = NULL, asked_order = 0 WHERE id = ?", [task.id])
    return {"task": task.id}


def _task_poll(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    task = _locked_task(write, order.target)
    if not is_polled(task.spec):
        raise ValueError(f"task {task.id} is not polled: its kind is {task.spec.kind}")
    job = _open_job(write, task.id)
    if job is not None:
        return {"task": task.id, "job": job.id}  # what its last poll has found is still to be read
    _poll_now(write, task)
    return {"task": task.id}


def _task_remove(write: TaskWrite, _rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    task = _locked_task(write, order.target)
    job = _open_job(write, task.id)
    if job is not None:
        why = _why_killed(order)
        if job.state is JobState.RUNNING:
            _kill(write, job, why, done)
        else:
            end_waiting(write, job.id, job.attempt, why)
            done.changed.add(job.id)
    remove_task(write, task.id)
    if task.spec.kind == SITEMAP:
        remove_sitemap(write, task.id)
    return {"task": task.id}


def _sitemap_confirm(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    return {"task": order.target, "urls": confirm_sitemap(write, order.target)}


def _job_add(write: TaskWrite, _rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    write.check_room()
    due = write.now + order.body["after_seconds"]
    spec = _spec_of(order.body["spec"])
    job = Job(write.next("job"), spec, scheduled_time=due, due_time=due, updated_time=write.now)
    done.made.append(insert_job(write, job, ""))
    return {"job": job.id}


def _known_job(write: TaskWrite, number: int) -> Job:
    row = write.txn.one(f"{JOBS.select} WHERE id = ?", [number])
    if row is None:
        raise ValueError(f"there is no job {number} (any longer)")
    return job_of(row)


def _job_rerun(write: TaskWrite, _rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    """A job that waits to be tried again is tried now; one that has ended is done once more, as a new one."""
    job = _known_job(write, order.target)
    if job.state is JobState.RUNNING:
        raise ValueError(f"job {job.id} is running")
    if is_open(job.state, job.due_time):
        write.txn.execute("UPDATE jobs SET due_time = ? WHERE id = ?", [write.now, job.id])
        done.changed.add(job.id)
        done.made.append(_due_of(attrs.evolve(job, due_time=write.now)))
        return {"job": job.id}
    task = job.task if write.txn.one("SELECT 1 FROM tasks WHERE id = ?", [job.task]) else 0
    if task and _open_job(write, task) is not None:
        raise ValueError(f"task {task} has an open job already")
    if is_polled(job.spec):
        # What a poll has found is read by polling it again.
        _poll_now(write, _locked_task(write, job.task))
        write.txn.execute("UPDATE tasks SET seen = 0 WHERE id = ?", [job.task])
        return {"task": job.task}
    write.check_room()
    new = Job(
        write.next("job"),
        job.spec,
        task,
        parent=job.id,
        scheduled_time=write.now,
        due_time=write.now,
        updated_time=write.now,
    )
    given = write.txn.value("SELECT input FROM jobs WHERE id = ?", [job.id])
    done.made.append(insert_job(write, new, f"task/{task}" if task else "", job_input=given))
    if task:
        write.txn.execute("UPDATE tasks SET due_time = NULL WHERE id = ?", [task])
    return {"job": new.id}


def _poll_now(write: TaskWrite, task: Task) -> None:
    if task.state is not TaskState.ACTIVE:
        raise ValueError(f"task {task.id} is suspended: resume it, and it is polled")
    write.txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [write.now, task.id])


def _due_of(job: Job) -> DueJob:
    spec = job.spec
    return DueJob(job.id, job.due_time or 0, job.attempt, spec.kind, spec.command, spec.resource, spec.on)


def _kill(write: TaskWrite, job: Job, why: str, done: CarriedOut) -> None:
    """Its manager hears it now, or when it is back."""
    write.txn.execute("UPDATE jobs SET killed = ? WHERE id = ?", [why, job.id])
    done.killed.append((job.id, job.attempt, why))


def _job_kill(write: TaskWrite, rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    job = _known_job(write, order.target)
    why = _why_killed(order)
    if not is_open(job.state, job.due_time):
        raise ValueError(f"job {job.id} has ended ({job.state.value})")
    if job.state is JobState.RUNNING:
        _kill(write, job, why, done)
    else:
        end_attempt(write, rules, job, JobResult(job.id, job.attempt, JobState.PERMANENT, message=why))
        write.log(job.id, job.attempt, LogRow(write.now, END_LEVEL, why))
        done.changed.add(job.id)
    return {"job": job.id}


def _resource_set(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    name, interval = order.body["name"], order.body["interval_seconds"]
    columns = ("name", "interval_seconds", "started_time")
    write.txn.upsert("resources", columns, [(name, interval, 0)], ["name"], ["interval_seconds"])
    return {"resource": name}


def _resource_remove(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    name = order.body["name"]
    if write.txn.one("SELECT 1 FROM resources WHERE name = ?", [name]) is None:
        raise ValueError(f"there is no resource {name!r}")
    write.txn.execute("DELETE FROM resources WHERE name = ?", [name])
    return {"resource": name}


def _robots_poll(write: TaskWrite, rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    poll_robots(write, rules, order.body["origins"])
    return {}


def _robots_again(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    tasks = [task for task in ask_again(write, order.body["origins"]) if _open_job(write, task) is None]
    due = [write.now + int(order.body["after_seconds"]), TaskState.ACTIVE.value]
    write.txn.execute_in("UPDATE tasks SET due_time = ? WHERE state = ? AND id IN ({in})", tasks, due)
    return {"tasks": tasks}


def _tasks_rest(write: TaskWrite, _rules: ITaskRules, order: Order, done: CarriedOut) -> dict[str, Any]:
    done.changed |= set(moving.rest(write, order.target))
    return {}


def _tasks_go_on(write: TaskWrite, rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    moving.go_on(write, rules.first_due, order.target)
    return {}


def _tasks_arrive(write: TaskWrite, rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    moving.arrive(write, rules.first_due, moving.TaskRows(order.body["table"], order.body["rows"]))
    return {}


def _tasks_left(write: TaskWrite, _rules: ITaskRules, order: Order, _done: CarriedOut) -> dict[str, Any]:
    moving.leave(write, order.target)
    return {}


_HANDLERS: dict[str, Callable[[TaskWrite, ITaskRules, Order, CarriedOut], dict[str, Any]]] = {
    TASK_ADD: _task_add,
    TASK_SET: _task_set,
    TASK_SUSPEND: _task_suspend,
    TASK_RESUME: _task_resume,
    TASK_POLL: _task_poll,
    TASK_REMOVE: _task_remove,
    JOB_ADD: _job_add,
    JOB_RERUN: _job_rerun,
    JOB_KILL: _job_kill,
    RESOURCE_SET: _resource_set,
    RESOURCE_REMOVE: _resource_remove,
    ROBOTS_POLL: _robots_poll,
    ROBOTS_AGAIN: _robots_again,
    SITEMAP_CONFIRM: _sitemap_confirm,
    moving.TASKS_REST: _tasks_rest,
    moving.TASKS_GO_ON: _tasks_go_on,
    moving.TASKS_ARRIVE: _tasks_arrive,
    moving.TASKS_LEFT: _tasks_left,
}
