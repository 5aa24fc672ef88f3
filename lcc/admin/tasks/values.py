"""What the commands for tasks, jobs and resources share: ids, options, how one is shown."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import click
from click.shell_completion import CompletionItem

from lcc.admin.context import Admin
from lcc.admin.tasks.orders import offered
from lcc.commands.errors import Failed
from lcc.domain.tasks.job_hosts import check_rules
from lcc.insight.task_inputs import EVERY_MAX, InputError, check_kind, check_name, checked_command, checked_when
from lcc.insight.task_words import words_of
from lcc.model.tasks import (
    COMMAND,
    Job,
    JobSpec,
    JobState,
    Task,
    When,
)
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.views import jobs_page, resources, tasks_page

SEE_TASKS = "lcc-admin task list shows all tasks"
SEE_JOBS = "lcc-admin job list shows jobs; those that ended are kept for a time ([scheduler] jobs_kept)"
ID_MAX = 2**62
_SHOWN = 100


class _Id(click.IntRange):
    """An id; a shell that completes one is told which there are.

    :param items: the newest, each with a few words.
    """

    name = "id"

    def __init__(self, items: Callable[[BlockingDatabase], list[tuple[int, str]]]) -> None:
        super().__init__(1, ID_MAX - 1)
        self._items = items

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so."""
        items = offered(ctx, self._items)
        found = ((number, words) for number, words in items if str(number).startswith(incomplete))
        return [CompletionItem(str(number), help=words) for number, words in islice(found, _SHOWN)]


def _tasks(database: BlockingDatabase) -> list[tuple[int, str]]:
    return [(task.id, words_of(task.spec)) for task in database.interact(tasks_page)]


def _jobs(database: BlockingDatabase) -> list[tuple[int, str]]:
    return [(job.id, f"{job.state.value} {words_of(job.spec)}") for job in database.interact(jobs_page, ID_MAX)]


TASK_ID = _Id(_tasks)
JOB_ID = _Id(_jobs)
STATE = click.Choice([state.value for state in JobState])
EVERY = click.IntRange(1, EVERY_MAX)


class ResourceName(click.ParamType[str]):
    """The name of a resource."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Its name.

        :raises click.BadParameter: it is too long, or cannot be printed.
        """
        return _name(str(value))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that have an interval."""
        found = offered(ctx, lambda database: database.interact(resources))
        return [CompletionItem(each.name) for each in found if each.name.startswith(incomplete)]


RESOURCE = ResourceName()


def _name(value: str) -> str:
    try:
        return check_name(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _name_callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return _name(value) if value else value


def _new_kind_callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else check_kind(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _hosts_callback(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    try:
        check_rules(values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return values


def spec_options(command: Any) -> Any:
    """Options that say what is run, and where."""
    for option in (
        click.option(
            "--on",
            multiple=True,
            callback=_hosts_callback,
            metavar="allow:HOST|deny:HOST",
            help="Hosts of managers that may run it (repeatable; * for any characters).  Default: all.",
        ),
        click.option("--resource", type=RESOURCE, help="What it uses: one job at a time has it."),
        click.option(
            "--kind", callback=_new_kind_callback, help=f"Names its limits at a manager.  Default: {COMMAND}."
        ),
    ):
        command = option(command)
    return command


def when_options(command: Any) -> Any:
    """Options that say when."""
    for option in (
        click.option("--timezone", help="Time zone of --at and --cron.  Default: that of lcc.toml, else UTC."),
        click.option("--cron", metavar="LINE", help="By a cron line of five fields, such as '0 6 * * mon'."),
        click.option("--at", metavar="HH:MM[:SS]", help="Every day at this time."),
        click.option("--every", type=EVERY, metavar="SECONDS", help="Periodically."),
    ):
        command = option(command)
    return command


kind_option = click.option("--kind", callback=_name_callback, help="Only of this kind.")
words_argument = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGS]...")


def when_of(
    admin: Admin, every: int | None, at: str | None, cron: str | None, timezone: str | None, old: When | None = None
) -> When:
    """When it is due.

    :param old: of a task that has one already: its time zone stays.
    :raises Failed: never, or that makes no sense.
    """
    if timezone is not None and not (at or cron):
        raise Failed("--timezone makes no sense without --at or --cron", "give one of these, or leave it out")
    zone = (old.timezone if old and (old.at or old.cron) else admin.config.timezone) if timezone is None else timezone
    try:
        return checked_when(When(every or 0, at or "", cron or "", zone if at or cron else ""), admin.now())
    except InputError as error:
        raise Failed(str(error), "give one of --every SECONDS, --at HH:MM[:SS] and --cron LINE") from None


def command_of(kind: str, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Command and arguments of what stands behind ``--``.

    :raises Failed: that cannot be one.
    """
    try:
        return checked_command(kind, words)
    except InputError as error:
        raise Failed(str(error), f"{error.remedy} (behind --)") from None


def spec_record(spec: JobSpec) -> dict[str, Any]:
    """For JSON."""
    return {
        "kind": spec.kind,
        "command": spec.command,
        "args": list(spec.args),
        "resource": spec.resource,
        "on": list(spec.on),
    }


def task_record(task: Task) -> dict[str, Any]:
    """A task for JSON; times in seconds since 1970."""
    when = task.when
    return {
        "id": task.id,
        **spec_record(task.spec),
        "data": task.spec.data,
        "every_seconds": when.every_seconds or None,
        "at": when.at or None,
        "cron": when.cron or None,
        "timezone": when.timezone or None,
        "state": task.state.value,
        "auto": task.auto,
        "least_seconds": task.least_seconds,
        "most_seconds": task.most_seconds,
        "created_time": task.created_time,
        "due_time": task.due_time,
        "started_time": task.started_time,
        "ended_time": task.ended_time,
        "last_state": None if task.last_state is None else task.last_state.value,
        "failing_since_time": task.since_time,
        "failures": task.failures,
        "message": task.message,
        "moved_from": task.moved_from,
    }


def job_record(job: Job) -> dict[str, Any]:
    """A job for JSON."""
    return {
        "id": job.id,
        "task": job.task or None,
        "parent": job.parent or None,
        "key": job.key or None,
        **spec_record(job.spec),
        "state": job.state.value,
        "attempt": job.attempt,
        "scheduled_time": job.scheduled_time,
        "due_time": job.due_time,
        "started_time": job.started_time,
        "ended_time": job.ended_time,
        "manager": job.manager,
        "host": job.host,
        "pid": job.pid or None,
        "exit_code": job.exit_code,
        "signal": job.signal or None,
        "seconds": job.seconds,
        "message": job.message,
    }
