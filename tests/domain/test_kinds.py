"""Limits of kinds of jobs, as the configuration has them."""

from __future__ import annotations

import pytest

from lcc.domain.tasks.kinds import KindSettings, parse_kinds
from lcc.model.tasks import NAME_CHARS_MAX

USUAL = KindSettings(4, 300.0, 10.0, 1, 2, 3, 4, 5, 10)
LONGEST = "k" * NAME_CHARS_MAX


def test_what_is_not_named_is_as_usual() -> None:
    assert parse_kinds([], USUAL) == ({"*": USUAL}, [])
    kinds, faults = parse_kinds(["feed jobs=8 seconds=60", "*", "clean nice=19", LONGEST], USUAL)
    assert not faults
    assert kinds == {
        "*": USUAL,
        "feed": USUAL._replace(jobs=8, seconds=60),
        "clean": USUAL._replace(nice=19),
        LONGEST: USUAL,
    }


def test_others_than_those_that_are_named() -> None:
    assert parse_kinds(["* jobs=0", f"feed memory_bytes={2**62}"], USUAL) == (
        {"*": USUAL._replace(jobs=0), "feed": USUAL._replace(memory_bytes=2**62)},
        [],
    )


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (["", "feed"], ["'': must begin with the name of a kind"]),
        (["jobs=3", "x y"], ["'jobs=3': must begin with the name of a kind", "'x y': 'y' is no limit"]),
        ([f"{LONGEST}k"], [f"'{LONGEST}k': must begin with the name of a kind"]),
        (["feed", "feed jobs=1"], ["'feed jobs=1': feed is named twice"]),
        (["*", "* jobs=1"], ["'* jobs=1': * is named twice"]),
        (["x y=1", "z"], ["'x y=1': 'y=1' is no limit; there are jobs, seconds, grace_seconds, memory_bytes, "]),
        (["x jobs=-1 nice"], ["'x jobs=-1 nice': 'jobs=-1' is no", "'x jobs=-1 nice': 'nice' is no"]),
        ([f"x jobs={2**62 + 1}"], [f"'x jobs={2**62 + 1}': 'jobs={2**62 + 1}' is no"]),
        (["x jobs=1_0"], ["'x jobs=1_0': 'jobs=1_0' is no"]),
    ],
)
def test_what_is_wrong_is_said_of_each_line(lines: list[str], faults: list[str]) -> None:
    found = parse_kinds(lines, USUAL)[1]
    assert [fault.startswith(expected) for fault, expected in zip(found, faults, strict=True)] == [True] * len(faults)
