"""Sets that a notifier tells again, under other numbers of a UNS, are applied once."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from lcc.model import Source
from lcc.model.notifiers import NoticeId
from lcc.model.number_ranges import NumberRanges
from lcc.storage.queue.intake.said_sets import EPOCHS_MAX, merge_said
from tests.support.queue import Queue, notice

NUMBERS = st.integers(1, 40)


@given(st.lists(st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))), max_size=12))
def test_ranges_are_sets_of_numbers(added: list[tuple[int, int]]) -> None:
    ranges, numbers = NumberRanges(), set[int]()
    for first, last in added:
        ranges.add(first, last)
        numbers.update(range(first, last + 1))
        text = str(ranges)
        assert [number for number in range(50) if number in ranges] == sorted(numbers)
        ends = [int(end) for part in text.split() for end in part.split("-")]
        assert all(high - low > 1 for low, high in zip(ends[1::2], ends[2::2], strict=False)), "they do not touch"
        ranges = NumberRanges(text)


def test_only_the_last_ranges_are_kept() -> None:
    ranges = NumberRanges()
    for number in range(1, 3000, 2):
        ranges.add(number, number)
    kept = NumberRanges(str(ranges))
    assert len(str(kept)) <= 6000 and 2999 in kept and 2001 in kept and 1 not in kept
    ranges = NumberRanges()
    ranges.add(1, 1)
    for number in range(3, 10**20, 10**18):
        ranges.add(number, number + 10**17)
    assert len(str(ranges)) <= 6000


def tell(
    queue: Queue,
    number: int,
    said: int,
    *names: str,
    after: int | None = None,
    epoch: str = "e1",
) -> set[str]:
    """A set of a notifier, in this UNS's numbers and its own; gives the names that are queued then."""
    header = queue.header(0, number=number)
    notice_id = NoticeId("push/p1", epoch, said, said - 1 if after is None else after)
    header = attrs.evolve(header, source=Source.POLLED, said=notice_id)
    absorbed = queue.absorb(queue.pieces(header, [notice(name) for name in names], size=2))
    assert [answer.code for answer in absorbed.answers] == [0]
    return {row.notice.curl.rpartition("/")[2] for row in queue.rows()}


def known(queue: Queue) -> dict[str, str]:
    rows = queue.database.query("SELECT epoch, numbers FROM notifierpos ORDER BY epoch")
    return {epoch.decode(): numbers.decode() for epoch, numbers in rows}


def test_a_set_that_is_told_again_is_applied_once(queue: Queue) -> None:
    assert tell(queue, 1, 10, "a", "b", "c") == {"a", "b", "c"}
    queue.fetch_all()
    assert tell(queue, 2, 10, "a", "b", "c") == set()
    assert tell(queue, 3, 11, "d") == {"d"}
    assert known(queue) == {"e1": "10-11"}
    # In one transaction, too.
    header = attrs.evolve(queue.header(0, number=4), source=Source.POLLED, said=NoticeId("push/p1", "e1", 12, 11))
    again = attrs.evolve(header, number=5)
    absorbed = queue.absorb([*queue.pieces(header, [notice("e")]), *queue.pieces(again, [notice("x")])])
    assert [answer.code for answer in absorbed.answers] == [0, 0]
    assert {row.notice.curl.rpartition("/")[2] for row in queue.rows()} == {"d", "e"}
    queue.check_books()


def test_what_was_never_there_is_applied_when_it_comes(queue: Queue) -> None:
    tell(queue, 1, 5, "a", after=2)
    assert known(queue) == {"e1": "3-5"}
    tell(queue, 2, 9, "b", after=7)  # 7 was rejected
    assert known(queue) == {"e1": "3-5 8-9"}
    assert "c" in tell(queue, 3, 7, "c", after=5)
    assert known(queue) == {"e1": "3-9"}
    assert "d" in tell(queue, 4, 2, "d")
    assert known(queue) == {"e1": "2-9"}


def test_each_epoch_has_its_numbers_and_few_are_remembered(queue: Queue) -> None:
    for number in range(1, 9):
        assert str(number) in tell(queue, number, 1, str(number), epoch=f"e{number}")
    assert len(known(queue)) == EPOCHS_MAX and "e8" in known(queue)


def test_the_sets_of_providers_have_nothing_to_do_with_it(queue: Queue) -> None:
    tell(queue, 1, 1, "a")
    queue.send(1, notice("b"), number=2)
    assert known(queue) == {"e1": "1-1"}


def test_a_set_of_a_provider_that_is_gone_is_not_applied(queue: Queue) -> None:
    header = attrs.evolve(queue.header(0, number=1), pid=9999, source=Source.POLLED)
    header = attrs.evolve(header, said=NoticeId("push/p1", "e1", 1, 0))
    absorbed = queue.absorb(queue.pieces(header, [notice("a")]))
    assert [answer.code for answer in absorbed.answers] == [1105]
    assert known(queue) == {}


def test_sets_that_went_elsewhere_may_come_yet(queue: Queue) -> None:
    tell(queue, 1, 1, "a")
    tell(queue, 2, 3, "b")
    assert known(queue) == {"e1": "1-1 3-3"}
    assert tell(queue, 3, 2, "c") == {"a", "b", "c"}, "its provider has moved here"
    assert known(queue) == {"e1": "1-3"}


def test_what_is_applied_elsewhere_is_applied_here(queue: Queue) -> None:
    tell(queue, 1, 3, "a")
    rows = [(b"push/p1", b"e1", b"1-1 5-6", 900), (b"spider/s", b"e9", b"7-7", 3)]
    queue.database.now(merge_said, rows)
    assert known(queue) == {"e1": "1-1 3-3 5-6", "e9": "7-7"}
    assert tell(queue, 2, 5, "b") == {"a"}
