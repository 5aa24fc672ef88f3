"""Random histories of all that may name a URL, step by step against a model of a page: what the last word of each
source allows, and nothing else, is queued or cached, whatever fetches are out meanwhile."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lcc.model import ANY_TYPE, HINTS, SITE, QueueRow, Source, UrlNotice
from lcc.storage.database.tables.key_ranges import is_untyped
from lcc.storage.queue.intake import sweep
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

PATHS = "abcd"
VIEWS = ("text/html", "text/xml")
TOLD, PUSHED, LISTED, FEED, LINK, POLLED = Source
COUNTED = SITE | HINTS
OWN = [TOLD, PUSHED, LISTED]
SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

View = tuple[str, str]
"""Conceptual URL and mime type; an empty one: all of a page."""


@attrs.define
class Named:
    """Who names a view of a page, and the number of each own word's last operation."""

    by: Source = Source(0)
    words: dict[Source, int] = attrs.field(factory=lambda: dict.fromkeys(OWN, 0))


class Model:
    """What the last word of each source allows."""

    def __init__(self) -> None:
        self.views: dict[View, Named] = {}
        self.floor = 0

    def of(self, view: View) -> Named:
        return self.views.setdefault(view, Named())

    def take_set(self, source: Source, number: int, told: list[UrlNotice], full: bool) -> None:
        for one in told:
            self.take(source, number, one)
        if full and number >= self.floor:
            self.floor = number
            named = {(one.curl, one.mimetype) for one in told}
            for view, known in self.views.items():
                if view not in named and known.by & TOLD and known.words[TOLD] <= number:
                    known.by &= ~TOLD
                    known.words[TOLD] = number

    def take(self, source: Source, number: int, one: UrlNotice) -> None:
        views = [(one.curl, one.mimetype)]
        others = [view for view in self.views if view[0] == one.curl and view[1]]
        if not one.mimetype or (one.mimetype == ANY_TYPE and (one.delete or one.retract)):
            views = [(one.curl, ""), *others]
        elif one.mimetype == ANY_TYPE:
            views = [view for view in others if self.of(view).by and view[1] != ANY_TYPE] or views
        for view in views:
            if one.retract:
                self.retract(source, number, view)
            elif one.delete:
                self.delete(source, number, view)
            elif not one.recheck:
                self.name(source, number, view)

    def last(self, view: View) -> dict[Source, int]:
        """Of the view, and of the page."""
        page = self.of((view[0], "")).words
        return {own: max(number, page[own]) for own, number in self.of(view).words.items()}

    def is_old(self, source: Source, number: int, view: View) -> bool:
        return number < self.last(view)[source] or (source == TOLD and number < self.floor)

    def name(self, source: Source, number: int, view: View) -> None:
        known = self.of(view)
        if source & SITE:
            if self.is_old(source, number, view):
                return
            known.words[source] = number
        elif source & HINTS:
            others = [other for other in self.views if other[0] == view[0]]
            if known.by & SITE:
                return
            if not known.by & HINTS and any(any(self.views[other].words.values()) for other in others):
                return
        known.by |= source

    def retract(self, source: Source, number: int, view: View) -> None:
        known = self.of(view)
        if source & SITE:
            if self.is_old(source, number, view):
                return
            known.words[source] = number
        known.by &= ~source

    def delete(self, source: Source, number: int, view: View) -> None:
        known, last = self.of(view), self.last(view)
        if source == TOLD and number < self.floor:
            return
        void = [each for each in OWN if last[each] <= number and (each != TOLD or number >= self.floor)]
        if not void:
            return
        for each in void:
            known.by &= ~each
            known.words[each] = number
        if not known.by & SITE:
            known.by &= ~HINTS
            untyped = (view[0], ANY_TYPE)
            if view[1] not in ("", ANY_TYPE) and self.of(untyped).by & HINTS and not self.of(untyped).by & SITE:
                self.delete(source, number, untyped)

    def stored(self, view: View) -> None:
        """It takes the place of what has no type."""
        known, untyped = self.of(view), self.of((view[0], ANY_TYPE))
        if view[1] != ANY_TYPE and known.by & COUNTED and untyped.by:
            known.by |= untyped.by
            known.words = {own: max(number, untyped.words[own]) for own, number in known.words.items()}
            untyped.by = Source(0)

    def failed(self, view: View, left: Source, remembered: bool) -> None:
        """Nothing names it any longer but what names what is cached of it."""
        known = self.of(view)
        known.by = left
        if not remembered:
            known.words = dict.fromkeys(OWN, 0)


class Walk:
    """One random history.

    :ivar out: fetches whose results are to come.
    :ivar sent: sets of notifiers, the last ones.
    """

    def __init__(self, queue: Queue, random: Random) -> None:
        self.queue, self.random = queue, random
        queue.pid = queue.add_provider()
        self.model = Model()
        self.drawn = 0
        self.out: list[QueueRow] = []
        self.sent: tuple[tuple[Source, int, list[UrlNotice]], ...] = ()

    def number(self) -> int:
        """An order number: mostly the next one, but an asking may have begun long ago."""
        self.drawn += 1
        return self.drawn if self.random.random() < 0.6 else self.random.randint(1, self.drawn)

    def said(self, source: Source) -> UrlNotice:
        random = self.random
        path, kind = random.choice(PATHS), random.random()
        view = random.choice(VIEWS if source == TOLD else (*VIEWS, ANY_TYPE))
        if source & SITE and kind < 0.15:
            return notice(path, mimetype=random.choice((view, "")), delete=True)
        if source != TOLD and kind < 0.4:
            return notice(path, mimetype=random.choice((view, "")), retract=True)
        if source != TOLD and kind < 0.5:
            return notice(path, mimetype=view, recheck=True)
        hint = bool(source & HINTS)
        return notice(path, random.choice(("", "1", "2")), mimetype=view, ifabsent=hint or random.random() < 0.2)

    def send(self) -> None:
        source = self.random.choice(list(Source))
        full = source == TOLD and self.random.random() < 0.4
        number = self.number() if source & SITE else 0
        told = [self.said(source) for _ in range(self.random.randint(0, 5))]
        self.pass_on(source, number, told, full)
        if source & (PUSHED | LISTED):
            self.sent = (*self.sent, (source, number, told))[-5:]

    def send_again(self) -> None:
        """What a notifier has asked for once is told once more, with the number of that asking: its job ran twice."""
        if self.sent:
            self.pass_on(*self.random.choice(self.sent), full=False)

    def pass_on(self, source: Source, number: int, told: list[UrlNotice], full: bool) -> None:
        header = self.queue.header(number, full=full, source=source)
        for piece in self.queue.pieces(header, told, self.random.choice((1, 2, 100))):
            self.queue.absorb([piece])
        self.model.take_set(source, number, told, full)

    def start(self) -> None:
        rows = [row for row in self.queue.rows() if not row.delete]
        self.out += self.random.sample(rows, min(len(rows), 2))

    def end(self) -> None:
        """Some results come, maybe after their rows have changed."""
        for _ in range(min(len(self.out), self.random.randint(1, 3))):
            row = self.out.pop(self.random.randrange(len(self.out)))
            self.result(row, self.random.choice((0, 0, 0, 403, 404)))

    def result(self, row: QueueRow, error: int) -> None:
        queue, view = self.queue, (row.notice.curl, row.notice.mimetype)
        current = [other for other in queue.rows() if other.key == row.key]
        if error and current and (current[0].delete or current[0].generation == row.generation):
            cached = queue.database.query("SELECT state, source FROM lccurl WHERE urlkey = ?", [row.key])
            left = Source(0)
            if cached and cached[0][0] and error == 403:
                left = Source(cached[0][1] & 63)
            self.model.failed(view, left, bool(cached))
        elif not error and current and not current[0].delete and current[0].generation == row.generation:
            self.model.stored(view)
        content = self.random.choice("xyz")
        queue.record(queue.failed(row, error) if error else queue.fetched(row, content))

    def remove_nothings(self) -> None:
        """Rows that do nothing are at their turn."""
        rows = [row for row in self.queue.rows() if row.delete]
        for row in rows:
            assert self.queue.database.query("SELECT 1 FROM lccurl WHERE urlkey = ?", [row.key])
        self.queue.record(removed=[(row.key, row.generation) for row in rows])

    def check(self) -> None:
        query, pid = self.queue.database.query, self.queue.pid
        named: dict[View, Source] = {}
        shown: set[View] = set()
        for key, curl, view, source in query(
            "SELECT urlkey, curl, mimetype, source FROM lccurl WHERE pid = ? AND state = 1", [pid]
        ):
            view = ANY_TYPE if is_untyped(key) else view
            named[curl, view] = Source(source & 63)
            if source & COUNTED:
                shown.add((curl, view))
        waits = set()
        for curl, view, source in query(
            "SELECT curl, mimetype, source FROM qdb WHERE pid = ? AND operation = 1", [pid]
        ):
            named[curl, view] = Source(source)
            waits.add((curl, view))
        expected = {view: known.by for view, known in self.model.views.items() if known.by and view[1]}
        assert named == expected
        counted = {view for view, by in expected.items() if by & COUNTED}
        assert shown <= counted <= shown | waits
        self.queue.check_books()

    def run(self, steps: int) -> None:
        does = [self.send, self.send, self.send, self.send_again, self.start, self.end, self.remove_nothings]
        for _ in range(steps):
            self.random.choice(does)()
            self.check()
        self.remove_nothings()
        for row in self.out:
            self.result(row, 0)
        while rows := [row for row in self.queue.rows() if not row.delete]:
            for row in rows:
                self.result(row, 0)
        self.check()
        rows = self.queue.database.query(
            "SELECT curl, urlkey, mimetype FROM lccurl WHERE pid = ? AND state = 1 AND source & 31 <> 0",
            [self.queue.pid],
        )
        found = {(curl, ANY_TYPE if is_untyped(key) else view) for curl, key, view in rows}
        assert found == {view for view, known in self.model.views.items() if known.by & COUNTED}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PAGE_ROWS", 2)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=60)
@example(seed=1175343)  # a full set leaves out what was told and polled, and the poll was taken back
@given(seed=st.integers(0, 2**32))
def test_what_the_last_word_of_each_allows(long_lived: Queue, seed: int) -> None:
    Walk(long_lived, Random(seed)).run(30)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@settings(SHARED, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_what_the_last_word_of_each_allows_on_mariadb(long_lived: Queue, seed: int) -> None:
    Walk(long_lived, Random(seed)).run(20)


@pytest.mark.parametrize("is_fetched", [False, True])
def test_two_that_name_a_page(queue: Queue, is_fetched: bool) -> None:
    """Both do from then on; but a hint adds nothing to the site's own word."""
    expected = {}
    for both in permutations(Source, 2):
        path = "-".join(source.name or "" for source in both)
        for number, source in enumerate(both, 1):
            queue.send(number if source & SITE else 0, notice(path, ifabsent=bool(source & HINTS)), source=source)
            if is_fetched:
                queue.fetch_all()
        expected[path] = both[0] if both[0] & SITE and both[1] & HINTS else both[0] | both[1]
    table = "lccurl" if is_fetched else "qdb"
    found = queue.database.query(f"SELECT curl, source FROM {table} WHERE pid = ?", [queue.pid])
    assert {curl[12:]: Source(source) for curl, source in found} == expected
    assert len(expected) == 30
    queue.check_books()


Words = list[tuple[Source, bool, dict[str, str]]]
WORDS = st.lists(
    st.tuples(
        st.sampled_from(OWN), st.booleans(), st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "retract"]))
    ),
    max_size=6,
)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=60)
@given(words=WORDS, data=st.data())
def test_the_order_in_which_sets_come_does_not_matter(long_lived: Queue, words: Words, data: Any) -> None:
    queue = long_lived
    queue.pid = queue.add_provider()
    last: dict[tuple[str, Source], tuple[int, bool]] = {}
    sets = []
    for number, (source, full, said) in enumerate(words, 1):
        told = {path: source != TOLD and bool(operation) for path, operation in said.items()}
        full = full and source == TOLD
        for path in PATHS if full else told:
            last[path, source] = number, path in told and not told[path]
        sets.append((number, source, full, [notice(path, retract=retract) for path, retract in told.items()]))
    for number, source, full, notices in data.draw(st.permutations(sets)):
        queue.send(number, *notices, full=full, source=source)
        if data.draw(st.booleans()):
            rows = [row for row in queue.rows() if not row.delete]
            result_of(queue.store.record([queue.fetched(row) for row in rows], [], 20))
    queue.fetch_all()
    found = queue.database.query("SELECT curl, source FROM lccurl WHERE pid = ? AND state = 1", [queue.pid])
    expected: dict[str, int] = {}
    for (path, source), (_, names) in last.items():
        if names:
            expected[f"http://site/{path}"] = expected.get(f"http://site/{path}", 0) | source
    assert dict(found) == expected
    queue.check_books()
