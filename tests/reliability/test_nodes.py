"""What is noticed of nodes of a Galera cluster that are not alike."""

from __future__ import annotations

import pytest

from .nodes import judge_nodes

ROWS = {"urls": "17", "changes": "4"}


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ({"a": ROWS, "b": ROWS, "c": ROWS}, []),
        ({"a": ROWS, "b": {**ROWS, "urls": "18"}, "c": ROWS}, ["urls of b differs from that of a"]),
        ({"a": ROWS, "b": {"changes": "4"}, "c": ROWS}, ["urls of b differs from that of a"]),
        ({"a": {"changes": "4"}, "b": ROWS}, ["urls of b differs from that of a"]),
        ({"a": ROWS, "b": {}, "c": {"urls": "1", "changes": "2"}}, ["b is away", "changes of c", "urls of c"]),
        ({"a": {}, "b": ROWS, "c": {}}, ["a is away", "c is away"]),
    ],
)
def test_nodes_that_differ(sums: dict[str, dict[str, str]], said: list[str]) -> None:
    found = [str(violation) for violation in judge_nodes(sums)]
    assert len(found) == len(said)
    assert all(text in violation for text, violation in zip(said, found, strict=True)), found
