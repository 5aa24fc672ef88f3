"""What is remembered of statements: not each that there ever was."""

from __future__ import annotations

import sys

from lcc.storage.database.dialects import _with_literals

SOME, MANY = 200, 1000


def test_statements_with_lists_of_every_length_are_not_kept() -> None:
    """The queue manager asks for as many rows as a batch happens to have."""

    def ask(lengths: range) -> None:
        for length in lengths:
            marks = ",".join("?" * length)
            assert _with_literals(f"SELECT 'a%' FROM t WHERE id IN ({marks})", [1] * length).count("1") == length

    ask(range(1, SOME))
    before = sys.getallocatedblocks()
    ask(range(SOME, MANY))
    assert sys.getallocatedblocks() - before < 100
    assert _with_literals("SELECT 'a%' WHERE b = ?", ["x"]) == "SELECT 'a%' WHERE b = 'x'"
