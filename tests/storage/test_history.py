"""Random histories of the store against what the specification says of each URL.

Two UNSes deliver sets piece by piece, out of the order of their numbers, from the start again now and then; fetches
end late, twice, with all kinds of errors; rows wait for their hours, or to be tried again; commits get lost.  At any
time all that is counted is what there is, quotas hold, and no file is lost; at the end each URL is as its last
operation says.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.errors import StoreUnavailable
from lcc.model import FetchResult, QueueRow, SetHeader, SetPiece, UrlNotice
from lcc.storage.providers.providers import change_provider, get_provider
from lcc.storage.queue.intake import sweep
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

PATHS = ("a", "b", "c", "d", "e")
VIEWS = ("text/html", "text/xml")
SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Delivery:
    """A UNS: sets in order, each in pieces."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sets: list[list[SetPiece]] = []
        self.at = 0


class History:
    """One random history of one provider.

    :param final: fetches also end with errors that are final; then the state at the end is not foreseen.
    """

    def __init__(self, queue: Queue, random: Random, final: bool) -> None:
        self.queue = queue
        self.random = random
        self.final = final
        queue.pid = queue.add_provider()
        self.first_file = queue.file
        self.outstanding: list[QueueRow] = []
        self.past: list[FetchResult] = []
        self.uns = [Delivery(f"uns1-{queue.pid}"), Delivery(f"uns2-{queue.pid}")]
        self.operations: list[tuple[int, list[UrlNotice], bool]] = []
        self.quota: tuple[int | None, int | None] = (None, None)
        if final and random.random() < 0.7:
            self._limit()
        self._make_sets()

    def _limit(self) -> None:
        self.quota = (self.random.choice((None, 2, 4)), self.random.choice((None, 4, 8)))
        provider = self.queue.database.now(get_provider, self.queue.pid)
        assert provider is not None
        provider = attrs.evolve(provider, files_max=self.quota[0], space_max_bytes=self.quota[1])
        self.queue.database.now(change_provider, provider)

    def _notice(self) -> UrlNotice:
        random = self.random
        kind = random.random()
        view = random.choice(VIEWS)
        if kind < 0.15:
            return notice(random.choice(PATHS), mimetype=view, delete=True)
        if kind < 0.22:
            return notice(random.choice(PATHS), mimetype="", delete=True)
        if kind < 0.32:
            return notice(random.choice(PATHS), mimetype=view, ifabsent=True)
        hours = random.choice(("", "", "", "3", "4"))
        length = random.choice((None, 1, 2, 3))
        names = {name: random.choice(("", "", "", "1")) for name in ("burl", "subtype")}
        names["furl"] = random.choice(("", "", "", "http://site/1"))
        md5 = random.choice(("", "1", "2"))
        return notice(random.choice(PATHS), md5, mimetype=view, hours=hours, length=length, **names)

    def _make_sets(self) -> None:
        random = self.random
        connseqs = list(range(1, random.randint(2, 8)))
        late = random.random()
        order = sorted(connseqs, key=lambda connseq: connseq + (random.random() * 4 if late < 0.5 else 0))
        for connseq in order:
            told = [self._notice() for _ in range(random.randint(0, 7))]
            full = random.random() < 0.3
            self.operations.append((connseq, told, full))
            uns = random.choice(self.uns)
            number = len(uns.sets) + 1
            header = SetHeader(uns.name, "e", number, self.queue.pid, connseq, full, random.randint(0, 3), False, 1)
            uns.sets.append(self.queue.pieces(header, told, size=random.choice((1, 2, 3, 100))))

    def expected(self) -> dict[str, str]:
        """What is in the cache at the end: the last operation of each URL, in the order of the sets' numbers."""
        state: dict[tuple[str, str], bool] = {}
        for _connseq, told, full in sorted(self.operations, key=lambda operation: operation[0]):
            named = set()
            for one in told:
                views = [(one.curl, one.mimetype)]
                if not one.mimetype:
                    views = [(one.curl, view) for view in VIEWS]
                for view in views:
                    state[view] = not one.delete
                    named.add(view)
            if full:
                for view in state:
                    state[view] = state[view] and view in named
        return {f"{curl} {view}": "cached" for (curl, view), there in state.items() if there}

    def described(self) -> dict[str, tuple[str, ...]]:
        """How the last operation of each URL has described it, where that does not depend on what was there."""
        last: dict[str, UrlNotice] = {}
        for _connseq, told, _full in sorted(self.operations, key=lambda operation: operation[0]):
            last.update({f"{one.curl} {one.mimetype}": one for one in told if one.mimetype})
        return {name: _names(one) for name, one in last.items() if not one.ifabsent and not one.delete}

    # Steps.

    def deliver(self) -> bool:
        uns = [uns for uns in self.uns if uns.sets]
        if not uns:
            return False
        chosen = self.random.choice(uns)
        pieces = chosen.sets[0]
        if chosen.at and self.random.random() < 0.2:
            chosen.at = 0  # the connection was lost: from the start
        count = self.random.randint(1, len(pieces) - chosen.at)
        batch = pieces[chosen.at : chosen.at + count]
        chosen.at += count
        if chosen.at == len(pieces):
            if self.random.random() < 0.2:
                chosen.at = 0  # the answer was lost
            else:
                chosen.sets.pop(0)
                chosen.at = 0
                if chosen.sets and self.random.random() < 0.3:
                    batch += chosen.sets[0][:1]
                    chosen.at = 1
                    if len(chosen.sets[0]) == 1:
                        chosen.sets.pop(0)
                        chosen.at = 0
        self._insist(lambda: self.queue.absorb(batch))
        return True

    def send_out(self) -> None:
        rows = [row for row in self.queue.rows() if not row.delete]
        if rows:
            self.outstanding.append(self.random.choice(rows))

    def open_slot(self) -> None:
        slot, limit = self.random.choice((3, 4)), self.random.randint(1, 3)
        after: Any = (0, 0)
        while after is not None:
            pages: list[Any] = []
            self._insist(lambda at=after, to=pages: to.append(self._open_page(slot, limit, at)))
            after = pages[-1].upto

    def _open_page(self, slot: int, limit: int, after: tuple[int, int]) -> Any:
        return result_of(self.queue.store.open_slot(slot, limit, after))

    def open_retries(self) -> None:
        now, limit = self.random.choice((20, 60, 80, 200)), self.random.randint(1, 3)
        self._insist(lambda: self.queue.open_retries(now, limit))

    def close_window(self) -> None:
        rows = [row for row in self.queue.rows() if row.notice.hours][:2]
        closed = [(row.key, row.generation, int(row.notice.hours)) for row in rows]
        self._insist(lambda: result_of(self.queue.store.record([], [], 20, closed)))

    def take_away(self) -> None:
        removed = [(row.key, row.generation) for row in self.queue.rows() if row.delete]
        if self.outstanding:
            removed += [(row.key, row.generation) for row in self.outstanding[:1]]
        self._insist(lambda: self.queue.record(removed=removed))

    def come_back(self) -> None:
        random = self.random
        results = []
        for row in random.sample(self.outstanding, min(len(self.outstanding), random.randint(1, 3))):
            self.outstanding.remove(row)
            results.append(self._result(row))
        if self.past and random.random() < 0.3:
            results.append(random.choice(self.past))
        self.past += results
        self._insist(lambda: self.queue.record(*results))

    def _result(self, row: QueueRow) -> FetchResult:
        kind = self.random.random()
        if kind < 0.1:
            return self.queue.failed(row, 1301)
        if kind < 0.25 and (self.final or row.attempts < 5):
            return self.queue.failed(row, 503)
        if kind < 0.4 and self.final:
            return self.queue.failed(row, self.random.choice((403, 404)))
        return self.queue.fetched(row, self.random.choice(("x", "yy", "zzz")))

    def _insist(self, do: Any) -> None:
        database = self.queue.database
        kind = self.random.random()
        database.lose = self.random.randint(1, 3) if kind < 0.2 else 0
        database.fail_after = 1 if 0.2 < kind < 0.3 else 0
        try:
            do()
        except StoreUnavailable:
            do()

    def check(self) -> None:
        """The books are right, and each file is in the cache or ordered away."""
        self.queue.check_books()
        kept = self.queue.database.query("SELECT fetched_fileid FROM lccurl WHERE state = 1")
        files = {file for (file,) in kept}
        assert len(files) == len(kept)
        used = self.queue.database.query("SELECT files_used, space_used FROM pstats WHERE pid = ?", [self.queue.pid])
        for value, limit in zip((used or [(0, 0)])[0], self.quota, strict=True):
            assert limit is None or value <= limit
        ordered = set(self.queue.files_to_delete())
        assert not files & ordered
        recorded = {result.file for result in self.past if result.file is not None}
        assert recorded <= files | ordered

    def run(self) -> None:
        steps = [self.deliver, self.send_out, self.send_out, self.come_back, self.take_away]
        steps += [self.open_slot, self.close_window, self.open_retries]
        while any(uns.sets for uns in self.uns):
            self.random.choice(steps)()
            self.check()
        self._insist(lambda: self.queue.record(*[self._result(row) for row in self.outstanding]))
        while self.queue.database.query("SELECT 1 FROM qdb WHERE pid = ? LIMIT 1", [self.queue.pid]):
            self.open_slot()
            self.queue.open_retries(10_000)
            self.queue.fetch_all()
        self.queue.check_books()
        assert self.queue.stats("nurlproc") == 0
        if not self.final:
            there = {name: state for name, state in self.queue.cached().items() if state == "cached"}
            assert there == self.expected()
            rows = self.queue.database.query(
                "SELECT curl, mimetype, furl, burl, subtype, hours FROM lccurl WHERE pid = ?", [self.queue.pid]
            )
            names = {f"{curl} {view}": tuple(names) for curl, view, *names in rows}
            for name, described in self.described().items():
                assert name not in there or names[name] == described


def _names(told: UrlNotice) -> tuple[str, ...]:
    return told.furl, told.burl, told.subtype, told.hours


def _run(queue: Queue, seed: int) -> None:
    for final in (False, True):
        History(queue, Random(seed), final).run()


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full set does not name is deleted in many steps, between which anything may fail."""
    monkeypatch.setattr(sweep, "PAGE_ROWS", 2)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_histories(long_lived: Queue, seed: int) -> None:
    _run(long_lived, seed)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@settings(SHARED, max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_histories_on_mariadb(long_lived: Queue, seed: int) -> None:
    _run(long_lived, seed)
