"""Notices of jobs on their way to the UNS: rows of ``tasknotices``, in the transaction that makes them, until they
are accepted.

A row is a set of one provider and one source, with a number of its own: told again after a crash, it is applied once.
Whose the URLs are is known when they are told (:mod:`lcc.roles.scheduler.notices`), but for the site's own words:
these are the provider's whose document has named them, and no other one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from lcc.model.tasks import NOBODY, Asking, JobNotice
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.write import TaskWrite

URLS_MAX = 500
"""Of one set."""
_COLUMNS = ("number", "pid", "root", "source", "connorder", "urls", "job", "time")
OUTBOX_SINCE = "SELECT time FROM tasknotices ORDER BY number LIMIT 1"
"""When the set was made that waits longest for its answer."""


class OutboxSet(NamedTuple):
    """A set that has no answer yet.

    :ivar pid: 0: not known yet: that of ``root`` is to be asked for.
    :ivar order: order number of the asking; 0: these are not the site's own words.
    :ivar urls: attributes of each ``<url>``.
    """

    number: int
    pid: int
    root: str
    source: str
    order: int
    urls: tuple[Mapping[str, str], ...]
    job: int


def root_of(url: str) -> str:
    """The root of the site of a URL.

    :raises ValueError: it has none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url[:80]!r} is no http or https URL")
    return f"{parts.scheme}://{parts.netloc.lower()}/"


def _attributes(notice: JobNotice) -> dict[str, str]:
    found = {"c": notice.url}
    if notice.mimetype:
        found["m"] = notice.mimetype
    if notice.mtime:
        found["mtime"] = notice.mtime
    if notice.op != "update":
        found["op"] = notice.op
    return found


def add_notices(write: TaskWrite, notices: Iterable[JobNotice], asking: Asking, job: int) -> None:
    """Put these into the outbox, those of one site and source together.

    :param asking: whose own words those with the source ``listed`` are.
    """
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for notice in notices:
        groups.setdefault((root_of(notice.url), notice.source), []).append(_attributes(notice))
    for (root, source), urls in groups.items():
        speaker = asking if source == "listed" else NOBODY
        for start in range(0, len(urls), URLS_MAX):
            add_set(write, speaker, root, source, urls[start : start + URLS_MAX], job)


def add_set(
    write: TaskWrite, asking: Asking, root: str, source: str, urls: Sequence[Mapping[str, str]], job: int
) -> None:
    """One set."""
    row = (write.next("notice"), asking.pid, root, source, asking.order, _json(urls), job, write.now)
    write.txn.insert("tasknotices", _COLUMNS, [row])


def add_polls(write: TaskWrite, polls: Iterable[tuple[int, str, str]]) -> list[OutboxSet]:
    """A set for each of these polls: provider, root and URL."""
    sets = [OutboxSet(write.next("notice"), pid, root, "polled", 0, ({"c": url},), 0) for pid, root, url in polls]
    rows = [(*each[:5], _json(each.urls), each.job, write.now) for each in sets]
    write.txn.insert("tasknotices", _COLUMNS, rows)
    return sets


def _json(urls: Sequence[Mapping[str, str]]) -> str:
    return json.dumps(list(urls), separators=(",", ":"), ensure_ascii=False)


def outbox(txn: Txn, after: int, limit: int) -> list[OutboxSet]:
    """The sets with greater numbers, in order."""
    sql = (
        "SELECT number, pid, root, source, connorder, urls, job FROM tasknotices WHERE number > ?"
        " ORDER BY number LIMIT ?"
    )
    return [OutboxSet._make((*row[:5], tuple(json.loads(row[5])), row[6])) for row in txn.query(sql, [after, limit])]


def part_set(write: TaskWrite, number: int, parts: Sequence[Sequence[Mapping[str, str]]]) -> None:
    """In the place of this set come several, which have its URLs."""
    row = write.txn.one("SELECT root, source, job FROM tasknotices WHERE number = ?", [number])
    if row is None:
        return  # this was done before
    root, source, job = row
    for urls in parts:
        add_set(write, NOBODY, root, source, urls, job)
    write.txn.execute("DELETE FROM tasknotices WHERE number = ?", [number])


def outbox_since(txn: Txn) -> int | None:
    """When the set was made that waits longest for its answer; None: none waits."""
    found = txn.one(OUTBOX_SINCE)
    return None if found is None else int(found[0])


class Answer(NamedTuple):
    """What the UNS has answered to a set.

    :ivar refused: what of it is refused, in words; empty: nothing.
    :ivar again: it is to be told once more, to the provider that its root has now.
    """

    number: int
    refused: str = ""
    again: bool = False


def answer_sets(write: TaskWrite, answers: Sequence[Answer]) -> None:
    """These were answered; what is refused stands in the logs of their jobs."""
    sql = "SELECT number, root, source, urls, job FROM tasknotices WHERE number IN ({in})"
    unusual = [answer.number for answer in answers if answer.again or answer.refused]
    rows = {row[0]: row[1:] for row in write.txn.query_in(sql, unusual)}
    for answer in answers:
        if answer.number not in rows:
            continue  # it is accepted, or this was done before
        root, source, urls, job = rows[answer.number]
        if answer.again:
            add_set(write, NOBODY, root, source, json.loads(urls), job)
        else:
            write.tell(job, "error", answer.refused)
    write.txn.execute_in("DELETE FROM tasknotices WHERE number IN ({in})", [answer.number for answer in answers])
