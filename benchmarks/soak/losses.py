"""Whether all that was told was accepted, and all that was accepted was fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from soak.facts import Counted, Left
from soak.finding import Finding
from soak.samples import ACCEPTED, NEVER_CACHED, NO_ANSWER, SKIPPED, Sent

TRY_LATER = 1012
NAMES = {
    ACCEPTED: "accepted",
    TRY_LATER: '"try again later"',
    NO_ANSWER: "not answered",
    SKIPPED: "not sent, others waited",
    NEVER_CACHED: "never cached",
}


def named(codes: Mapping[int, int], what: str) -> str:
    """How many ended how, for people."""
    order = sorted(codes.items(), key=lambda each: (each[0] != ACCEPTED, each))
    return ", ".join(f"{number} {what} {NAMES.get(code, code)}" for code, number in order) or f"no {what}"


def all_accepted(sets: Mapping[int, int], probes: Mapping[int, int]) -> Finding:
    """Outside the overload nothing is turned away.

    :param sets, probes: code -> how many.
    """
    kept = set(sets) == {ACCEPTED} and set(probes) == {ACCEPTED}
    figures = f"{named(sets, 'sets')}; {named(probes, 'single pages')}"
    return Finding("at half the rate all is accepted", kept, figures, "none is turned away or not answered")


def all_counted(found: Counted) -> Finding:
    """Each telling at half the rate was a change of the cache of its own, or still waits.

    A page that is told anew while it waits to be fetched is fetched once, and that would be missing here.  It does
    not happen at a latency that keeps the other promises: the pages of a provider come round after two
    minutes (Plan.window_pages), and a probe tells of no page before it has seen what became of it.
    """
    told = found.told + found.single
    missing = told - found.changes - found.queued
    kept = told > 0 and not missing
    figures = (
        f"{found.told} pages of sets and {found.single} single ones accepted, {found.changes} changes recorded,"
        f" {found.queued} queued: {abs(missing)} {'too many' if missing < 0 else 'missing'}"
    )
    return Finding("each telling at half the rate is a fetch", kept, figures, "accepted = recorded + queued")


def accepted_last(sent: Iterable[Sent], window: int) -> dict[tuple[int, int], float]:
    """(provider, page) -> when it was told in the last set that was accepted."""
    last: dict[tuple[int, int], float] = {}
    for each in sent:
        if each.code == ACCEPTED:
            for number in range(each.first, each.first + each.count):
                key = each.pid, number % window
                last[key] = max(each.time, last.get(key, 0.0))
    return last


def left_over(
    told: Mapping[tuple[int, int], float], fetched: Mapping[tuple[int, int], int], queued: int, errors: int
) -> Left:
    """What was not fetched.

    :param fetched: (provider, page) -> when its content was recorded, whole seconds since 1970.
    """
    late = sum(fetched.get(key, 0) < int(time) for key, time in told.items())
    return Left(len(told), late, queued, errors)


def nothing_lost(left: Left) -> Finding:
    """Content of each page of each accepted set was recorded after it was told, under overload, too."""
    kept = left.pages > 0 and not (left.not_fetched or left.queued or left.errors or left.single_missing)
    figures = (
        f"{left.pages} pages accepted, {left.not_fetched} not recorded since they were told last,"
        f" {left.queued} still queued, {left.errors} errors, {left.single_missing} single pages never cached"
    )
    return Finding("nothing that was accepted is lost", kept, figures, "none")
