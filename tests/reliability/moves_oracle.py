"""What must hold of several sub-LCCs whose providers move, besides what must hold of each LCC (:mod:`oracle`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tests.support.processes.followers import Telling

from .cluster import Kind, Registered
from .journal import ACCEPTED, DELETE, UNKNOWN, Asked, Journal
from .listings import Listing
from .oracle import CHECKS, GONE, Case, Violation, check_books, check_connections, check_feed
from .sub_lccs import Found

Copy = dict[str, tuple[str, str]]
OF_EACH = (check_books, check_connections)
"""What each sub-LCC counts by itself: changes, and the connections that a provider is shown."""


def judge_all(providers: list[Registered], port: int, journal: Journal, found: Found) -> Iterator[Violation]:
    """All broken promises.

    :param port: of the providers' web server.
    """
    yield from check_homes(found)
    yield from check_newcomers(port, journal, found)
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


# Newcomers.


def registered(port: int, journal: Journal, roots: dict[int, set[str]]) -> list[Registered]:
    """The providers that newcomers have become, whether they know it or not."""
    return [
        Registered(pid, newcomer.password, newcomer.name, Kind())
        for newcomer in journal.newcomers.values()
        for pid in _pids_of(newcomer.name, port, roots)
    ]


def _pids_of(name: str, port: int, roots: dict[int, set[str]]) -> list[int]:
    return sorted(pid for pid, each in roots.items() if f"http://127.0.0.1:{port}/{name}/" in each)


def check_newcomers(port: int, journal: Journal, found: Found) -> Iterator[Violation]:
    """Each newcomer is one provider, the one that it was answered; or none, if it was not answered."""
    for newcomer in journal.newcomers.values():
        there = _pids_of(newcomer.name, port, found.roots)
        if len(there) > 1 or (newcomer.pids and tuple(there) != newcomer.pids):
            yield Violation("register", f"{newcomer} is providers {there}")
        for pid in newcomer.pids:
            if pid in found.making:
                yield Violation("register", f"provider {pid} is still being made, and its owner knows it")


def check_ranges(providers: list[Registered], found: Found, ranges: dict[int, str]) -> Iterator[Violation]:
    """The id of each provider is of the range of the sub-LCC where it was made.

    :param ranges: provider -> name of the sub-LCC that has its id to give.
    """
    for each in providers:
        made = found.begun.get(each.pid, found.placed[each.pid])
        if ranges[each.pid] != made:
            yield Violation("register", f"provider {each.pid} was made in {made}: its id is of {ranges[each.pid]}")


# Content users.


def check_copies(case: Case, copies: list[Copy]) -> Iterator[Violation]:
    """Each content user that has followed all changes has what the caches have together."""
    for number, copy in enumerate(copies, 1):
        for violation in check_feed(case, copy):
            yield attrs.evolve(violation, text=f"user {number}: {violation.text}")


def repeats(tellings: Sequence[Telling]) -> Iterator[Telling]:
    """What a content user was told though it was the last that it had been told of the page.

    What it was told by an answer whose token it could not keep comes again: that is no repeat.
    """
    last: dict[str, Telling] = {}
    for each in tellings:
        before = last.get(each.key)
        if before is not None and (before.state, before.md5) == (each.state, each.md5):
            yield each
        if each.kept:
            last[each.key] = each


def check_repeats(
    case: Case, users: Sequence[Sequence[Telling]], flips: Mapping[int, int], quiet: float
) -> Iterator[Violation]:
    """Nobody is told what it knows, but for this: a page that was away for a moment, and is as it was; and whoever
    has not read all changes of a sub-LCC when a page leaves it may be told of it at each new home.  Whoever has read
    all is told nothing of moves.

    :param flips: provider -> how often it has moved.
    :param quiet: since then nobody has published.
    """
    allowed = times_away(case)
    roots = {f"http://127.0.0.1:{case.port}/{each.name}/": each.pid for each in case.providers}
    for number, tellings in enumerate(users, 1):
        again: Counter[str] = Counter()
        for each in repeats(tellings):
            if each.time > quiet:
                yield Violation("feed", f"user {number} is told again, and nobody has published: {each}")
            again[each.curl] += each.kept
        for curl, count in again.items():
            most = allowed[curl] + flips.get(roots[curl[: curl.rindex("/") + 1]], 0)
            if count > most:
                yield Violation("feed", f"user {number} is told {count} times again of {curl}, {most} at most")


def times_away(case: Case) -> Counter[str]:
    """How often each page may have been taken out of the cache: deleted, not named by a full set, or not found."""
    away: Counter[str] = Counter()
    for provider in case.providers:
        root = f"http://127.0.0.1:{case.port}/{provider.name}/"
        sets = [told for told in case.journal.of(provider.pid) if told.how in (ACCEPTED, UNKNOWN)]
        names = {name for told in sets for name in told.ops}
        for told in sets:
            for name in names if told.full else told.ops:
                if name not in told.ops or told.ops[name].kind == DELETE:
                    away[root + name] += 1
    for gave in case.journal.gave:
        if gave.status in GONE:
            away[f"http://127.0.0.1:{case.port}{gave.path}"] += 1
    return away


def check_listings(case: Case, listings: Sequence[Listing], quiet: float) -> Iterator[Violation]:
    """No page stands twice in a listing; where nothing changes it has all pages, as they are.

    :param quiet: since then nobody has published.
    """
    cached: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for row in case.evidence.rows:
        if row.cached:
            for pid in (0, row.pid):
                cached[pid].add((row.curl, row.md5))
    for listing in listings:
        twice = [url for url, count in Counter(url for url, _ in listing.pages).items() if count > 1]
        if twice:
            yield Violation("listing", f"of provider {listing.pid} at {listing.began}: {twice} more than once")
        if listing.began > quiet and set(listing.pages) != cached[listing.pid]:
            wrong = sorted(set(listing.pages) ^ cached[listing.pid])
            text = f"of provider {listing.pid} at {listing.began}: {len(listing.pages)} pages; wrong: {wrong[:4]}"
            yield Violation("listing", text)


def check_quiet(asked: list[Asked]) -> Iterator[Violation]:
    """A move alone has no page fetched.

    :param asked: of the web server, while nothing was told to anybody.
    """
    for each in asked:
        yield Violation("move", f"fetched for a move: {each}")
