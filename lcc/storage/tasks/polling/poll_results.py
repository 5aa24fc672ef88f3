"""What became of polls, read from the tables of the queue manager: never written here.

What was fetched for a poll is known by its *generation*: what the queue takes in after the poll has begun has a
greater one than all before it.  Times would not do: those in these tables are by the clock of another host perhaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from lcc.model.headers import header_pairs
from lcc.model.polled import PolledContent
from lcc.model.sources import Source
from lcc.numbers import INT64_MAX, parse_number
from lcc.storage.database.tables.key_ranges import all_views_key, views_range
from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.tables.status import newest_generation
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.watched import providers_of
from lcc.storage.tasks.polling.change_ranges import range_end

_COLUMNS = (
    *("urlkey", "state", "change_number", "md5", "len", "mimetype", "charset", "generation"),
    *("fetched_machineid", "fetched_fileid", "curl", "headers", "fetched_url", "moved_url"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM lccurl"
_VIEWS = "urlkey >= ? AND urlkey <= ?"
_ROWS_MAX = 1_000_000
"""Far more than the pages of a round have views."""
_POLLED = int(Source.POLLED)
_MAX_AGE = re.compile(r"(?i)(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,10})(?![0-9])").search
PAGES = "lccurl"
CHANGES_AT_ONCE = 5000


class Page(NamedTuple):
    """The newest view of a page in the cache.

    :ivar change: number of its last change.
    :ivar generation: for which it was last fetched, or found unchanged; 0: never.
    :ivar has_content: its content is there.
    :ivar moved: where permanent redirects led; empty: there were none.
    :ivar row: of it, which is looked into only where there is news.
    """

    key: bytes
    cached: bool
    change: int
    generation: int
    has_content: bool
    moved: str
    row: tuple[Any, ...]

    @property
    def content(self) -> PolledContent:
        """For a worker; only if :attr:`has_content`."""
        fields = dict(zip(_COLUMNS, self.row, strict=True))
        mimetype, charset = fields["mimetype"], fields["charset"]
        pairs = self._headers()
        return PolledContent(
            url=fields["curl"],
            machine=fields["fetched_machineid"],
            file=fields["fetched_fileid"],
            size_bytes=fields["len"] or 0,
            md5=fields["md5"],
            key=self.key.hex(),
            base=fields["fetched_url"] or "",
            content_type=dict(pairs).get("content-type", f"{mimetype}; charset={charset}" if charset else mimetype),
            max_age=self.max_age,
            links="\n".join(value for name, value in pairs if name == "link"),
        )

    @property
    def max_age(self) -> int:
        """So many seconds it may be kept, as its server said; 0: it did not."""
        said = _MAX_AGE(dict(self._headers()).get("cache-control", ""))
        return parse_number(said[1], INT64_MAX) if said else 0

    def _headers(self) -> list[tuple[str, str]]:
        return [(name.lower(), value) for name, value in header_pairs(self.row[_COLUMNS.index("headers")])]


class Fault(NamedTuple):
    """An error of a fetch.

    :ivar generation: for which it was fetched.
    """

    code: int
    text: str
    generation: int


class Results(NamedTuple):
    """What is known of some pages, each by its key for all mime types.

    :ivar queued: that wait to be fetched.
    """

    pages: dict[bytes, Page]
    queued: set[bytes]


class PolledPage(NamedTuple):
    """The page of a poll, of which something is to be known.

    :ivar url: normalised, where it is to be seen whose it is now; empty: ``key`` says it.
    :ivar pid: whose it was; 0: nobody's yet.
    :ivar key: for all mime types; empty: not known yet.
    :ivar after: what was fetched for its open poll has a greater generation; None: none is open.
    """

    url: str
    pid: int
    key: bytes
    after: int | None


class PollRound(NamedTuple):
    """What is known of the pages of polls, all at one time.

    :ivar change: number of the cache's last change.
    :ivar generation: the greatest of the queue, from before all else was read.
    :ivar owners: whose the URLs are; those of nobody are left out.
    :ivar removed: providers that were removed, of those whose pages are nobody's now.
    :ivar faults: errors of those that were not seen since they were asked for.
    """

    change: int
    generation: int
    owners: dict[str, int]
    removed: set[int]
    results: Results
    faults: dict[bytes, Fault]


def _page(row: tuple[Any, ...]) -> Page:
    key, state, change, _, _, _, _, generation, machine, file, _, _, _, moved = row
    cached = state == CACHED
    there = cached and machine is not None and file is not None
    return Page(bytes(key), cached, change, generation, there, moved or "", row)


def read_round(txn: Txn, polls: Sequence[PolledPage], key_of: Callable[[int, str], bytes]) -> PollRound:
    """What is known of the pages of these polls.

    :param key_of: the key of a provider's URL, for all mime types.
    """
    generation, change = newest_generation(txn), last_change(txn)
    owners = providers_of(txn, {each.url for each in polls if each.url})
    removed = removed_among(txn, {each.pid for each in polls if each.url and each.url not in owners} - {0})
    pages = [
        (key_of(owners[each.url], each.url) if each.url else each.key, each.after)
        for each in polls
        if not each.url or each.url in owners
    ]
    results = read_results(txn, sorted({key for key, _ in pages}))
    return PollRound(change, generation, owners, removed, results, read_faults(txn, results, pages))


def read_results(txn: Txn, keys: Sequence[bytes]) -> Results:
    """What is known of these pages.

    :param keys: for all mime types.
    """
    ranges = [views_range(key) for key in keys]
    pages: dict[bytes, Page] = {}
    for row in txn.query_ranges(_SELECT, _VIEWS, ranges, "urlkey", _ROWS_MAX):
        page = _page(row)
        known = pages.get(all_views_key(page.key))
        if known is None or (page.cached, page.generation) > (known.cached, known.generation):
            pages[all_views_key(page.key)] = page
    queued = txn.query_ranges("SELECT urlkey FROM qdb", f"{_VIEWS} AND operation = 1", ranges, "urlkey", _ROWS_MAX)
    return Results(pages, {all_views_key(bytes(key)) for (key,) in queued})


def read_faults(txn: Txn, results: Results, asked: Sequence[tuple[bytes, int | None]]) -> dict[bytes, Fault]:
    """The last error of each of these pages since it was asked for, of those that were not seen since.

    :param asked: key for all mime types, and :attr:`PolledPage.after`.
    """
    upto: dict[bytes, int] = {}
    for key, after in asked:
        page = results.pages.get(key)
        if after is not None and key not in results.queued and not (page and page.cached and page.generation > after):
            upto[key] = after
    sql = "SELECT urlkey, code, message, generation FROM urlerrs"
    faults: dict[bytes, Fault] = {}
    ranges = [views_range(key) for key in sorted(upto)]
    for key, number, text, generation in txn.query_ranges(sql, _VIEWS, ranges, "urlkey", _ROWS_MAX):
        page_key = all_views_key(bytes(key))
        if generation > max(upto[page_key], faults[page_key].generation if page_key in faults else 0):
            faults[page_key] = Fault(number, text, generation)
    return faults


def last_change(txn: Txn) -> int:
    """The number of the cache's last change."""
    return int(txn.value("SELECT MAX(change_number) FROM lccurl", [], 0))


def changed_pages(txn: Txn, after: int, last: int) -> tuple[int, list[Page]]:
    """Polled pages whose last change has a number behind ``after``, in order; and the number up to which these are
    all of them.

    :param last: of the last change.
    """
    upto = last if last - after <= CHANGES_AT_ONCE else range_end(txn, PAGES, after, last, CHANGES_AT_ONCE)
    sql = (
        f"{_SELECT} WHERE change_number > ? AND change_number <= ? AND (source & {_POLLED}) <> 0"
        " ORDER BY change_number"
    )
    return upto, [_page(row) for row in txn.query(sql, [after, upto])]


def watched_roots(txn: Txn, after: int, limit: int) -> list[tuple[int, str]]:
    """Roots of watched providers with greater ids, in order of these; such a provider has one root."""
    sql = (
        "SELECT r.pid, r.root FROM proots r JOIN pidb p ON p.pid = r.pid"
        " WHERE r.pid > ? AND p.watched = 1 AND p.removed = 0 ORDER BY r.pid LIMIT ?"
    )
    return [(pid, root) for pid, root in txn.query(sql, [after, limit])]


def removed_among(txn: Txn, pids: Collection[int]) -> set[int]:
    """Those of these providers that were removed."""
    return {pid for (pid,) in txn.query_in("SELECT pid FROM pidb WHERE pid IN ({in}) AND removed <> 0", sorted(pids))}
