"""Parts of a content: RFC 9110, section 14."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.ranges import requested_range

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-99", (0, 100)),
        ("bytes=500-", (500, 500)),
        ("bytes=999-", (999, 1)),
        ("bytes=0-999", (0, 1000)),
        ("bytes=0-1000", (0, 1000)),
        ("bytes=5-5", (5, 1)),
        ("bytes=-1", (999, 1)),
        ("bytes=-1000", (0, 1000)),
        ("bytes=-1001", (0, 1000)),
        (f"bytes=-{'9' * 19}", (0, 1000)),
        (f"bytes=1-{'9' * 19}", (1, 999)),
        (" bytes=1-2 ", (1, 2)),
    ],
)
def test_one_part(header: str, part: tuple[int, int]) -> None:
    assert requested_range(header, SIZE) == part


@pytest.mark.parametrize("header", ["bytes=1000-", "bytes=1000-1001", f"bytes={'9' * 19}-", "bytes=-0"])
def test_a_part_that_there_is_not(header: str) -> None:
    assert requested_range(header, SIZE) is None
    assert requested_range("bytes=0-", 0) is None


@pytest.mark.parametrize(
    "header",
    [
        *(
            None,
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=0-1,3-4",
            "items=0-1",
            "bytes=5-4",
            "bytes=1 -2",
        ),
        *("bytes=+1-2", "bytes=\u0661-", f"bytes={'0' * 20}-", f"bytes=-{'1' * 20}", f"bytes=1-{'1' * 20}"),
    ],
)
def test_what_makes_no_sense_asks_for_the_whole(header: str | None) -> None:
    assert requested_range(header, SIZE) == (0, SIZE)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 30))
def test_a_part_is_what_slices_say(first: int, last: int, size: int) -> None:
    whole = bytes(range(size))
    part = requested_range(f"bytes={first}-{last}", size)
    if last < first:
        assert part == (0, size)
    else:
        found = b"" if part is None else whole[part[0] : part[0] + part[1]]
        assert found == whole[first : last + 1]
