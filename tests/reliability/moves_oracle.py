"""What must hold of several sub-LCCs whose providers move, besides what must hold of each LCC (:mod:`oracle`)."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .cluster import Registered
from .journal import Asked, Journal
from .oracle import CHECKS, Case, Violation, check_books, check_connections, check_feed
from .sub_lccs import Found

Copy = dict[str, tuple[str, str]]
OF_EACH = (check_books, check_connections)
"""What each sub-LCC counts by itself: changes, and the connections that a provider is shown."""


def judge_all(providers: list[Registered], port: int, journal: Journal, found: Found) -> Iterator[Violation]:
    """All broken promises.

    :param port: of the providers' web server.
    """
    yield from check_homes(found)
    for name, evidence in found.evidence.items():
        at_home = [each for each in providers if found.placed[each.pid] == name]
        for violation in check_books(Case(at_home, port, journal, evidence)):
            yield attrs.evolve(violation, text=f"{name}: {violation.text}")
    case = whole_case(providers, port, journal, found)
    for check in CHECKS:
        if check not in OF_EACH:
            yield from check(case)


def whole_case(providers: list[Registered], port: int, journal: Journal, found: Found) -> Case:
    """All sub-LCCs as one LCC."""
    # Each set may have come to another UNS: which one, nobody outside knows.
    sets = {number: attrs.evolve(told, uns=number) for number, told in journal.sets.items()}
    return Case(providers, port, attrs.evolve(journal, sets=sets), found.whole())


def check_homes(found: Found) -> Iterator[Violation]:
    """Each provider is in one sub-LCC, as a whole, and the front end knows it; none has come from nowhere."""
    for pid, names in sorted(found.homes.items()):
        placed = found.placed.get(pid)
        if placed is None:
            yield Violation("move", f"provider {pid} is in {sorted(names)}, and nobody has registered it")
        elif names != {placed}:
            yield Violation("move", f"provider {pid} is in {sorted(names)}; the front end has it in {placed}")


def check_copies(case: Case, copies: list[Copy]) -> Iterator[Violation]:
    """Each content user that has followed all changes has what the caches have together."""
    for number, copy in enumerate(copies, 1):
        for violation in check_feed(case, copy):
            yield attrs.evolve(violation, text=f"user {number}: {violation.text}")


def check_quiet(asked: list[Asked]) -> Iterator[Violation]:
    """A move alone has no page fetched.

    :param asked: of the web server, while nothing was told to anybody.
    """
    for each in asked:
        yield Violation("move", f"fetched for a move: {each}")
