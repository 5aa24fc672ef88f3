"""Whether there is room for one more URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.notices.quota import over_quota
from lcc.errors import code
from lcc.model import Quota

FILES, SPACE = code("quota-files"), code("quota-space")
LIMIT = st.none() | st.integers(0, 5)


@pytest.mark.parametrize(
    ("quota", "is_new", "files", "space", "length", "expected"),
    [
        (Quota(None, None), True, 10**9, 10**15, 10**9, 0),
        (Quota(3, None), True, 2, 0, 1, 0),
        (Quota(3, None), True, 3, 0, 0, FILES),
        (Quota(3, None), False, 9, 0, 1, 0),
        (Quota(None, 10), True, 0, 5, 5, 0),
        (Quota(None, 10), True, 0, 5, 6, SPACE),
        (Quota(None, 10), False, 0, 5, 6, SPACE),
        (Quota(None, 10), True, 0, 9, None, 0),
        (Quota(None, 10), True, 0, 10, None, SPACE),
        (Quota(None, 10), False, 0, 10, None, 0),
        (Quota(None, 10), True, 0, 99, 0, 0),
        (Quota(0, 0), True, 0, 0, 1, FILES),
    ],
)
def test_cases(quota: Quota, is_new: bool, files: int, space: int, length: int | None, expected: int) -> None:
    assert over_quota(quota, is_new, files, space, length) == expected


@given(LIMIT, LIMIT, st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=30))
def test_what_is_let_in_never_exceeds_the_quota(
    files_max: int | None, space_max: int | None, steps: list[tuple[bool, int]]
) -> None:
    quota, kept = Quota(files_max, space_max), list[int]()
    for is_new, length in steps:
        if not is_new and not kept:
            continue
        old = 0 if is_new else kept[-1]
        if not over_quota(quota, is_new, len(kept) - (not is_new), sum(kept) - old, length):
            kept[len(kept) - (not is_new) :] = [length]
        assert files_max is None or len(kept) <= files_max
        assert space_max is None or sum(kept) <= space_max
