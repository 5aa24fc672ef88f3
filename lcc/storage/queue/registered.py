"""What the queue needs of the providers whose sets and rows it handles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from lcc.model import Quota
from lcc.storage.database.transactions import Question, Txn


@attrs.frozen
class Registered:
    """A registered provider, as far as the queue needs it."""

    priority: int
    quota: Quota
    hours: str
    timezone: str
    roots: tuple[str, ...]

    @property
    def has_quota(self) -> bool:
        """Whether any quota is set."""
        return self.quota != (None, None)


_SELECT_REGISTERED = (
    "SELECT p.pid, priority, filesmax, spacemax, timeofday, timezone, root FROM pidb p"
    " LEFT JOIN proots r ON r.pid = p.pid WHERE removed = 0 AND p.pid IN ({in})"
)


def registered_question(pids: Iterable[int]) -> Question:
    """The query for :func:`registered_in`."""
    return Question(_SELECT_REGISTERED, sorted(pids))


def registered_in(rows: Iterable[tuple[Any, ...]]) -> dict[int, Registered]:
    """The providers in the answer to :func:`registered_question`."""
    roots: dict[tuple[Any, ...], list[str]] = {}
    for *row, root in rows:
        roots.setdefault(tuple(row), []).extend([] if root is None else [root])
    return {
        pid: Registered(priority, Quota(files, space), hours, timezone, tuple(found))
        for (pid, priority, files, space, hours, timezone), found in roots.items()
    }


def registered_providers(txn: Txn, pids: Iterable[int]) -> dict[int, Registered]:
    """Those of these providers that are registered and not being removed."""
    return registered_in(*txn.query_several([registered_question(pids)]))
