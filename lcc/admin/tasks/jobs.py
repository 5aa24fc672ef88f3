"""``lcc-admin job``: what is done once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, cell, json_option, pages, say_facts
from lcc.admin.tasks.orders import answer, order, say_order, tasks_database
from lcc.admin.tasks.values import (
    ID_MAX,
    JOB_ID,
    SEE_JOBS,
    STATE,
    TASK_ID,
    command_of,
    job_record,
    kind_option,
    spec_options,
    words_argument,
)
from lcc.admin.values import ROWS
from lcc.commands.errors import Failed
from lcc.commands.progress import counting
from lcc.commands.watch import clean
from lcc.domain.wording import duration, utc
from lcc.insight.task_words import waiting_text, words_of
from lcc.model.shellwords import shell_word
from lcc.model.tasks import COMMAND, POLLED_KINDS, Job, JobSpec
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.orders import JOB_KILL, JOB_RERUN, order_job
from lcc.storage.tasks.rows import is_open
from lcc.storage.tasks.views import PAGE_ROWS, get_job, job_log, jobs_page, statistics

_DAY_SECONDS = 86400
_COLUMNS = (
    Column("id", 8, "number"),
    Column("task", 6, "number"),
    Column("state", 15),
    Column("attempt", 3, "number", title="try"),
    Column("started_time", 19, "time", title="started (UTC)"),
    Column("due_time", 19, "time", title="due (UTC)"),
    Column("host", 12),
    Column("words", title="command"),
)
_DAYS = (
    Column("day", 10),
    Column("kind", 12),
    Column("completed", 9, "number"),
    Column("temporary", 9, "number"),
    Column("permanent", 9, "number"),
    Column("lost", 6, "number"),
    Column("retried", 7, "number"),
    Column("unchanged", 9, "number"),
    Column("seconds", 10, "number"),
    Column("items", 8, "number"),
)


@click.group("job")
def job_group() -> None:
    """Look at jobs, add, repeat and end them."""


@job_group.command("list")
@click.option("--state", "states", type=STATE, multiple=True, help="Only in this state (repeatable).")
@click.option("--task", type=TASK_ID, help="Only of this task.")
@kind_option
@click.option("--limit", type=ROWS, default=100, show_default=True, help="Maximum number of rows.")
@json_option
@pass_admin
def list_command(
    admin: Admin, /, states: tuple[str, ...], task: int | None, kind: str | None, limit: int, as_json: bool
) -> None:
    """List jobs, the newest first."""
    listing = Listing(_COLUMNS, as_json)
    with tasks_database(admin) as database:
        for job in counting("listing", islice(_all(database, task or 0, states, kind or ""), limit)):
            listing.row(job_record(job) | ({} if as_json else {"words": words_of(job.spec)}))
    listing.end("there are no such jobs")


def _all(database: BlockingDatabase, task: int, states: Sequence[str], kind: str) -> Iterator[Job]:
    found = pages(
        lambda before: database.interact(jobs_page, before, task, states, kind), ID_MAX, lambda job: job.id, PAGE_ROWS
    )
    return chain.from_iterable(found)


def _existing(database: BlockingDatabase, number: int) -> Job:
    job = database.interact(get_job, number)
    if job is None:
        raise Failed(f"there is no job {number}", SEE_JOBS)
    return job


@job_group.command("show")
@click.argument("number", type=JOB_ID, metavar="ID")
@json_option
@pass_admin
def show_command(admin: Admin, /, number: int, as_json: bool) -> None:
    """Show a job, its log, and the end of what it wrote."""
    with tasks_database(admin) as database:
        job = _existing(database, number)
        log = database.interact(job_log, number)
    if as_json:
        rows = [
            {"attempt": each.attempt, "time": each.row.time, "level": each.row.level, "text": each.row.text}
            for each in log
        ]
        click.echo(json.dumps(job_record(job) | {"data": job.spec.data, "log": rows}))
        return
    lines: list[tuple[str, Any]] = [
        ("job", f"{job.id} ({job.state.value})"),
        ("command", words_of(job.spec)),
        ("kind", job.spec.kind),
        ("task", job.task or ""),
        ("added by", f"job {job.parent}" if job.parent else ""),
        ("key", job.key),
        ("attempt", job.attempt or ""),
        ("scheduled", cell(job.scheduled_time, "time")),
        ("due", cell(job.due_time, "time")),
        ("waits", waiting_text(job, admin.now())),
        ("started", cell(job.started_time, "time")),
        ("ended", cell(job.ended_time, "time")),
        ("took", duration(job.seconds) if job.ended_time else ""),
        ("manager", f"{job.manager} on {job.host}" if job.manager else ""),
        ("process", job.pid or ""),
        ("exit code", "" if job.exit_code is None else str(job.exit_code)),
        ("signal", job.signal or ""),
        ("message", job.message),
    ]
    say_facts(lines)
    for each in log:
        row = each.row
        if row.level == "output":
            click.echo(f"{utc(row.time)}  attempt {each.attempt} has written:")
            for line in row.text.splitlines():
                click.echo(clean(f"  | {line}"))
        else:
            click.echo(clean(f"{utc(row.time)}  {row.level:<6} {row.text}"))


@job_group.command("add")
@spec_options
@click.option(
    "--after",
    "after_seconds",
    type=click.IntRange(0, 366 * _DAY_SECONDS),
    default=0,
    metavar="SECONDS",
    help="Start it after so long.",
)
@click.option("--data", default="", help="Text that its worker finds.")
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
    after_seconds: int,
    data: str,
    as_json: bool,
) -> None:
    """Add a job of no task, and print its id."""
    kind = kind or COMMAND
    if kind in POLLED_KINDS:
        raise Failed(f"jobs of the kind {kind} are made by their tasks", "lcc-admin task add --help")
    command, args = command_of(kind, words)
    spec = JobSpec(kind, command, args, resource or "", on, data)
    with tasks_database(admin) as database:
        ordered = database.write(order_job, spec, after_seconds, admin.now())
        found = answer(database, ordered)
    number = found["job"] if found else None
    text = f"job {number}: {words_of(spec)}" if number else words_of(spec)
    say_order(as_json, {"id": number}, text, found is not None)


@job_group.command("rerun")
@click.argument("numbers", type=JOB_ID, metavar="ID...", nargs=-1, required=True)
@json_option
@pass_admin
def rerun_command(admin: Admin, /, numbers: tuple[int, ...], as_json: bool) -> None:
    """Do jobs once more: what waits is tried now, what has ended becomes a new job."""
    with tasks_database(admin) as database:
        for number in numbers:
            _existing(database, number)
            found = answer(database, order(database, JOB_RERUN, number, {}, admin.now()))
            new = None if found is None else found.get("job")
            if found is not None and new is None:
                text = f"task {found['task']} is polled now"
            elif new in (None, number):
                text = f"job {number} is tried now"
            else:
                text = f"job {number} is done again as job {new}"
            say_order(as_json, {"id": number, "job": new}, text, found is not None)


@job_group.command("kill")
@click.argument("numbers", type=JOB_ID, metavar="ID...", nargs=-1, required=True)
@click.option("--why", default="", help="For its log.")
@json_option
@pass_admin
def kill_command(admin: Admin, /, numbers: tuple[int, ...], why: str, as_json: bool) -> None:
    """End jobs: TERM, then KILL; they are not tried again."""
    with tasks_database(admin) as database:
        for number in numbers:
            job = _existing(database, number)
            if not is_open(job.state, job.due_time):
                ended = f"job {number} has ended ({job.state.value})"
                raise Failed(ended, f"lcc-admin job show {shell_word(number)}")
            done = answer(database, order(database, JOB_KILL, number, {"why": why}, admin.now())) is not None
            say_order(as_json, {"id": number}, f"job {number} is being ended", done)


@job_group.command("statistics")
@click.option("--days", type=click.IntRange(1, 10_000), default=7, show_default=True, help="So many days.")
@json_option
@pass_admin
def statistics_command(admin: Admin, /, days: int, as_json: bool) -> None:
    """Jobs a day (UTC) and kind: how they ended, their seconds, new items."""
    listing = Listing(_DAYS, as_json)
    today = admin.now() // _DAY_SECONDS
    with tasks_database(admin) as database:
        rows = database.interact(statistics, today - days + 1)
    for each in rows:
        record = each._asdict() | {"day": utc(each.day * _DAY_SECONDS)[:10]}
        listing.row(record if as_json else record | {"seconds": round(each.seconds)})
    listing.end("no job has ended in this time")
