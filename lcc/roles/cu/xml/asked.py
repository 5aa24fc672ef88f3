"""A question of the XML interface: the attributes of its element, checked."""

from __future__ import annotations

import attrs

from lcc.protocols.cu import Question
from lcc.roles.cu.query import FIELDS, MULTIPLE, Query, QueryError, parse_query
from lcc.roles.cu.waiting import parse_wait

OTHERS = {
    "token": "of the content user",
    "content": "yes: each row with its content",
    "wait": "seconds to wait for the next change, if there is none yet",
}
"""Name -> meaning, beside the fields of any question."""


@attrs.frozen
class Asked:
    """:ivar content: rows come with their content.
    :ivar wait_seconds: how long the content user would wait for something new.
    """

    query: Query
    content: bool
    wait_seconds: float


def read_question(question: Question) -> Asked:
    """What is asked.

    :raises QueryError: with everything that is wrong.
    """
    faults = [f"<{name[:80]}> is not known: nothing stands inside a question" for name in question.elements]
    pairs: list[tuple[str, str]] = []
    others: dict[str, str] = {}
    for name, value in question.attributes.items():
        if name in MULTIPLE:
            # Without any value it is a fault: it must not mean everything.
            pairs += [(name, each) for each in value.split() or [value]]
        elif name in FIELDS:
            pairs.append((name, value))
        elif name in OTHERS:
            others[name] = value
        elif ":" not in name:
            faults.append(f"{name[:80]!r} is not known; there are {', '.join([*FIELDS, *OTHERS])}")
    query = Query()
    try:
        query = parse_query(pairs)
    except QueryError as error:
        faults += error.faults
    content = others.get("content", "no")
    if content not in ("yes", "no"):
        faults.append(f"content: {content[:80]!r} is neither yes nor no")
    wait = 0.0
    if "wait" in others:
        try:
            wait = parse_wait(others["wait"])
        except ValueError as error:
            faults.append(f"wait: {error}")
        if "since" not in question.attributes:
            faults.append("wait: belongs to a question with since")
    if faults:
        raise QueryError(faults)
    return Asked(query, content == "yes", wait)


def named_faults(error: QueryError) -> list[tuple[str, str]]:
    """The faults with the fields that they are in; empty: in none."""
    named = []
    for fault in error.faults:
        name, _, text = fault.partition(": ")
        named.append((name, text) if name in FIELDS or name in OTHERS else ("", fault))
    return named
