"""Tasks: when they are due, and what becomes of what their jobs collect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from zope.interface import Interface

from lcc.model.items import ItemRow, Judged, KnownItem
from lcc.model.tasks import ItemsStored, When


class ITaskRules(Interface):
    """When tasks and jobs are due, used by the store (pure: :class:`lcc.domain.tasks.rules.TaskRules`)."""

    def first_due(when: When, now: float) -> int:
        """When the first job of a task is due that is added, or resumed, now.  Raises ValueError: never."""

    def next_due(when: When, task: int, started_time: float, due_time: float, first: bool) -> int:
        """When the next job of a task is due.  Raises ValueError: never.

        :param started_time, due_time: of its last job.
        :param first: that was its first one."""

    def due_by(when: When, task: int, started_time: float | None, now: float) -> int:
        """When the next job of a task that waits is due at the latest, whatever the wall clock has shown before.
        Raises ValueError: never.

        :param started_time: of its last job; None: there was none."""

    def robots_allow(rules: str, allow: str, url: str) -> bool:
        """Whether a robots.txt allows a URL (:func:`lcc.domain.fetches.robots_rules.is_allowed`)."""

    def robots_delay(rules: str) -> float:
        """The seconds between fetches that a robots.txt asks for
        (:func:`lcc.domain.fetches.robots_rules.crawl_delay_seconds`)."""

    def robots_hours(rules: str) -> str:
        """The hours, in UTC, in which a robots.txt wants visits; empty: any
        (:func:`lcc.domain.fetches.robots_rules.visit_hours`)."""

    def robots_in_place(status: int) -> str:
        """What an error allows in place of robots.txt (:func:`lcc.domain.fetches.robots_rules.allow_for`)."""

    def is_mass_deletion(count: int, listed: int) -> bool:
        """Whether so many URLs are too many to go at once from what a sitemap has listed
        (:func:`lcc.domain.notices.deletions.is_mass_deletion`)."""

    def retry_due(job: int, attempt: int, now: float, before: float | None, wish_seconds: int | None) -> int | None:
        """When a job is tried again that has failed in passing, or was lost; None: never.

        :param attempt: that has failed, from 1.
        :param before: when the next job of its task is due; None: it is of none.
        :param wish_seconds: the delay that it asks for."""

    def next_poll(due_time: int, skip_hours: Collection[int], skip_days: Collection[int]) -> int:
        """When to poll what is due then, and not to be polled in these hours (UTC) and on these days (0: Monday)."""

    def next_period(
        history: str,
        news: bool,
        interval_seconds: int,
        period_seconds: int,
        least_seconds: int,
        most_seconds: int,
        asked_seconds: int,
    ) -> tuple[str, int]:
        """History and period of what is polled, after a poll.

        :param history: of the last polls, as this has given it; empty: none.
        :param interval_seconds: since the poll before.
        :param asked_seconds: what the source itself asks for at least; 0: nothing."""


class IItemRules(Interface):
    """Which items are the same, and which are news (pure: :class:`lcc.domain.tasks.items.ItemRules`)."""

    def unknown_links(rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem]) -> list[bytes]:
        """The links by which rows without a known identity may be known.

        :param known: by identity."""

    def judge(rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem], linked: Iterable[KnownItem]) -> list[Judged]:
        """What each item of a document is.

        :param rows: with different identities.
        :param known: what is stored of these identities.
        :param linked: what is stored with one of :meth:`unknown_links`."""


class IItemStore(Interface):
    """Stores what jobs collect."""

    def store(
        txn: Any, task: int, job: int, page: str, items: Sequence[str], now: int, listed: bool = False
    ) -> ItemsStored:
        """Store items, within the transaction that records the ending of their job.  It may be run again.

        :param page: key of the page that the job was given, whose text it may store; empty: it was given none.
        :param items: JSON objects, as the worker has written them.
        :param listed: they are the own word of their site, and so are the notices of their pages.
        Raises ValueError: they make no sense; in words for the job's owner.  Nothing of the job takes effect."""
