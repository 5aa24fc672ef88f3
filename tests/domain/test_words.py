"""Who names a URL: each of the site's words has its own last number, hints have none."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.words import decide_among, without_told
from lcc.model import Action, CachedState, Decision, QueuedState, Source, Standing, UrlNotice

TOLD, PUSHED, LISTED, FEED, LINK, POLLED = map(int, Source)
NOTICE = UrlNotice("http://site/a", mimetype="text/html")
DELETE, RETRACT = NOTICE._replace(delete=True), NOTICE._replace(retract=True)
RECHECK, IFABSENT = NOTICE._replace(recheck=True), NOTICE._replace(ifabsent=True)


def cached(connseq: int, source: int, words: str = "", **more: object) -> CachedState:
    fields = {"told_md5": "", "told_length": None, "told_mtime": None, "md5": "b" * 32, "length": 7, "mtime": 8}
    values = {"cached": True, "connseq": connseq, "source": source, "words": words} | fields | more
    return CachedState(**values)  # type: ignore[arg-type]


def gone(connseq: int, source: int, words: str = "") -> CachedState:
    return cached(connseq, source, words, cached=False)


def decide(
    notice: UrlNotice, source: int, connseq: int, row: CachedState | QueuedState | None, **more: int
) -> Decision:
    queued = row if isinstance(row, QueuedState) else None
    stored = row if isinstance(row, CachedState) else None
    return decide_among(notice, source, connseq, more.get("floor", 0), (), queued, stored)


NUMBERS = st.tuples(*[st.integers(0, 9)] * 3)


@given(st.integers(0, 9), st.integers(0, 63), NUMBERS)
def test_a_standing_has_the_numbers_that_it_was_made_of(connseq: int, source: int, numbers: tuple[int, ...]) -> None:
    standing = Standing.of(connseq, source, numbers)
    assert standing.numbers == numbers and standing.told_number == numbers[0]
    assert standing[:2] == (connseq, source)


def test_the_usual_row_has_no_words() -> None:
    assert Standing.of(5, TOLD, (5, 0, 0)) == Standing(5)
    assert Standing.of(5, LISTED, (0, 0, 5)) == Standing(5, LISTED)
    assert Standing.of(12, TOLD | PUSHED, (5, 12, 0)) == (12, TOLD | PUSHED, "1:5")


def test_the_examples_of_the_specification() -> None:
    # Told 5, pushed 12, a full set 10 that omits it: with one number, "told" would stay for ever.
    said = decide(NOTICE, PUSHED, 12, cached(5, TOLD))
    assert said.standing.numbers == (5, 12, 0) and said.action is Action.AGAIN
    left, standing = without_told(said.standing, 10)
    assert left == PUSHED and standing.source == PUSHED
    # Listed 5, told 10, retract 7: "listed" would.
    said = decide(NOTICE, TOLD, 10, cached(5, LISTED))
    assert said.standing == (10, TOLD | LISTED, "4:5")
    said = decide(RETRACT, LISTED, 7, cached(*said.standing))
    assert said.action is Action.KNOWN and said.standing.source == TOLD and said.standing.connseq == 10


@pytest.mark.parametrize("order", [*permutations([(TOLD, 5), (PUSHED, 12), (LISTED, 7)])])
def test_any_order_of_words_names_it_by_all(order: list[tuple[int, int]]) -> None:
    row: QueuedState | None = None
    for source, connseq in order:
        standing = decide(NOTICE, source, connseq, row).standing
        row = QueuedState(True, *standing)
    assert row is not None and row.source == TOLD | PUSHED | LISTED
    assert Standing(row.connseq, row.source, row.words).numbers == (5, 12, 7)


@pytest.mark.parametrize(
    ("notice", "source", "connseq", "row", "action", "left"),
    [
        # An older operation of the same source does nothing, whatever others have said since.
        (NOTICE, LISTED, 6, cached(10, TOLD, "4:7"), Action.OLDER, TOLD),
        (NOTICE, LISTED, 7, cached(10, TOLD, "4:7"), Action.KNOWN, TOLD | LISTED),
        (RETRACT, LISTED, 6, cached(10, TOLD | LISTED, "4:7"), Action.OLDER, TOLD | LISTED),
        # A deletion takes away what was said before it, and hints with it.
        (DELETE, LISTED, 8, cached(5, TOLD | FEED), Action.DELETE, 7),
        (DELETE, LISTED, 8, cached(10, TOLD | PUSHED | FEED, "2:5"), Action.KNOWN, TOLD | FEED),
        (DELETE, TOLD, 8, cached(10, PUSHED), Action.KNOWN, PUSHED),
        (DELETE, TOLD, 8, cached(10, PUSHED, "1:9 4:9"), Action.OLDER, PUSHED),
        (DELETE, TOLD, 8, cached(5, TOLD | POLLED), Action.WITHDRAW, POLLED),
        (DELETE, TOLD, 8, None, Action.DELETE, 7),
        # What nobody names any longer goes.
        (RETRACT, LISTED, 8, cached(7, LISTED), Action.DELETE, LISTED),
        (RETRACT, LISTED, 8, cached(7, LISTED | POLLED), Action.WITHDRAW, POLLED),
        (RETRACT, LISTED, 8, cached(7, LISTED | LINK), Action.KNOWN, LINK),
        (RETRACT, FEED, 0, cached(0, FEED), Action.DELETE, FEED),
        (RETRACT, FEED, 0, cached(5, TOLD | FEED), Action.KNOWN, TOLD),
        (RETRACT, FEED, 0, cached(5, TOLD), Action.OLDER, TOLD),
        (RETRACT, FEED, 0, None, Action.OLDER, 0),
        (RETRACT, POLLED, 0, cached(0, POLLED), Action.DELETE, POLLED),
        # Hints do nothing where the site's own word is behind it, or was.
        (IFABSENT, FEED, 0, cached(5, TOLD), Action.OLDER, TOLD),
        (IFABSENT, FEED, 0, gone(5, TOLD), Action.OLDER, 0),
        (IFABSENT, FEED, 0, gone(5, 7), Action.OLDER, 0),
        (IFABSENT, FEED, 0, gone(0, LINK), Action.FETCH, FEED),
        (IFABSENT, FEED, 0, None, Action.FETCH, FEED),
        (IFABSENT, FEED, 0, cached(0, LINK), Action.KNOWN, LINK | FEED),
        (IFABSENT, FEED, 0, cached(0, FEED), Action.OLDER, FEED),
        (IFABSENT, FEED, 0, cached(0, POLLED), Action.FETCH, FEED | POLLED),
        (IFABSENT, FEED, 0, cached(0, POLLED, "1:5"), Action.OLDER, POLLED),
        # The site's own word revives what it has deleted, if it is newer.
        (NOTICE, PUSHED, 8, gone(7, 7), Action.FETCH, PUSHED),
        (NOTICE, PUSHED, 6, gone(7, 7), Action.OLDER, 0),
        (NOTICE, PUSHED, 6, gone(7, TOLD), Action.FETCH, PUSHED),
        # Polls touch nothing but the fetch.
        (NOTICE, POLLED, 0, None, Action.FETCH, POLLED),
        (NOTICE, POLLED, 0, gone(7, 7), Action.FETCH, POLLED),
        (NOTICE, POLLED, 0, cached(5, TOLD), Action.AGAIN, TOLD | POLLED),
        (NOTICE, POLLED, 0, cached(0, POLLED), Action.FETCH, POLLED),
        (NOTICE, POLLED, 0, QueuedState(True, 5, TOLD), Action.AGAIN, TOLD | POLLED),
        (NOTICE, POLLED, 0, QueuedState(True, 0, POLLED), Action.AGAIN, POLLED),
        # To others, what is only polled is as if it was not there.
        (IFABSENT, TOLD, 5, cached(0, POLLED), Action.FETCH, TOLD | POLLED),
        (IFABSENT, TOLD, 5, QueuedState(True, 0, POLLED), Action.FETCH, TOLD | POLLED),
        # Asking again.
        (RECHECK, LINK, 0, cached(0, FEED), Action.AGAIN, FEED),
        (RECHECK, LINK, 0, cached(0, POLLED), Action.AGAIN, POLLED),
        (RECHECK, LINK, 0, cached(5, LISTED), Action.OLDER, LISTED),
        (RECHECK, LINK, 0, QueuedState(True, 0, FEED), Action.OLDER, FEED),
        (RECHECK, LINK, 0, gone(0, FEED), Action.OLDER, 0),
        (RECHECK, LINK, 0, None, Action.OLDER, 0),
        # To others, what the provider tells itself is something to fetch again.
        (NOTICE, PUSHED, 8, QueuedState(True, 5, TOLD), Action.AGAIN, TOLD | PUSHED),
        (IFABSENT, PUSHED, 8, cached(5, TOLD), Action.KNOWN, TOLD | PUSHED),
        (NOTICE._replace(named_only=True), TOLD, 8, cached(5, LISTED), Action.NAMED, LISTED),
        (NOTICE._replace(named_only=True), LISTED, 8, cached(5, LISTED), Action.OLDER, LISTED),
    ],
)
def test_what_a_notice_does_among_several(
    notice: UrlNotice, source: int, connseq: int, row: CachedState | QueuedState | None, action: Action, left: int
) -> None:
    said = decide(notice, source, connseq, row)
    assert said.action is action
    assert said.standing.source == left


SAID = [*product([TOLD, PUSHED, LISTED], [NOTICE, DELETE, RETRACT])]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_updates_retractions_and_deletions_may_come_in_any_order(order: tuple[int, ...]) -> None:
    for said in product(SAID, repeat=3):
        expected = 0
        for source, notice in said:
            expected = 0 if notice.delete else expected & ~source if notice.retract else expected | source
        row: CachedState | None = None
        for at in order:
            source, notice = said[at]
            found = decide(notice, source, at + 1, row)
            if found.action is not Action.OLDER:
                row = cached(*found.standing, cached=found.action is not Action.DELETE)
        assert (row.source if row is not None and row.cached else 0) == expected, said


@pytest.mark.parametrize("source", [FEED, LINK, POLLED])
def test_hints_and_polls_raise_no_number(source: int) -> None:
    queued = QueuedState(True, 5, TOLD | LISTED, "4:3")
    for row in (None, cached(0, FEED), cached(0, LINK), cached(0, POLLED), cached(5, TOLD), gone(7, 7), queued):
        before = Standing(row.connseq, row.source, row.words) if row is not None else Standing(0, 0)
        for notice in (IFABSENT if source != POLLED else NOTICE, RETRACT, RECHECK):
            said = decide(notice, source, 0, row)
            assert said.standing.numbers == before.numbers
            assert said.action is Action.OLDER or said.standing.connseq <= before.connseq


def test_a_told_set_below_the_full_set_does_nothing_and_others_are_not_below_it() -> None:
    assert decide(NOTICE, TOLD, 9, cached(5, LISTED), floor=10).action is Action.OLDER
    assert decide(NOTICE, LISTED, 9, None, floor=10).action is Action.FETCH
    assert decide(IFABSENT, LINK, 0, None, floor=10).action is Action.FETCH


def test_what_is_asked_for_again_keeps_what_its_provider_has_told() -> None:
    described = cached(
        5, TOLD, told_md5="c" * 32, told_length=3, furl="http://site/b", description=("0-8", "-", "a: b")
    )
    said = decide(NOTICE._replace(sent="[]"), PUSHED, 8, described)
    assert said.notice == UrlNotice(
        *("http://site/a", "http://site/b", "-", "text/html", "a: b", "c" * 32, 3, None, "0-8"), sent="[]"
    )
    assert said.standing.connseq == 5, "the attributes are of the set that told them"
    said = decide(NOTICE._replace(md5="d" * 32, length=4), LISTED, 8, described)
    assert (said.notice.md5, said.notice.length, said.notice.furl) == ("d" * 32, 4, "http://site/b")


def test_a_hint_looks_at_all_views_of_the_page() -> None:
    for row in (Standing(5, TOLD), Standing(5, LISTED), Standing(0, POLLED, "1:4")):
        assert decide_among(IFABSENT, FEED, 0, 0, (row,), None, None).action is Action.OLDER
    for row in (Standing(0, FEED), Standing(0, POLLED)):
        assert decide_among(IFABSENT, FEED, 0, 0, (row,), None, None).action is Action.FETCH
