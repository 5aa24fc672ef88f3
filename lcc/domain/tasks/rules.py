"""The rules of tasks, for the store."""

from __future__ import annotations

from collections.abc import Collection

from zope.interface import implementer

from lcc.domain.fetches.robots_rules import allow_for, crawl_delay_seconds, is_allowed, visit_hours
from lcc.domain.notices.deletions import is_mass_deletion
from lcc.domain.tasks.autoperiod import Poll, next_period, next_poll, polls_with, read_polls, write_polls
from lcc.domain.tasks.due import JobRetries, due_by, first_due, next_due
from lcc.interfaces import ITaskRules
from lcc.model.tasks import When


@implementer(ITaskRules)
class TaskRules:
    """See :class:`lcc.interfaces.ITaskRules`.

    :param mass_deletion_share, mass_deletion_floor: :func:`lcc.domain.notices.deletions.is_mass_deletion`.
    :param slot_seconds: length of a slot of hours.
    """

    def __init__(
        self,
        retries: JobRetries | None = None,
        mass_deletion_share: float = 0.5,
        mass_deletion_floor: int = 100,
        slot_seconds: int = 3600,
    ) -> None:
        self._slot_seconds = slot_seconds
        self._retries = retries or JobRetries()
        self._deletions = mass_deletion_share, mass_deletion_floor

    def first_due(self, when: When, now: float) -> int:
        return first_due(when, now)

    def next_due(self, when: When, task: int, started_time: float, due_time: float, first: bool) -> int:
        return next_due(when, task, started_time, due_time, first)

    def due_by(self, when: When, task: int, started_time: float | None, now: float) -> int:
        return due_by(when, task, started_time, now)

    def robots_allow(self, rules: str, allow: str, url: str) -> bool:
        return is_allowed(rules, allow, url)

    def robots_delay(self, rules: str) -> float:
        return crawl_delay_seconds(rules)

    def robots_hours(self, rules: str) -> str:
        return visit_hours(rules, self._slot_seconds)

    def robots_in_place(self, status: int) -> str:
        return allow_for(status)

    def is_mass_deletion(self, count: int, listed: int) -> bool:
        return is_mass_deletion(count, listed, *self._deletions)

    def retry_due(
        self, job: int, attempt: int, now: float, before: float | None, wish_seconds: int | None
    ) -> int | None:
        return self._retries.due(job, attempt, now, before, wish_seconds)

    def next_poll(self, due_time: int, skip_hours: Collection[int], skip_days: Collection[int]) -> int:
        try:
            return next_poll(due_time, skip_hours, skip_days)
        except (ValueError, OverflowError):
            return due_time  # beyond the last year of the calendar

    def next_period(
        self,
        history: str,
        news: bool,
        interval_seconds: int,
        period_seconds: int,
        least_seconds: int,
        most_seconds: int,
        asked_seconds: int,
    ) -> tuple[str, int]:
        polls = polls_with(read_polls(history), Poll(interval_seconds, news))
        period = next_period(period_seconds, polls, least_seconds, most_seconds, asked_seconds)
        return write_polls(polls), period
