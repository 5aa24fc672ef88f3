"""Jobs: the list, a page for each with its log, and what they did a day and kind."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.domain.wording import utc
from lcc.model.tasks import Job, JobState
from lcc.numbers import parse_number
from lcc.roles.web.pages.orders import JOB_ORDERS, OrderingPage, Told, told
from lcc.roles.web.pages.providers import number
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import is_open
from lcc.storage.tasks.views import JobLogRow, ended_jobs, get_job, job_log, jobs_page, statistics, waiting_jobs
from lcc.storage.tasks.write import DAY_SECONDS
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_JOBS = 50
LOG_ROWS = 500
DAYS, DAYS_MAX = 7, 366
_LATEST = 2**62


WAITING = "waiting"
"""Those to be started, or to be tried again."""
FAILED = "failed"
"""Those that ended with an error, temporary or permanent."""
STATES = (WAITING, *(each.value for each in JobState))


class JobsPage(OrderingPage):
    """``/jobs``: a page of them at a time, the newest first; those in a state, those of a task."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        state, task = query.get("state", ""), number(query.get("task", "0"))
        if state == WAITING:
            await self._waiting(request, query)
            return
        if "day" in query:
            await self._ended(request, query, number(query["day"]))
            return
        if state and state not in {each.value for each in JobState}:
            raise HttpError(400, "There is no such state of jobs.")
        before = number(query["before"]) if "before" in query else _LATEST
        jobs = await self.asked(jobs_page, before, task, (state,) if state else (), "", PAGE_JOBS)
        of_task = f" of task {task}" if task else ""
        self.front.page(
            request,
            "jobs",
            f"Jobs{of_task}: {state}" if state else f"Jobs{of_task}",
            state=state,
            states=STATES,
            task=task,
            jobs=jobs,
            next={"before": jobs[-1].id, "state": state, "task": task} if len(jobs) == PAGE_JOBS else None,
        )

    async def _waiting(self, request: BodyRequest, query: dict[str, str]) -> None:
        due, _, last = query.get("after", "0-0").partition("-")
        jobs = await self.asked(waiting_jobs, (number(due), number(last)), PAGE_JOBS)
        end = f"{jobs[-1].due_time}-{jobs[-1].id}" if len(jobs) == PAGE_JOBS else ""
        self.front.page(
            request,
            "jobs",
            "Jobs: waiting",
            state=WAITING,
            states=STATES,
            task=0,
            jobs=jobs,
            next={"after": end, "state": WAITING} if end else None,
        )

    async def _ended(self, request: BodyRequest, query: dict[str, str], day: int) -> None:
        """Those that ended on a day, as the statistics count them."""
        state, kind = query.get("state", ""), query.get("kind", "")
        states = (JobState.TEMPORARY.value, JobState.PERMANENT.value) if state == FAILED else (state,) * bool(state)
        if state != FAILED and state not in ("", *STATES):
            raise HttpError(400, "There is no such state of jobs.")
        begin = day * DAY_SECONDS
        ended, _, last = query.get("before", "").partition("-")
        span, before = (begin, begin + DAY_SECONDS), (begin + DAY_SECONDS, 0)
        if ended:
            before = number(ended), number(last)
        jobs = await self.asked(ended_jobs, span, before, states, kind, PAGE_JOBS)
        words = " ".join(
            word for word in ("Jobs", f"of kind {kind}" if kind else "", f"that ended on {utc(begin)[:10]}") if word
        )
        end = f"{jobs[-1].ended_time}-{jobs[-1].id}" if len(jobs) == PAGE_JOBS else ""
        self.front.page(
            request,
            "jobs",
            f"{words}: {state}" if state else words,
            state=state,
            states=STATES,
            task=0,
            day=day,
            jobs=jobs,
            next={"day": day, "state": state, "kind": kind, "before": end} if end else None,
        )


@attrs.frozen
class _Seen:
    """What the page of a job shows."""

    job: Job
    log: tuple[JobLogRow, ...]
    told: Told | None


def see_job(txn: Txn, number: int, order: int) -> _Seen | None:
    """All that the page of a job shows; None: there is no such job."""
    job = get_job(txn, number)
    return None if job is None else _Seen(job, tuple(job_log(txn, number, LOG_ROWS)), told(txn, order))


class JobPage(OrderingPage):
    """``/job/N``: a job, its log, what it wrote; try again, end it."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        job_id = self.number_below(request)
        found = await self.asked(see_job, job_id, self.asked_order(request))
        if found is None:
            raise HttpError(404, f"There is no job {job_id}; those that ended are kept for a time.")
        job = found.job
        self.front.page(
            request,
            "job",
            f"Job {job_id}",
            found=found,
            job=job,
            told=found.told,
            waits=is_open(job.state, job.due_time) and job.state is not JobState.RUNNING,
            runs=job.state is JobState.RUNNING,
            log_rows=LOG_ROWS,
        )

    async def post(self, request: BodyRequest) -> None:
        fields, job_id = self.sent(request), self.number_below(request)
        do = fields.get("do", "")
        if do not in JOB_ORDERS:
            raise HttpError(400, "This form is not known here.")
        if await self.asked(get_job, job_id) is None:
            raise HttpError(404, f"There is no job {job_id} any more.")
        session = self.front.session(request)
        why = {"why": f"ended by {session.user.name} in the monitor"} if do == "kill" and session else {}
        self.same_page(request, await self.order(request, f"{do} job", JOB_ORDERS[do], job_id, why))


class StatisticsPage(OrderingPage):
    """``/statistics``: how jobs ended, a day (UTC) and kind."""

    async def get(self, request: BodyRequest) -> None:
        try:
            days = max(1, parse_number(read_query(request).get("days", str(DAYS)), DAYS_MAX))
        except ValueError:
            raise HttpError(400, f"The number of days is 1 to {DAYS_MAX}.") from None
        today = int(self.monitor.now()) // DAY_SECONDS
        rows = await self.asked(statistics, today - days + 1)
        self.front.page(
            request,
            "statistics",
            "Statistics",
            days=days,
            choices=(1, 7, 31, 366),
            rows=list(reversed(rows)),
            day_seconds=DAY_SECONDS,
        )
