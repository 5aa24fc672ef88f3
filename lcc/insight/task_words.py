"""Tasks, jobs and the scheduler in words, for commands and the monitor alike."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.domain.wording import duration, number, utc
from lcc.model.shellwords import shell_command
from lcc.model.tasks import Job, JobSpec, ManagerState, ManagerStatus, When
from lcc.storage.tasks.figures import COUNTED_MAX, TaskFigures

WORDS_SHOWN = 60
WAITING_SECONDS = 20


def words_of(spec: JobSpec, chars: int = WORDS_SHOWN) -> str:
    """What is run, as a shell would have it, cut to so many characters."""
    text = shell_command(*((spec.command,) if spec.command else (f"{spec.kind}:",)), *spec.args)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def when_text(when: When) -> str:
    """When, for people."""
    if when.every_seconds:
        return f"every {when.every_seconds} s"
    zone = f" {when.timezone or 'UTC'}"
    return f"at {when.at}{zone}" if when.at else f"cron {when.cron}{zone}"


def waiting_text(job: Job, now: float) -> str:
    """What a job that is due waits for; empty: it is not, or has not waited for long."""
    if job.due_time is None or now - job.due_time < WAITING_SECONDS:
        return ""
    waits = duration(now - job.due_time)
    what = "this executable" if job.spec.command else f"the kind {job.spec.kind}"
    resource = f", or its resource {job.spec.resource!r} is in use" if job.spec.resource else ""
    refused = (
        "; lcc-admin check on the manager's host, and its log, name the executables that it refuses"
        if job.spec.command
        else ""
    )
    return f"due for {waits}: no manager that may run it has {what}, or room{resource}{refused}"


def scheduler_text(figures: TaskFigures, now: float) -> str:
    """Whether the scheduler runs."""
    if not figures.heard_time:
        return "has not run yet"
    heard = f"last heard of {duration(now - figures.heard_time)} ago"
    return f"run {figures.run} is running; {heard}" if figures.is_alive(now) else f"is not running; {heard}"


def jobs_text(figures: TaskFigures) -> str:
    """What there is to do."""
    waiting = max(0, figures.open - figures.running)
    failing = f"; {failing_text(figures)}" if figures.failing else ""
    lost = f"; {figures.lost_today:,} lost today" if figures.lost_today else ""
    return f"{figures.running:,} running, {waiting:,} waiting{lost}{failing}"


def failing_text(figures: TaskFigures) -> str:
    """How many tasks fail."""
    return f"{_counted(figures.failing, 'task')} failing"


def manager_text(manager: ManagerStatus, now: float) -> str:
    """How a manager is, since when, and what it does."""
    state, since = manager.state(now), manager.since(now)
    length = duration(now - since)
    if state is ManagerState.DOWN:
        return f"down since {utc(since)} ({length})"
    if state is ManagerState.UNKNOWN:
        return f"unknown: last heard of {length} ago"
    of = f" of {manager.capacity:,}" if manager.capacity else ""
    paused = f", PAUSED: {manager.paused}" if manager.paused else ""
    jobs = f"{manager.running:,}{of} jobs" if of else number(manager.running, "job")
    return f"up for {length}, {jobs} running{paused}"


def scheduler_lines(figures: TaskFigures, now: float) -> Iterator[tuple[str, str]]:
    """A screen: a name, which is empty where the line above goes on, and a text."""
    if not (figures.heard_time or figures.orders):
        return  # nobody uses it
    yield "scheduler", scheduler_text(figures, now)
    if figures.order_time is not None:
        oldest = duration(now - figures.order_time)
        yield "", f"{_counted(figures.orders, 'order')} not carried out yet, the oldest given {oldest} ago"
    if figures.open or figures.has_tasks or figures.managers:
        yield "jobs", jobs_text(figures)
        if not figures.managers:
            yield "managers", "none has connected yet"
    if figures.sitemaps_held:
        yield "", held_text(figures)
    for manager in figures.managers:
        yield "manager", f"{manager.name} on {manager.host}: {manager_text(manager, now)}"


def held_text(figures: TaskFigures) -> str:
    """What of sitemaps an operator has to confirm; empty: nothing."""
    if not figures.sitemaps_held:
        return ""
    text = f"{number(figures.sitemap_urls_held, 'URL')} of {number(figures.sitemaps_held, 'sitemap')}"
    return f"deletions of {text} HELD: lcc-admin sitemap list, then why and confirm"


def _counted(count: int, what: str) -> str:
    return number(count, what) if count < COUNTED_MAX else f"{count:,} or more {what}s"
