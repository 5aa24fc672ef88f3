"""Which promises were broken, judged by what the providers and their web server have seen (:mod:`journal`), what the
LCC shows at rest (:mod:`evidence`), and when which process was killed or stood still (:mod:`faults`).

Nothing here asks the LCC's own code what ought to have happened.  *The last operation* on a page is the one of the
set that spoke of it, was accepted, and began last: after its provider was greeted, and before it had its answer.  Any
set that may have begun later, and may have been accepted, may have come after it.  So a page has some *candidates*,
and what is in the cache must be what one of them leads to.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import attrs

from .cluster import SLOT_SECONDS, Registered
from .evidence import Evidence, Row
from .faults import Fault
from .journal import (
    ACCEPTED,
    DELETE,
    IF_ABSENT,
    REFUSED,
    REJECTED,
    UNKNOWN,
    UPDATE,
    Asked,
    Journal,
    Op,
    ToldSet,
)
from .pages import content, version_of

ANYTHING = Op("", "", IF_ABSENT, 0)
"""What allows any content of the page, or none."""
GONE = (404, 410)
REFUSAL = 1207
OVER_QUOTA = 1501
LATE_BEGIN_SECONDS = 5.0
"""How long after its provider has gone a set may still be taken to begin: the UNS is sure of less."""
LATE_SECONDS = 2.0
"""What a request may be later than the hours allow: the way from the robot through a loaded machine."""
KNOWN_SECONDS = 40.0
"""How long it may take until a fetch is recorded: what is killed earlier may take the knowledge with it."""


@attrs.frozen
class Violation:
    """A broken promise.

    :ivar promise: as in design 6.
    """

    promise: str
    text: str


@attrs.frozen
class Case:
    """All there is to judge."""

    providers: list[Registered]
    port: int
    journal: Journal
    evidence: Evidence
    faults: list[Fault] = attrs.field(factory=list)

    def path(self, provider: Registered, name: str) -> str:
        """Of a page on the web server."""
        return f"/{provider.name}/{name}"


Check = Callable[[Case], Iterator[Violation]]


def judge(case: Case) -> list[Violation]:
    """All broken promises."""
    return [violation for check in CHECKS for violation in check(case)]


# P1 to P5: what is in the cache.


def begun_by(told: ToldSet) -> float:
    """When a set had begun: it has an order number from then on, or gets none any more."""
    if told.drawn is not None:
        return told.drawn
    return told.answered if told.how == ACCEPTED else told.answered + LATE_BEGIN_SECONDS


def candidates(sets: list[ToldSet], name: str) -> list[Op | None]:
    """The operations that may have been the last one on a page; None: it was never told, or deleted.

    :param sets: of its provider, those that were greeted last first.  Which of two that were told at once began first
        nobody outside knows.
    """
    found: list[Op | None] = []
    conditional: ToldSet | None = None
    settled: float | None = None
    for told in sets:
        if told.how not in (ACCEPTED, UNKNOWN) or (settled is not None and begun_by(told) < settled):
            continue
        op = told.ops.get(name)
        if op is None and not told.full:
            continue
        if op is not None and op.kind == REFUSED:
            continue
        if conditional is not None and conditional.uns != told.uns:
            # Sets of two UNSes may be taken in in any order, if they were answered from the spools: what was asked
            # for only if it is absent may have found what was deleted before it.
            return [*found, ANYTHING]
        found.append(None if op is None or op.kind == DELETE else op)
        # What is asked for only if it is absent leaves what was told before in force.
        if op is not None and op.kind == IF_ABSENT:
            conditional = conditional or told
        elif told.how == ACCEPTED and settled is None:
            settled = told.welcomed
    return found if settled is not None else [*found, None]


def check_final_state(case: Case) -> Iterator[Violation]:
    """P2, P3, P4, P5 (and by the kills P1): each page is in the cache as one of its candidates has it."""
    given: dict[tuple[str, int], float] = {}
    for gave in case.journal.gave:
        given[gave.path, gave.status] = gave.time
    errors = errors_by_op(case)
    rows = {row.curl: row for row in case.evidence.rows if row.cached}
    for provider in case.providers:
        sets = sorted((told for told in case.journal.of(provider.pid) if told.seq), key=lambda told: -told.welcomed)
        root = f"http://127.0.0.1:{case.port}/{provider.name}/"
        names = {name for told in sets for name in told.ops}
        names |= {curl.removeprefix(root) for curl, row in rows.items() if row.pid == provider.pid}
        sent = {op.id: told.time for told in sets for op in told.ops.values()}
        for name in sorted(names):
            row = rows.get(root + name)
            path = case.path(provider, name)
            possible = candidates(sets, name)
            reasons = []
            for op in possible:
                wrong = contradiction(op, row, path, errors)
                if wrong == "" and op is not None and op is not ANYTHING:
                    wrong = unfounded(op, path, errors, given, sent)
                if wrong == "":
                    break
                reasons.append(f"{op}: {wrong}")
            else:
                shown = attrs.evolve(row, data=None) if row is not None else None
                yield Violation("P2/P3/P5", f"{path} is {shown}, which is none of: {'; '.join(reasons)}")


def contradiction(op: Op | None, row: Row | None, path: str, errors: dict[str, list[int]]) -> str:
    """Why the cache cannot be like this after this operation; empty: it can."""
    if op is ANYTHING and row is None:
        return ""
    if op is None:
        return "" if row is None else "it should not be cached"
    codes = errors.get(op.id, [])
    if row is not None:
        version = version_of(path, row.data) if row.data is not None else None
        if version is None:
            return "what is cached is no version of this page"
        if version >= op.version:
            return ""
        if any(code not in GONE for code in codes):
            return ""  # it has failed, what was there is kept
        return f"version {version} is cached, and no error says why"
    return "" if codes else "it is not cached, and no error says why"


def unfounded(
    op: Op,
    path: str,
    errors: dict[str, list[int]],
    given: dict[tuple[str, int], float],
    sent: dict[str, float],
) -> str:
    """Whether an HTTP status is reported that the web server did not give."""
    for code in errors.get(op.id, []):
        if code < 1000 and given.get((path, code), 0.0) < sent[op.id]:
            return f"error {code} is reported, which the web server has not given since"
    return ""


def check_answers(case: Case) -> Iterator[Violation]:
    """What the UNS says of each element and counts is right."""
    for told in case.journal.sets.values():
        refused = {op.id for op in told.ops.values() if op.kind == REFUSED}
        if told.how == ACCEPTED:
            if {id for _, id in told.faults} != refused or any(code != REFUSAL for code, _ in told.faults):
                yield Violation("protocol", f"set {told.number}: refused were {told.faults}, not {refused}")
            if told.received != len(told.ops) - len(refused):
                yield Violation("protocol", f"set {told.number}: {told.received} of {len(told.ops)} were received")


# P7: content.


def check_content(case: Case) -> Iterator[Violation]:
    """P7: each cached row has its file, of that length and hash, of its own."""
    files: dict[tuple[Any, Any], str] = {}
    for row in case.evidence.rows:
        if not row.cached:
            continue
        if row.data is None:
            yield Violation("P7", f"{row} has no file")
            continue
        if len(row.data) != row.length or hashlib.md5(row.data).hexdigest() != row.md5:
            yield Violation("P7", f"{attrs.evolve(row, data=None)}: its file has {len(row.data)} other bytes")
        where = row.machine, row.file
        if where in files:
            yield Violation("P7", f"{row.curl} and {files[where]} share a file: {where}")
        files[where] = row.curl


def check_books(case: Case) -> Iterator[Violation]:
    """What is counted of each provider is what there is; each change has a number of its own."""
    files: Counter[int] = Counter()
    space: Counter[int] = Counter()
    for row in case.evidence.rows:
        if row.cached:
            files[row.pid] += 1
            space[row.pid] += row.length or 0
    for pid, stats in case.evidence.stats.items():
        if (stats.files, stats.space, stats.processing) != (files[pid], space[pid], 0):
            yield Violation("books", f"{stats}, but there are {files[pid]} files of {space[pid]} bytes")
    for provider in case.providers:
        if provider.kind.files_max is not None and files[provider.pid] > provider.kind.files_max:
            yield Violation("quota", f"provider {provider.pid} has {files[provider.pid]} files")
    numbers = Counter(row.change for row in case.evidence.rows if row.change)
    for number, count in numbers.items():
        if count > 1 or number > case.evidence.last_change:
            yield Violation("feed", f"change {number} stands {count} times; the last is {case.evidence.last_change}")
    for what, left in case.evidence.left.items():
        yield Violation("P2", f"{left} {what} are left")


# P8: errors.


def errors_by_op(case: Case) -> dict[str, list[int]]:
    """Element's id -> codes of its errors: those that a provider was shown, and those that wait for it."""
    found: dict[str, set[int]] = defaultdict(set)
    for welcome in case.journal.welcomes:
        for code, op in welcome.errors:
            found[op].add(code)
    for kept in case.evidence.kept:
        found[kept.op].add(kept.code)
    return {op: sorted(codes) for op, codes in found.items()}


def check_errors(case: Case) -> Iterator[Violation]:
    """P8: each error was shown or still waits to be; the count is exact."""
    known: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for welcome in case.journal.welcomes:
        if welcome.count != len(welcome.errors):
            yield Violation("P8", f"{welcome.count} errors were announced, {len(welcome.errors)} shown: {welcome}")
        known[welcome.pid].update(welcome.errors)
    waiting: Counter[int] = Counter()
    for kept in case.evidence.kept:
        if kept.number > case.evidence.stats[kept.pid].cleared:
            waiting[kept.pid] += 1
            known[kept.pid].add((kept.code, kept.op))
    for pid, stats in case.evidence.stats.items():
        if stats.errors != len(known[pid]):
            yield Violation("P8", f"provider {pid}: {stats.errors} errors are counted, {len(known[pid])} are known")
        if stats.errors - stats.cleared != waiting[pid]:
            yield Violation("P8", f"provider {pid}: {stats} but {waiting[pid]} are kept")
    ids = {op.id for told in case.journal.sets.values() for op in told.ops.values()}
    for op in errors_by_op(case):
        if op not in ids:
            yield Violation("P8", f"an error of an element that nobody sent: {op!r}")


def check_alarms(case: Case) -> Iterator[Violation]:
    """P9, the other way round: where nothing was damaged, nobody is asked for a full set."""
    for welcome in case.journal.welcomes:
        if welcome.wanted:
            yield Violation("P9", f"provider {welcome.pid} is asked for a full set for nothing: {welcome.wanted}")
    for stats in case.evidence.stats.values():
        if stats.wanted:
            yield Violation("P9", f"provider {stats.pid} is asked for a full set for nothing: {stats.wanted}")


def check_connections(case: Case) -> Iterator[Violation]:
    """No number of a connection is given twice (P5 rests on it)."""
    seen: set[tuple[int, int]] = set()
    for welcome in case.journal.welcomes:
        if (welcome.pid, welcome.seq) in seen:
            yield Violation("P5", f"connection {welcome.seq} of provider {welcome.pid} was counted twice")
        seen.add((welcome.pid, welcome.seq))


# P6 and P11: what the web server has seen.


def check_serial(case: Case) -> Iterator[Violation]:
    """P6: never two requests at once."""
    for asked in case.journal.asked:
        if asked.active > 1:
            yield Violation("P6", f"{asked.active} requests of provider {asked.pid} at once: {asked}")


def slot_of(when: float) -> int:
    """The slot of a time."""
    return int(when // SLOT_SECONDS) % 24


def check_hours(case: Case) -> Iterator[Violation]:
    """P11: no fetch outside the hours; a robot that stood still on the way is excused."""
    hours = {
        each.pid: {int(slot) for slot in each.kind.hours.split(",")} for each in case.providers if each.kind.hours
    }
    for asked in case.journal.asked:
        allowed = hours.get(asked.pid)
        if allowed is None or slot_of(asked.time) in allowed:
            continue
        if slot_of(asked.time - LATE_SECONDS - asked.lag) in allowed or stood_still(case, asked):
            continue
        yield Violation("P11", f"outside of its hours, in slot {slot_of(asked.time)}: {asked}")


def stood_still(case: Case, asked: Asked) -> bool:
    """Whether the robot stood still until just before this request."""
    return any(
        fault.what == "still"
        and fault.name == asked.agent
        and fault.until - 1 < asked.time < fault.until + LATE_SECONDS
        for fault in case.faults
    )


@attrs.frozen
class Owing:
    """A fetch of a provider with a bandwidth.

    :ivar known_bytes: given since its last fetch, without what the LCC may not know of.
    :ivar owed_bytes: what time had not paid for when this one began.
    """

    pid: int
    start: float
    rate: int
    known_bytes: int
    owed_bytes: float


def debts(case: Case) -> Iterator[Owing]:
    """What each fetch of providers with a bandwidth owes when it begins; what a robot or a BOT-M that was killed had
    received, and nobody knows of, is excused."""
    kills = sorted(
        fault.time for fault in case.faults if fault.what == "kill" and fault.name.startswith(("bot", "central"))
    )
    for provider in case.providers:
        rate = provider.kind.bandwidth_bytes
        if rate is None:
            continue
        # The balance of a bucket: what was given and is known to the LCC, less what time has paid for.
        debt, last = 0.0, 0.0
        events = sorted((each.time, each.bytes) for each in case.journal.gave if each.pid == provider.pid)
        starts = sorted(each.time for each in case.journal.asked if each.pid == provider.pid)
        index = 0
        for start in starts:
            known = 0
            while index < len(events) and events[index][0] <= start:
                when, size = events[index]
                index += 1
                if any(when - 1 < kill < when + KNOWN_SECONDS for kill in kills):
                    size = 0
                known += size
                debt = max(0.0, debt - 1.05 * rate * (when - last)) + size
                last = when
            # Answers of long ago are paid for by now.
            yield Owing(provider.pid, start, rate, known, debt - 1.05 * rate * (start - last))


def check_bandwidth(case: Case) -> Iterator[Violation]:
    """P11: no fetch begins before all that has travelled is paid for."""
    broken = set()
    for each in debts(case):
        if each.owed_bytes > each.rate * LATE_SECONDS and each.pid not in broken:
            broken.add(each.pid)
            text = f"provider {each.pid} owes {each.owed_bytes:.0f} bytes at a new fetch at {each.start}"
            yield Violation("P11", text)


def spaces(case: Case) -> Iterator[tuple[Registered, Asked, Asked]]:
    """Requests of providers with an interval, each with the one before; what a robot that stood still sent late is
    left out."""
    for provider in case.providers:
        if provider.kind.interval_seconds is None:
            continue
        asked = sorted((each for each in case.journal.asked if each.pid == provider.pid), key=lambda each: each.time)
        for before, after in pairwise(asked):
            if not stood_still(case, before):
                yield provider, before, after


def check_interval(case: Case) -> Iterator[Violation]:
    """P11: no fetch begins before the interval since the last one is over."""
    for provider, before, after in spaces(case):
        seconds = after.time - before.time
        if seconds + LATE_SECONDS + before.lag < (provider.kind.interval_seconds or 0.0):
            yield Violation("P11", f"{seconds:.1f} s between {before} and {after}")
            return


def check_feed(case: Case, copy: dict[str, tuple[str, str]]) -> Iterator[Violation]:
    """A content user that has followed all changes has exactly what the cache has.

    :param copy: conceptual URL -> md5 as the row said, md5 of the content.
    """
    cached = {row.curl: (row.md5, row.md5) for row in case.evidence.rows if row.cached}
    for curl in sorted(cached.keys() | copy.keys()):
        if cached.get(curl) != copy.get(curl):
            yield Violation("feed", f"{curl}: a content user has {copy.get(curl)}, the cache {cached.get(curl)}")


CHECKS: tuple[Check, ...] = (
    check_final_state,
    check_answers,
    check_content,
    check_books,
    check_errors,
    check_alarms,
    check_connections,
    check_serial,
    check_hours,
    check_bandwidth,
    check_interval,
)


def figures(case: Case) -> dict[str, int]:
    """How much there was to judge."""
    with_hours = {each.pid for each in case.providers if each.kind.hours}
    hows = Counter(told.how for told in case.journal.sets.values())
    return {
        "sets": len(case.journal.sets),
        "accepted": hows[ACCEPTED],
        "rejected": hows[REJECTED],
        "unknown": hows[UNKNOWN],
        "unsent": len(case.journal.sets) - hows[ACCEPTED] - hows[REJECTED] - hows[UNKNOWN],
        "elements": sum(len(told.ops) for told in case.journal.sets.values()),
        "updates": sum(op.kind == UPDATE for told in case.journal.sets.values() for op in told.ops.values()),
        "requests": len(case.journal.asked),
        "requests_in_hours": sum(asked.pid in with_hours for asked in case.journal.asked),
        # Those before which something was given that the LCC must know of: others cannot come too early.
        "requests_in_bandwidth": sum(each.known_bytes > 0 for each in debts(case)),
        "requests_in_interval": sum(1 for _ in spaces(case)),
        "cached": sum(row.cached for row in case.evidence.rows),
        "errors": sum(stats.errors for stats in case.evidence.stats.values()),
        "bytes": sum(gave.bytes for gave in case.journal.gave),
    }


__all__ = ["Case", "Violation", "candidates", "check_feed", "content", "errors_by_op", "figures", "judge"]
