"""Items that jobs store, what feeds say of themselves, and the text of pages.

All of it is written within the transaction that records the ending of the job.  Each new or changed item gets the
next number of one counter, in the order of commits: whoever asks for the items since a number misses none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from zope.interface import implementer

from lcc.interfaces import IItemRules, IItemStore
from lcc.model.items import ItemRow, Judged, KnownItem, News, TextRow, read_harvest
from lcc.model.tasks import ItemsStored, JobNotice
from lcc.numbers import INT64_MAX
from lcc.storage.database.table import Table
from lcc.storage.database.tables.key_ranges import provider_of
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import count_items

SEEN_WITHIN_SECONDS = 86400
"""``seen_time`` is written no more often: a document with 500 items, one of them new, is one row and not 500."""
ITEMS = Table(
    "feeditems",
    ["task", "identity"],
    (
        *("task", "identity", "change_number", "digest", "digest_before", "flaps", "link", "published"),
        *("pid", "found_time", "changed_time", "seen_time", "size_bytes", "record"),
    ),
)
_FEEDS = ("task", "policy", "record", "read_time", "changed_time")
_TEXTS = ("urlkey", "md5", "title", "language", "method", "cut", "made_time", "text")
_KNOWN = "SELECT identity, digest, link, digest_before, flaps, found_time, seen_time FROM feeditems"


class _Times(NamedTuple):
    found: int
    seen: int


@implementer(IItemStore)
class ItemStore:
    """See :class:`lcc.interfaces.IItemStore`.

    :param rules: which items are the same, and which are news.
    :param items_max, bytes_max: of one task; what is in its document is kept in any case; 0: no limit.
    """

    def __init__(self, rules: IItemRules, items_max: int = 0, bytes_max: int = 0) -> None:
        self._rules = rules
        self._items_max = items_max or INT64_MAX
        self._bytes_max = bytes_max or INT64_MAX

    def store(
        self, txn: Txn, task: int, job: int, page: str, items: Sequence[str], now: int, listed: bool = False
    ) -> ItemsStored:
        """As :meth:`lcc.interfaces.IItemStore.store`."""
        harvest = read_harvest(items)
        for text in harvest.texts:
            if text.key.hex() != page:
                raise ValueError(f"the text of page {text.key.hex()}: a job may store that of its own page only")
        judged, times = self._judged(txn, task, harvest.items)
        new = [each for each in judged if each.news is News.NEW]
        changed = [each for each in judged if each.news is News.CHANGED]
        pid = provider_of(bytes.fromhex(page)) if page else 0
        _write_items(txn, task, pid, [*new, *changed], times, now)
        _keep_up(txn, task, [each for each in judged if each.news is News.UNCHANGED], times, now)
        removed = self._remove_oldest(txn, task, {each.row.identity for each in judged}) if new or changed else 0
        if harvest.feed:
            _write_feed(txn, task, harvest.policy, harvest.feed, bool(new or changed), now)
        _write_texts(txn, harvest.texts, now)
        # Where the site itself says so, what has changed is fetched again; a hint only fetches what is not there.
        noticed = [*new, *changed] if listed else new
        urls = dict.fromkeys(each.row.permalink for each in noticed if each.row.permalink)
        notices = tuple(JobNotice(url, "listed" if listed else "feed") for url in urls)
        warning = ""
        if removed:
            warning = (
                f"removed {removed:,} items that were not in this document, those first that were not seen for the"
                f" longest time: no more are kept of a task ([scheduler] items_max, items_bytes_max);"
                f" {len(new):,} of the {len(judged):,} items of this document were new"
            )
        return ItemsStored(len(new), len(changed), notices, None, harvest.robots, warning)

    def _remove_oldest(self, txn: Txn, task: int, named: Collection[bytes]) -> int:
        """Of what a task has too many of; how many that were.

        :param named: what its document has now.
        """
        if not task:
            return 0  # jobs of no task have nothing in common
        count, size = count_items(txn, task)
        if count <= self._items_max and size <= self._bytes_max:
            return 0
        looked = count if size > self._bytes_max else count - self._items_max + len(named)
        sql = "SELECT identity, size_bytes FROM feeditems WHERE task = ? ORDER BY seen_time, change_number LIMIT ?"
        removed: list[bytes] = []
        for identity, size_bytes in txn.query(sql, [task, looked]):
            if count <= self._items_max and size <= self._bytes_max:
                break
            if bytes(identity) not in named:
                removed.append(bytes(identity))
                count -= 1
                size -= size_bytes
        txn.execute_in("DELETE FROM feeditems WHERE task = ? AND identity IN ({in})", removed, [task])
        return len(removed)

    def _judged(self, txn: Txn, task: int, rows: Sequence[ItemRow]) -> tuple[list[Judged], dict[bytes, _Times]]:
        times: dict[bytes, _Times] = {}

        def found(column: str, values: Sequence[bytes]) -> list[KnownItem]:
            sql = f"{_KNOWN} WHERE task = ? AND {column} IN ({{in}})"
            known = []
            for identity, digest, link, before, flaps, found_time, seen_time in txn.query_in(sql, values, [task]):
                times[bytes(identity)] = _Times(found_time, seen_time)
                known.append(KnownItem(bytes(identity), bytes(digest), bytes(link or b""), bytes(before), flaps))
            return known

        known = {each.identity: each for each in found("identity", [row.identity for row in rows])}
        linked = found("link", self._rules.unknown_links(rows, known))
        return self._rules.judge(rows, known, linked), times


def _write_items(
    txn: Txn, task: int, pid: int, judged: Sequence[Judged], times: dict[bytes, _Times], now: int
) -> None:
    if not judged:
        return
    _forget_renamed(txn, task, judged)
    txn.execute("UPDATE schedulerfence SET value = value + ? WHERE name = 'item'", [len(judged)])
    number = txn.value("SELECT value FROM schedulerfence WHERE name = 'item'") - len(judged)
    rows = []
    for at, (row, _, known, flaps) in enumerate(judged, 1):
        before = b"" if known is None else known.digest
        found = now if known is None else times[known.identity].found
        mine = (task, row.identity, number + at, row.digest, before, flaps, row.link or None, row.published)
        rows.append((*mine, pid, found, now, now, len(row.record.encode("utf-8", "replace")), row.record))
    ITEMS.upsert(txn, rows)


def _forget_renamed(txn: Txn, task: int, judged: Sequence[Judged]) -> None:
    renamed = [each.known.identity for each in judged if each.known and each.known.identity != each.row.identity]
    txn.execute_in("DELETE FROM feeditems WHERE task = ? AND identity IN ({in})", renamed, [task])


def _keep_up(txn: Txn, task: int, judged: Sequence[Judged], times: dict[bytes, _Times], now: int) -> None:
    """Unchanged items were seen; some have another id."""
    stale = []
    for row, _, known, _ in judged:
        assert known is not None
        if known.identity != row.identity:
            values = [row.identity, now, task, known.identity]
            txn.execute("UPDATE feeditems SET identity = ?, seen_time = ? WHERE task = ? AND identity = ?", values)
        elif times[known.identity].seen <= now - SEEN_WITHIN_SECONDS:
            stale.append(row.identity)
    sql = "UPDATE feeditems SET seen_time = ? WHERE task = ? AND identity IN ({in})"
    txn.execute_in(sql, stale, [now, task])


def _write_feed(txn: Txn, task: int, policy: str, record: str, news: bool, now: int) -> None:
    """The policy that was decided first is kept."""
    columns = ["record", "read_time", *(["changed_time"] if news else [])]
    txn.upsert("feeds", _FEEDS, [(task, policy, record, now, now if news else 0)], ["task"], columns)
    if policy:
        txn.execute("UPDATE feeds SET policy = ? WHERE task = ? AND policy = ''", [policy, task])


def _write_texts(txn: Txn, texts: Sequence[TextRow], now: int) -> None:
    rows = []
    for key, md5, text in texts:
        rows.append((key, md5, text.title, text.language, text.method, int(text.cut), now, text.text))
    txn.upsert("texts", _TEXTS, rows, ["urlkey"])
