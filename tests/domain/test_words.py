"""Who names a URL: each of the site's words has its own last number, hints have none."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.notices.words import decide_among, without_told
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
        # A document may have been read after the newer word: the page may have changed since that was said.
        (NOTICE, LISTED, 7, cached(10, TOLD, "4:7"), Action.AGAIN, TOLD | LISTED),
        (IFABSENT, LISTED, 7, cached(10, TOLD, "4:7"), Action.KNOWN, TOLD | LISTED),
        (NOTICE, PUSHED, 7, cached(10, TOLD, "2:7"), Action.KNOWN, TOLD | PUSHED),
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


MD5 = "a" * 32
SAME = NOTICE._replace(md5=MD5, length=3, mtime=4)
NAMED = NOTICE._replace(named_only=True)
WAITS = QueuedState(True, 9, TOLD)


def fetched(connseq: int, source: int, words: str = "", **more: object) -> CachedState:
    """What was told of it is what SAME tells."""
    return cached(connseq, source, words, told_md5=MD5, told_length=3, told_mtime=4, **more)


@pytest.mark.parametrize(
    ("notice", "source", "connseq", "floor", "queued", "stored", "action", "standing"),
    [
        # A name in a set counts for the provider's own sets, if no newer one has had a word.
        (NAMED, TOLD, 9, 0, None, cached(9, TOLD), Action.NAMED, Standing(9)),
        (NAMED, TOLD, 8, 0, None, cached(9, TOLD), Action.OLDER, Standing(9)),
        (NAMED, TOLD, 6, 0, None, cached(5, TOLD | PUSHED, "2:9"), Action.NAMED, Standing(5, 3, "2:9")),
        (NAMED, TOLD, 8, 8, None, cached(5, TOLD), Action.NAMED, Standing(5)),
        (NAMED, TOLD, 8, 9, None, cached(5, TOLD), Action.OLDER, Standing(5)),
        # What waits already is not asked for again.
        (RECHECK, LINK, 0, 0, QueuedState(True, 0, FEED), cached(0, FEED), Action.OLDER, Standing(0, FEED)),
        # A deletion by others is no more than that they do not name it any longer.
        (DELETE, FEED, 0, 0, None, cached(0, FEED), Action.DELETE, Standing(0, FEED)),
        (DELETE, FEED, 0, 0, None, cached(0, FEED | LINK), Action.KNOWN, Standing(0, LINK)),
        # A deletion of the same set, and below and above a full set of the provider.
        (DELETE, TOLD, 5, 0, None, cached(5, TOLD), Action.DELETE, Standing(5, 7)),
        (DELETE, TOLD, 8, 10, None, cached(5, PUSHED), Action.OLDER, Standing(5, PUSHED)),
        (DELETE, TOLD, 10, 10, None, cached(5, TOLD), Action.DELETE, Standing(10, 7)),
        (DELETE, LISTED, 8, 10, None, cached(5, LISTED), Action.DELETE, Standing.of(8, 7, (0, 8, 8))),
        (DELETE, PUSHED, 8, 10, None, cached(5, TOLD | PUSHED), Action.KNOWN, Standing.of(5, TOLD, (5, 8, 8))),
        (DELETE, PUSHED, 10, 10, None, cached(5, TOLD), Action.DELETE, Standing(10, 7)),
        (DELETE, LISTED, 5, 0, None, gone(7, TOLD), Action.DELETE, Standing.of(7, 7, (7, 5, 5))),
        # What was polled only stays so.
        (RETRACT, LISTED, 8, 0, None, cached(0, POLLED), Action.KNOWN, Standing.of(0, POLLED, (0, 0, 8))),
        # A row that does nothing is as if it was not there, but for its numbers.
        (IFABSENT, TOLD, 6, 0, QueuedState(False, 5, TOLD), None, Action.FETCH, Standing(6)),
        (IFABSENT, TOLD, 5, 0, QueuedState(False, 5, TOLD), None, Action.FETCH, Standing(5)),
        (IFABSENT, TOLD, 4, 0, QueuedState(False, 5, TOLD), None, Action.OLDER, Standing(5, 0, "1:5")),
        # The attributes are of the newer one of two rows.
        (NOTICE, LISTED, 7, 0, WAITS, cached(5, TOLD), Action.AGAIN, Standing(9, TOLD | LISTED, "4:7")),
        (SAME, LISTED, 7, 0, None, fetched(9, TOLD), Action.KNOWN, Standing(9, TOLD | LISTED, "4:7")),
        (SAME, LISTED, 7, 0, WAITS, fetched(5, TOLD), Action.AGAIN, Standing(9, TOLD | LISTED, "4:7")),
        (NOTICE, LISTED, 9, 0, WAITS, cached(5, TOLD), Action.AGAIN, Standing(9, TOLD | LISTED)),
        # To others, what the provider tells itself is confirmed if it is as they say.
        (SAME, PUSHED, 8, 0, None, fetched(5, TOLD), Action.CONFIRM, Standing(5, TOLD | PUSHED, "2:8")),
        (SAME, PUSHED, 8, 0, WAITS, fetched(5, TOLD), Action.KNOWN, Standing(9, TOLD | PUSHED, "2:8")),
        (SAME, PUSHED, 9, 0, WAITS, fetched(5, TOLD), Action.AGAIN, Standing(9, TOLD | PUSHED)),
        (SAME._replace(md5="c" * 32), PUSHED, 8, 0, None, fetched(5, TOLD), Action.AGAIN, Standing(5, 3, "2:8")),
        (SAME, PUSHED | TOLD, 8, 0, None, fetched(5, TOLD), Action.CONFIRM, Standing(8, TOLD | PUSHED)),
        # To the provider itself it is what it tells.
        (SAME, TOLD, 8, 0, None, fetched(5, TOLD), Action.CONFIRM, Standing(8)),
        (SAME, TOLD, 9, 0, WAITS, fetched(5, TOLD), Action.FETCH, Standing(9)),
        (SAME, LISTED, 8, 0, None, fetched(5, LISTED), Action.CONFIRM, Standing(8, LISTED)),
        (SAME, LISTED, 8, 0, None, fetched(5, POLLED), Action.FETCH, Standing(8, LISTED | POLLED)),
        (SAME._replace(md5=""), TOLD, 8, 0, None, fetched(5, TOLD), Action.FETCH, Standing(8)),
        (SAME._replace(furl="http://site/b"), TOLD, 8, 0, None, fetched(5, TOLD), Action.FETCH, Standing(8)),
        (SAME._replace(burl="http://site/b"), TOLD, 8, 0, None, fetched(5, TOLD), Action.UPDATE, Standing(8)),
        (IFABSENT, TOLD, 8, 0, None, cached(5, TOLD), Action.KNOWN, Standing(8)),
        (IFABSENT, TOLD, 8, 0, QueuedState(True, 5, TOLD), None, Action.KNOWN, Standing(8)),
        (IFABSENT, TOLD, 8, 0, None, gone(5, TOLD), Action.FETCH, Standing(8)),
        (NOTICE, TOLD, 8, 8, None, None, Action.FETCH, Standing(8)),
        # It is polled, and was told and deleted before: others name it anew.
        (NOTICE, PUSHED, 5, 0, None, cached(7, POLLED, "1:7"), Action.FETCH, Standing(5, PUSHED | POLLED, "1:7")),
        # A hint is one more where hints are left, though the site has had its word.
        (IFABSENT, LINK, 0, 0, None, cached(7, FEED, "1:7"), Action.KNOWN, Standing(7, FEED | LINK, "1:7")),
        # There is content that was hinted at, whatever waits.
        (
            IFABSENT,
            TOLD,
            8,
            0,
            QueuedState(True, 0, POLLED),
            cached(5, FEED),
            Action.KNOWN,
            Standing(8, TOLD | POLLED),
        ),
        # Several at once.
        (NOTICE, TOLD | FEED, 8, 0, None, None, Action.FETCH, Standing(8, TOLD | FEED)),
        (RETRACT, FEED | POLLED, 0, 0, None, cached(0, FEED | POLLED), Action.DELETE, Standing(0, FEED)),
        # Whose word it is that something unknown is gone.
        (RETRACT, PUSHED, 8, 0, None, None, Action.DELETE, Standing(8, PUSHED)),
        (NOTICE, TOLD, 8, 9, None, None, Action.OLDER, Standing(0, 0)),
    ],
)
def test_what_a_notice_does_to_two_rows_and_what_they_remember(
    notice: UrlNotice,
    source: int,
    connseq: int,
    floor: int,
    queued: QueuedState | None,
    stored: CachedState | None,
    action: Action,
    standing: Standing,
) -> None:
    said = decide_among(notice, source, connseq, floor, (), queued, stored)
    assert (said.action, said.standing) == (action, standing)
    assert said.action is Action.AGAIN or said.notice is notice


def test_the_site_has_had_its_word_on_all_views() -> None:
    page = (Standing(9, TOLD),)
    assert decide_among(NOTICE, TOLD, 8, 0, page, None, None).action is Action.OLDER
    assert decide_among(NOTICE, TOLD, 9, 0, page, None, None).action is Action.FETCH
    # What others said of other views is not remembered of this one.
    assert decide_among(IFABSENT, FEED, 0, 0, page, None, None).standing == Standing(0, 0)


def test_what_a_full_set_leaves() -> None:
    assert without_told(Standing(5), 8) == (0, Standing(8))
    assert without_told(Standing(5, TOLD, "2:12"), 8) == (0, Standing.of(12, TOLD, (8, 12, 0)))
    assert without_told(Standing(5, TOLD | FEED), 8) == (FEED, Standing.of(5, FEED, (8, 0, 0)))
    assert without_told(Standing(5, TOLD | LISTED), 8) == (LISTED, Standing.of(5, LISTED, (8, 0, 5)))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"md5": "c" * 32}, ("c" * 32, None, None)),
        ({"length": 0}, ("", 0, None)),
        ({"mtime": 0}, ("", None, 0)),
        ({}, (MD5, 3, 4)),
    ],
)
def test_what_is_asked_for_again_is_told_as_the_site_says_now(
    said: dict[str, object], told: tuple[object, ...]
) -> None:
    notice = NOTICE._replace(**said)  # type: ignore[arg-type]
    found = decide(notice, PUSHED, 8, fetched(5, TOLD)).notice
    assert (found.md5, found.length, found.mtime) == told
    assert found.sent == "[]"
    found = decide(notice._replace(sent='["c","a"]'), POLLED, 0, fetched(5, TOLD)).notice
    assert (found.md5, found.length, found.mtime) == (MD5, 3, 4), "who polls tells nothing"
    assert found.sent == '["c","a"]'
