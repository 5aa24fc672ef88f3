"""Random histories of one provider, step by step against a plain dictionary: order, views, quotas, hours, full sets.

The dictionary knows nothing of pages, generations, marks or counters; after each step the store must show the same
queue in the same order, the same cache, the same errors.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.config import QmConfig
from lcc.domain.fetches.retries import delay_seconds
from lcc.errors import code
from lcc.model import FETCH_NOW, FetchResult, QueueRow, UrlNotice, retry_slot, retry_time
from lcc.storage.providers.providers import change_provider, get_provider, provider_status
from lcc.storage.queue.intake import sweep
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

PATHS = "abcdefgh"
VIEWS = ("text/html", "text/xml")
HOURS = ("", "", "", "3", "4-5", "0-23")
NOON = 12 * 3600
ATTEMPTS_MAX = QmConfig().attempts_max
FETCHED = 20

View = tuple[str, str]
SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@attrs.define
class Queued:
    """What waits."""

    told: UrlNotice
    place: tuple[int, int]
    slot: int
    fetch: bool = True
    attempts: int = 0


class Model:
    """A provider, as the specification has it.

    :ivar changed: what content users were told of.
    """

    def __init__(self, files_max: int | None, space_max: int | None) -> None:
        self.files_max, self.space_max = files_max, space_max
        self.queue: dict[View, Queued] = {}
        self.cache: dict[View, tuple[int, tuple[Any, ...]]] = {}
        self.names: dict[View, UrlNotice] = {}
        self.changed: set[View] = set()
        self._shown: dict[View, tuple[Any, ...]] = {}
        self.errors: list[tuple[int, str]] = []
        self.new: set[View] = set()
        self.waiting: set[View] = set()
        self.sets = 0
        self.behind = 1000

    def take_set(self, told: list[UrlNotice], full: bool, batch: int) -> None:
        """
        :param batch: so many elements are absorbed together: what comes and goes within them never was queued.
        """
        self.sets += 1
        named: set[View] = set()
        for seq, one in enumerate(told, 1):
            if (seq - 1) % batch == 0:
                self.committed()
                self.new.clear()
                self.waiting = {view for view, queued in self.queue.items() if queued.slot != FETCH_NOW}
            if one.mimetype:
                named.add((one.curl, one.mimetype))
                self._take((one.curl, one.mimetype), one, (self.sets, seq), full)
                continue
            for view in [view for view in {**self.queue, **self.cache} if view[0] == one.curl]:
                named.add(view)
                self._delete(view)
        self.committed()
        self.new.clear()
        if full:
            for view in [view for view in {**self.queue, **self.cache} if view not in named]:
                self._delete(view)
        self.committed()

    def committed(self) -> None:
        """Content users see what there is now."""
        shown = {}
        for view, (size, _) in self.cache.items():
            told = self.names[view]
            shown[view] = size, told.furl or told.curl, told.burl, told.subtype
        self.changed |= {
            view for view in shown.keys() | self._shown.keys() if shown.get(view) != self._shown.get(view)
        }
        self._shown = shown

    def _delete(self, view: View) -> None:
        self.cache.pop(view, None)
        self._do_nothing(view)

    def _do_nothing(self, view: View) -> None:
        if view in self.new:
            self.new.remove(view)
            del self.queue[view]
        elif view in self.queue:
            self.queue[view].fetch = False

    def _take(self, view: View, told: UrlNotice, place: tuple[int, int], full: bool) -> None:
        queued = self.queue.get(view)
        waits = queued is not None and queued.fetch
        if told.delete:
            self._delete(view)
        elif told.ifabsent and (view in self.cache or (queued is not None and queued.fetch)):
            pass
        elif queued is None and self._is_unchanged(view, told):
            self.names[view] = told
        elif refused := self._no_room(view, told.length, waits, place[1] if full else None):
            self.errors.append((refused, told.furl or told.curl))
            self._do_nothing(view)
        elif queued is None:
            self.queue[view] = Queued(told, place, _slot(told.hours))
            self.new.add(view)
        else:
            queued.told, queued.fetch, queued.attempts = told, True, 0
            if view in self.waiting or view in self.new:
                queued.slot = _slot(told.hours)

    def _is_unchanged(self, view: View, told: UrlNotice) -> bool:
        if view not in self.cache or not told.md5 or told.length is None:
            return False
        return self.cache[view][1] == _told(told) and self.names[view].furl == told.furl

    def _no_room(self, view: View, length: int | None, waits: bool, place_in_full_set: int | None) -> int:
        promised = {other: size for other, (size, _) in self.cache.items() if other != view}
        for other, queued in self.queue.items():
            if queued.fetch and other != view and other not in self.cache:
                promised[other] = queued.told.length or 0
        files, space = len(promised), sum(promised.values())
        if place_in_full_set is not None:
            files, space = min(files, place_in_full_set - 1), 0
        return self._refused(view not in self.cache and not waits, files, space, length)

    def _refused(self, new: bool, files: int, space: int, length: int | None) -> int:
        if self.files_max is not None and new and files >= self.files_max:
            return code("quota-files")
        if self.space_max is None:
            return 0
        if length is None:
            return code("quota-space") if new and space >= self.space_max else 0
        return code("quota-space") if length and space + length > self.space_max else 0

    def fetched(self, view: View, key: bytes, error: int, size: int) -> None:
        queued = self.queue[view]
        if not queued.fetch:
            del self.queue[view]
        elif error == 503:
            queued.attempts += 1
            self.behind += 1
            queued.place = (queued.place[0], self.behind)
            queued.slot = retry_slot(FETCHED + delay_seconds(queued.attempts, key, 60.0, 3600.0))
            if queued.attempts == ATTEMPTS_MAX:
                self._ended(view, error)
        elif error:
            if error == 404:
                self.cache.pop(view, None)
            self._ended(view, error)
        else:
            new = view not in self.cache
            others = sum(kept for other, (kept, _) in self.cache.items() if other != view)
            same = not new and self.cache[view][0] == size
            refused = 0 if same else self._refused(new, len(self.cache), others, size)
            if refused:
                self._ended(view, refused)
            else:
                self.cache[view] = (size, _told(queued.told))
                self.names[view] = queued.told
                del self.queue[view]

    def _ended(self, view: View, error: int) -> None:
        told = self.queue.pop(view).told
        self.errors.append((error, told.furl or told.curl))

    def open_slot(self, slot: int) -> None:
        for queued in self.queue.values():
            if queued.slot == slot:
                queued.slot = FETCH_NOW

    def open_retries(self, now: int) -> None:
        for queued in self.queue.values():
            if queued.slot < FETCH_NOW and retry_time(queued.slot) <= now:
                queued.slot = FETCH_NOW

    def order(self) -> list[tuple[View, int, bool]]:
        found = sorted(self.queue.items(), key=lambda item: item[1].place)
        return [(view, queued.slot, queued.fetch) for view, queued in found]


def _told(told: UrlNotice) -> tuple[Any, ...]:
    return told.md5, told.length, told.mtime


def _names(told: UrlNotice) -> tuple[str, ...]:
    return told.furl, told.burl, told.subtype, told.hours


def _slot(hours: str) -> int:
    return {"": FETCH_NOW, "0-23": FETCH_NOW, "3": 3, "4-5": 4}[hours]


class Walk:
    """One random history."""

    def __init__(self, queue: Queue, random: Random) -> None:
        self.queue, self.random = queue, random
        self.limits = (random.choice((None, 2, 4, 7)), random.choice((None, 6, 12)))
        self.model = Model(*self.limits)
        queue.pid = queue.add_provider()
        provider = queue.database.now(get_provider, queue.pid)
        assert provider is not None
        limited = attrs.evolve(provider, files_max=self.limits[0], space_max_bytes=self.limits[1])
        queue.database.now(change_provider, limited)
        self.connseq = 0
        self.changes: dict[View, int] = {}
        self.past: list[UrlNotice] = []

    def told(self) -> UrlNotice:
        random, path = self.random, self.random.choice(PATHS)
        names = {name: random.choice(("", "", "", "1")) for name in ("burl", "subtype")}
        names["furl"] = random.choice(("", "", "", "http://site/1"))
        if self.past and random.random() < 0.3:
            return random.choice(self.past)._replace(hours=random.choice(HOURS), **names)
        kind = random.random()
        if kind < 0.2:
            return notice(path, mimetype=random.choice((*VIEWS, "")), delete=True)
        told: dict[str, Any] = {"mimetype": random.choice(VIEWS), "hours": random.choice(HOURS)}
        if random.random() < 0.5:
            told["length"] = random.randint(0, 7)
        told |= names
        if kind < 0.3:
            return notice(path, ifabsent=True, **told)
        self.past.append(notice(path, random.choice(("", "1", "2")), **told))
        return self.past[-1]

    def send(self) -> None:
        told = [self.told() for _ in range(self.random.randint(0, 8))]
        full = self.random.random() < 0.3
        self.connseq += 1
        header = self.queue.header(self.connseq, full=full)
        size = self.random.choice((1, 3, 100))
        pieces = self.queue.pieces(header, told, size)
        if self.random.random() < 0.5:
            for piece in pieces:
                self.queue.absorb([piece], NOON)
        else:
            size = 100
            self.queue.absorb(pieces, NOON)
        self.model.take_set(told, full, size)

    def fetch(self) -> None:
        rows = self.queue.rows()
        if not rows:
            return
        chosen = self.random.sample(rows, self.random.randint(1, min(3, len(rows))))
        results: list[FetchResult] = []
        for row in chosen:
            error = self.random.choice((0, 0, 0, 403, 404, 503, 503))
            size = self.random.randint(0, 7)
            if row.delete:
                continue
            results.append(self.queue.failed(row, error) if error else self.queue.fetched(row, "x" * size))
            self.model.fetched(_view(row), row.key, error, size)
        removed = [(row.key, row.generation) for row in chosen if row.delete]
        for row in chosen:
            if row.delete:
                self.model.fetched(_view(row), row.key, 0, 0)
        self.model.committed()
        self.queue.record(*results, removed=removed)

    def hour(self) -> None:
        slot = self.random.choice((3, 4))
        after: Any = (0, 0)
        while after is not None:
            page = result_of(self.queue.store.open_slot(slot, self.random.randint(1, 3), after))
            after = page.upto
        self.model.open_slot(slot)

    def time_passes(self) -> None:
        now = FETCHED + self.random.choice((10, 50, 60, 120, 4000))
        self.queue.open_retries(now, self.random.randint(1, 3))
        self.model.open_retries(now)

    def close_window(self) -> None:
        rows = [row for row in self.queue.rows() if row.notice.hours in ("3", "4-5")]
        for row in rows[:2]:
            slot = _slot(row.notice.hours)
            result_of(self.queue.store.record([], [], NOON, [(row.key, row.generation, slot)]))
            self.model.queue[_view(row)].slot = slot

    def check(self) -> None:
        queue, model = self.queue, self.model
        rows = queue.database.query(
            "SELECT curl, mimetype, slot, operation FROM qdb WHERE pid = ? ORDER BY psetid, seq", [queue.pid]
        )
        assert [((curl, view), slot, bool(operation)) for curl, view, slot, operation in rows] == model.order()
        now = [entry[0] for entry in model.order() if entry[1] == FETCH_NOW]
        assert [_view(row) for row in queue.rows()] == now
        cached = queue.database.query(
            "SELECT curl, mimetype, len, furl, burl, subtype, hours FROM lccurl WHERE pid = ? AND state = 1",
            [queue.pid],
        )
        assert {(curl, view): tuple(values) for curl, view, *values in cached} == {
            view: (size, *_names(model.names[view])) for view, (size, _) in model.cache.items()
        }
        numbers = queue.database.query(
            "SELECT curl, mimetype, change_number FROM lccurl WHERE pid = ? AND change_number > 0", [queue.pid]
        )
        changes = {(curl, view): number for curl, view, number in numbers}
        assert {view for view, number in changes.items() if number != self.changes.get(view)} == model.changed
        self.changes = changes
        model.changed.clear()
        times = queue.database.query("SELECT change_time FROM lccurl WHERE change_number > 0 ORDER BY change_number")
        assert times == sorted(times) and (0,) not in times, "who goes on from a time misses nothing"
        status = queue.database.now(provider_status, queue.pid, 100)
        assert status.error_count == len(model.errors)
        assert [(error.code, error.url) for error in status.errors] == model.errors[-100:]
        assert self.limits[0] is None or status.files_used <= self.limits[0]
        assert self.limits[1] is None or status.space_used_bytes <= self.limits[1]
        queue.check_books()

    def run(self, steps: int) -> None:
        does = [self.send, self.fetch, self.fetch, self.fetch, self.hour, self.close_window]
        does += [self.time_passes]
        for _ in range(steps):
            self.random.choice(does)()
            self.check()


def _view(row: QueueRow) -> View:
    return row.notice.curl, row.notice.mimetype


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full set does not name is deleted in many steps, between which anything may fail."""
    monkeypatch.setattr(sweep, "PAGE_ROWS", 2)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_like_a_dictionary(long_lived: Queue, seed: int) -> None:
    Walk(long_lived, Random(seed)).run(25)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@settings(SHARED, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_like_a_dictionary_on_mariadb(long_lived: Queue, seed: int) -> None:
    Walk(long_lived, Random(seed)).run(20)


@pytest.mark.parametrize("cut", range(12))
def test_a_full_set_that_is_cut_deletes_nothing(queue: Queue, cut: int) -> None:
    queue.send(1, *[notice(name, "1") for name in "abcdefgh"])
    queue.fetch_all()
    queue.send(2, notice("queued"))
    before = queue.cached()
    told = [notice(name, "1") for name in "abcd"] + [notice(name) for name in "ijklmnop"]
    pieces = queue.pieces(queue.header(3, full=True), told, size=1)
    for piece in pieces[:cut]:
        queue.absorb([piece])
        assert queue.cached() == before and queue.files_to_delete() == []
        assert not any(row.delete for row in queue.rows())
    # The connection is lost there; whoever comes next is told the same as before, and it comes again as a whole.
    queue.store = queue.another_store()
    queue.claim()
    queue.check_books()
    assert queue.cached() == before
    queue.absorb(pieces)
    assert {name[12] for name, state in queue.cached().items() if state == "deleted"} == set("efgh")
    assert [row.notice.curl[12:] for row in queue.rows() if row.delete] == ["queued"]
    queue.check_books()
