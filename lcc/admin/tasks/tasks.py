"""``lcc-admin task``: what is done periodically."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, cell, json_option, pages, say_facts
from lcc.admin.tasks.orders import answer, order, say_order, tasks_database
from lcc.admin.tasks.values import (
    ID_MAX,
    SEE_TASKS,
    TASK_ID,
    command_of,
    job_record,
    kind_option,
    spec_options,
    task_record,
    when_of,
    when_options,
    words_argument,
)
from lcc.admin.values import ROWS
from lcc.commands.errors import Failed
from lcc.commands.progress import counting
from lcc.domain.wording import duration, number
from lcc.insight.task_words import when_text, words_of
from lcc.model.tasks import COMMAND, POLLED_KINDS, JobSpec, Task, TaskState
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.orders import TASK_REMOVE, TASK_RESUME, TASK_SET, TASK_SUSPEND, order_task
from lcc.storage.tasks.views import PAGE_ROWS, get_task, jobs_page, tasks_page

JOBS_SHOWN = 5
_COLUMNS = (
    Column("id", 6, "number"),
    Column("state", 9),
    Column("kind", 8),
    Column("when", 20),
    Column("due_time", 19, "time", title="due (UTC)"),
    Column("last_state", 15, title="last job"),
    Column("words", title="command"),
)


@click.group("task")
def task_group() -> None:
    """Manage periodic tasks."""


@task_group.command("add")
@when_options
@spec_options
@click.option("--data", default="", help="Text that its workers find, and may change.")
@click.option("--suspended", is_flag=True, help="It begins when it is resumed.")
@words_argument
@json_option
@pass_admin
def add_command(
    admin: Admin,
    /,
    words: tuple[str, ...],
    kind: str | None,
    resource: str | None,
    on: tuple[str, ...],
    data: str,
    suspended: bool,
    as_json: bool,
    **when: Any,
) -> None:
    """Add a task, and print its id.

    COMMAND is the name of an executable in the worker folders of the managers.  It gets ARGS as they are.
    """
    command, args = command_of(kind or COMMAND, words)
    spec = JobSpec(kind or COMMAND, command, args, resource or "", on, data)
    state = TaskState.SUSPENDED if suspended else TaskState.ACTIVE
    task = Task(0, spec, when_of(admin, **when), state)
    with tasks_database(admin) as database:
        task_id, ordered = database.write(order_task, task, admin.now())
        done = answer(database, ordered) is not None
    say_order(as_json, {"id": task_id}, f"task {task_id}: {words_of(spec)}, {when_text(task.when)}", done)


@task_group.command("list")
@kind_option
@click.option("--failing", is_flag=True, help="Only those whose last job failed.")
@click.option("--suspended", is_flag=True, help="Only suspended ones.")
@click.option("--limit", type=ROWS, help="Maximum number of rows.")
@json_option
@pass_admin
def list_command(
    admin: Admin, /, kind: str | None, failing: bool, suspended: bool, limit: int | None, as_json: bool
) -> None:
    """List tasks by id."""
    listing = Listing(_COLUMNS, as_json)
    with tasks_database(admin) as database:
        tasks = (
            task
            for task in _all(database, kind or "", TaskState.SUSPENDED if suspended else None)
            if not failing or task.failures
        )
        for task in counting("listing", islice(tasks, limit)):
            shown = {"when": when_text(task.when), "words": words_of(task.spec)}
            listing.row(task_record(task) | ({} if as_json else shown))
    listing.end("there are no such tasks" if kind or failing or suspended else "there are no tasks")


def _all(database: BlockingDatabase, kind: str, state: TaskState | None) -> Iterator[Task]:
    found = pages(
        lambda after: database.interact(tasks_page, after, kind, PAGE_ROWS, state), 0, lambda task: task.id, PAGE_ROWS
    )
    return chain.from_iterable(found)


def existing_task(database: BlockingDatabase, number: int) -> Task:
    """The task of this id.

    :raises Failed: there is none.
    """
    task = database.interact(get_task, number)
    if task is None:
        raise Failed(f"there is no task {number}", SEE_TASKS)
    return task


@task_group.command("show")
@click.argument("task_id", type=TASK_ID, metavar="ID")
@json_option
@pass_admin
def show_command(admin: Admin, /, task_id: int, as_json: bool) -> None:
    """Show a task and its latest jobs."""
    with tasks_database(admin) as database:
        task = existing_task(database, task_id)
        jobs = database.interact(jobs_page, ID_MAX, task_id, (), "", JOBS_SHOWN)
    if as_json:
        click.echo(json.dumps(task_record(task) | {"jobs": [job_record(job) for job in jobs]}))
        return
    spec = task.spec
    lines: list[tuple[str, Any]] = [
        ("task", f"{task.id} ({task.state.value})"),
        ("command", words_of(spec)),
        ("kind", spec.kind),
        ("when", when_text(task.when) + (" (follows from what its polls find)" if task.auto else "")),
        ("resource", spec.resource),
        ("on", " ".join(spec.on)),
        ("data", "" if spec.kind in POLLED_KINDS else spec.data),  # of these it is the LCC's own
        ("added", cell(task.created_time, "time")),
        ("due", cell(task.due_time, "time")),
        ("last start", cell(task.started_time, "time")),
        ("last job", task.last_state.value if task.last_state else ""),
        ("message", task.message),
        ("moved from", task.moved_from),
    ]
    if task.since_time is not None:
        lines.append(
            ("failing", f"for {duration(admin.now() - task.since_time)}, {number(task.failures, 'job')} in a row")
        )
    for job in jobs:
        began = cell(job.started_time or job.scheduled_time, "time")
        lines.append(("job", f"{job.id} {began} {job.state.value} {job.message}".rstrip()))
    say_facts(lines)


@task_group.command("set")
@click.argument("task_id", type=TASK_ID, metavar="ID")
@when_options
@spec_options
@click.option("--anywhere", is_flag=True, help="It may run on any host.")
@click.option("--no-resource", is_flag=True, help="It uses no resource.")
@click.option("--data", help="Text that its workers find, and may change.")
@words_argument
@json_option
@pass_admin
def set_command(
    admin: Admin,
    /,
    task_id: int,
    words: tuple[str, ...],
    kind: str | None,
    resource: str | None,
    on: tuple[str, ...],
    anywhere: bool,
    no_resource: bool,
    data: str | None,
    as_json: bool,
    **when: Any,
) -> None:
    """Change a task.  A new period counts from its last start."""
    with tasks_database(admin) as database:
        task = existing_task(database, task_id)
        body: dict[str, Any] = {}
        if any(when[name] is not None for name in ("every", "at", "cron")):
            new = when_of(admin, **when, old=task.when)
            body["when"] = {
                "every_seconds": new.every_seconds,
                "at": new.at,
                "cron": new.cron,
                "timezone": new.timezone,
            }
            body["auto"] = False
        elif when["timezone"] is not None:
            old = task.when
            new = when_of(admin, old.every_seconds or None, old.at or None, old.cron or None, when["timezone"])
            body["when"] = {"timezone": new.timezone}
        spec: dict[str, Any] = {}
        if words:
            spec["command"], args = command_of(kind or task.spec.kind, words)
            spec["args"] = list(args)
        for name, value in (("kind", kind), ("resource", resource), ("data", data)):
            if value is not None:
                spec[name] = value
        if on or anywhere:
            spec["on"] = list(on)
        if no_resource:
            spec["resource"] = ""
        if spec:
            body["spec"] = spec
        if not body:
            raise Failed("nothing to change was given", "lcc-admin task set --help names the options")
        ordered = order(database, TASK_SET, task_id, body, admin.now())
        done = answer(database, ordered) is not None
    say_order(as_json, {"id": task_id}, f"task {task_id} is changed", done)


def _simple(name: str, kind: str, text: str, doc: str) -> None:
    @task_group.command(name, help=doc)
    @click.argument("numbers", type=TASK_ID, metavar="ID...", nargs=-1, required=True)
    @json_option
    @pass_admin
    def command(admin: Admin, /, numbers: tuple[int, ...], as_json: bool) -> None:
        with tasks_database(admin) as database:
            for task_id in numbers:
                existing_task(database, task_id)
            given = [(each, order(database, kind, each, {}, admin.now())) for each in numbers]
            for task_id, ordered in given:
                done = answer(database, ordered) is not None
                say_order(as_json, {"id": task_id}, f"task {task_id} {text}", done)


_simple("suspend", TASK_SUSPEND, "is suspended", "Suspend tasks; what runs goes on.")
_simple("resume", TASK_RESUME, "is resumed", "Resume suspended tasks.")
_simple("remove", TASK_REMOVE, "is removed", "Remove tasks; what runs of them is ended.")
