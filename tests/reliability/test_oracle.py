"""The oracle of the kill test finds what it is there for: a world in which all is well, and what may go wrong in it,
one thing at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs
import pytest

from .cluster import Kind, Registered
from .evidence import Evidence, Kept, Row, Stats
from .faults import Fault
from .journal import (
    ACCEPTED,
    DELETE,
    IF_ABSENT,
    REFUSED,
    REJECTED,
    UNKNOWN,
    UNSENT,
    UPDATE,
    Asked,
    Gave,
    Journal,
    Op,
    ToldSet,
    Welcome,
)
from .oracle import Case, check_feed, figures, judge
from .pages import content

PORT = 8000
ROOT = f"http://127.0.0.1:{PORT}/p/"


def row(name: str, version: int, file: int, change: int) -> Row:
    """A cached page."""
    data = content(f"/p/{name}", version)
    return Row(1, ROOT + name, True, change, hashlib.md5(data).hexdigest(), len(data), 1, file, data)


def told(number: int, how: str, *ops: Op, full: bool = False) -> ToldSet:
    """A set on the connection of the same number."""
    valid = sum(op.kind != REFUSED for op in ops)
    faults = tuple((1207, op.id) for op in ops if op.kind == REFUSED) if how == ACCEPTED else ()
    ops_by_name = {op.name: op for op in ops}
    when = float(number)
    return ToldSet(
        *(number, 1, 9000, full, ops_by_name, when, number, how, 0, faults, valid), welcomed=when, answered=when + 0.5
    )


def sound(hours: str = "") -> Case:
    """All is well: a page that was changed, one that was deleted, one that has failed, one whose change may or may
    not have been taken."""
    sets = [
        told(1, ACCEPTED, *(Op(f"1-{name}", name, UPDATE, 1) for name in "abcd"), full=True),
        told(2, ACCEPTED, Op("2-a", "a", UPDATE, 2), Op("2-b", "b", DELETE, 1), Op("2-x", "x", REFUSED, 0)),
        told(3, ACCEPTED, Op("3-c", "c", UPDATE, 2)),
        told(4, UNKNOWN, Op("4-d", "d", DELETE, 1)),
        told(5, UNSENT, Op("5-a", "a", DELETE, 2)),
        told(6, REJECTED, full=True),
        told(7, ACCEPTED, Op("7-a", "a", IF_ABSENT, 2)),
    ]
    rows = [
        row("a", 2, 11, 5),
        row("c", 1, 12, 3),
        row("d", 1, 13, 4),
        Row(1, ROOT + "b", False, 6, "", 0, None, None),
    ]
    journal = Journal(
        {each.number: each for each in sets},
        [Welcome(1, float(number), number, 0, (), "") for number in range(1, 8)],
        [Asked(1, "/p/a", 5.0, "bot1a", 1, 0.0), Asked(1, "/p/c", 65.0, "bot1a", 1, 0.0)],
        [Gave(1, "/p/a", 5.1, 200, 500), Gave(1, "/p/c", 65.1, 500, 0)],
    )
    space = sum(each.length or 0 for each in rows if each.cached)
    evidence = Evidence(rows, [Kept(1, 1, 500, "3-c", ROOT + "c")], {1: Stats(1, 3, space, 0, 1, 0, "")}, 6, {})
    return Case([Registered(1, "", "p", Kind(hours=hours))], PORT, journal, evidence)


def with_rows(case: Case, change: Callable[[Row], Row | None]) -> Case:
    """The rows are others; what is counted of them is right."""
    rows = [new for each in case.evidence.rows if (new := change(each)) is not None]
    cached = [each for each in rows if each.cached]
    stats = attrs.evolve(case.evidence.stats[1], files=len(cached), space=sum(each.length or 0 for each in cached))
    return attrs.evolve(case, evidence=attrs.evolve(case.evidence, rows=rows, stats={1: stats}))


def with_set(case: Case, *sets: ToldSet) -> Case:
    """These were told as well."""
    journal = attrs.evolve(case.journal, sets=case.journal.sets | {each.number: each for each in sets})
    return attrs.evolve(case, journal=journal)


def promises(case: Case) -> set[str]:
    return {violation.promise for violation in judge(case)}


def test_what_is_well_is_well() -> None:
    assert judge(sound()) == []
    copy = {ROOT + name: (row(name, version, 0, 0).md5,) * 2 for name, version in (("a", 2), ("c", 1), ("d", 1))}
    assert list(check_feed(sound(), copy)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_a_page_that_is_lost_or_came_back(name: str) -> None:
    case = sound()
    if name == "b":
        broken = with_rows(case, lambda each: row("b", 1, 14, 6) if each.curl == ROOT + name else each)
    else:
        broken = with_rows(case, lambda each: None if each.curl == ROOT + name else each)
    # What may have been deleted may be gone, and what has failed may never have been there.
    assert promises(broken) == (set() if name in "cd" else {"P2/P3/P5"})


def test_a_page_that_nobody_told() -> None:
    case = sound()
    extra = attrs.evolve(case.evidence, rows=[*case.evidence.rows, row("z", 1, 15, 1)])
    assert "P2/P3/P5" in promises(attrs.evolve(case, evidence=extra))


def test_an_old_version() -> None:
    assert promises(with_rows(sound(), lambda each: row("a", 1, 11, 5) if each.curl == ROOT + "a" else each)) == {
        "P2/P3/P5"
    }


def test_a_set_that_was_not_accepted_has_no_effect() -> None:
    """Were it accepted, the same cache would be wrong."""
    for how in (UNSENT, REJECTED, UNKNOWN):
        assert promises(with_set(sound(), told(8, how, Op("8-d", "d", UPDATE, 1), full=True))) == set()
    assert promises(with_set(sound(), told(8, ACCEPTED, Op("8-d", "d", UPDATE, 1), full=True))) == {"P2/P3/P5"}


def test_an_operation_of_an_older_set_comes_too_late() -> None:
    late = told(8, ACCEPTED, Op("8-a", "a", DELETE, 1))
    assert promises(with_set(sound(), attrs.evolve(late, welcomed=1.0, answered=1.5))) == set()
    assert promises(with_set(sound(), late)) == {"P2/P3/P5"}
    # Told at once, either may have begun first: the order of the connections says nothing.
    assert promises(with_set(sound(), attrs.evolve(late, welcomed=1.9, answered=2.1))) == set()
    late, other = attrs.evolve(late, welcomed=8.3), told(9, ACCEPTED, Op("9-a", "a", UPDATE, 2))
    for answered, expected in ((8.4, set()), (8.2, {"P2/P3/P5"})):
        first = attrs.evolve(other, welcomed=8.1, answered=answered)
        assert promises(with_set(sound(), first, late)) == expected


def test_what_was_asked_for_if_absent() -> None:
    """It may have found what was deleted before by way of another UNS, as sets of two UNSes may be taken in in any
    order."""
    again = told(9, ACCEPTED, Op("9-a", "a", IF_ABSENT, 3))
    for uns, expected in ((9000, {"P2/P3/P5"}), (9001, set())):
        case = with_set(sound(), attrs.evolve(told(8, ACCEPTED, Op("8-a", "a", DELETE, 2)), uns=uns), again)
        assert promises(case) == expected


def test_errors() -> None:
    case = sound()
    lost = attrs.evolve(case, evidence=attrs.evolve(case.evidence, kept=[]))
    assert promises(lost) == {"P8", "P2/P3/P5"}
    shown = attrs.evolve(lost.journal, welcomes=[*case.journal.welcomes, Welcome(1, 9.0, 9, 1, ((500, "3-c"),), "")])
    told_of = attrs.evolve(lost, journal=shown)
    cleared = attrs.evolve(case.evidence.stats[1], cleared=1)
    assert promises(attrs.evolve(told_of, evidence=attrs.evolve(lost.evidence, stats={1: cleared}))) == set()
    twice = attrs.evolve(case.evidence.stats[1], errors=2)
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, stats={1: twice}))) == {"P8"}
    invented = [Kept(1, 1, 404, "3-c", ROOT + "c")]
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, kept=invented))) == {"P2/P3/P5"}
    strange = [*case.evidence.kept, Kept(1, 2, 500, "9-q", ROOT + "q")]
    known = attrs.evolve(case.evidence, kept=strange, stats={1: twice})
    assert promises(attrs.evolve(case, evidence=known)) == {"P8"}


def test_content_files() -> None:
    case = sound()
    assert promises(with_rows(case, lambda each: attrs.evolve(each, data=None))) >= {"P7"}
    damaged = with_rows(case, lambda each: attrs.evolve(each, data=each.data + b"!") if each.data else each)
    assert promises(damaged) >= {"P7"}
    assert promises(with_rows(case, lambda each: attrs.evolve(each, file=11) if each.cached else each)) == {"P7"}


def test_books_and_what_is_left() -> None:
    case = sound()
    stats = attrs.evolve(case.evidence.stats[1], files=4)
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, stats={1: stats}))) == {"books"}
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, left={"queue rows": 1}))) == {"P2"}
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, last_change=5))) == {"feed"}
    wanted = attrs.evolve(case.evidence.stats[1], wanted="cache-crash")
    assert promises(attrs.evolve(case, evidence=attrs.evolve(case.evidence, stats={1: wanted}))) == {"P9"}


def test_two_fetches_at_once() -> None:
    case = sound()
    case.journal.asked.append(Asked(1, "/p/b", 70.0, "bot1b", 2, 0.0))
    assert promises(case) == {"P6"}


def test_hours() -> None:
    """Slots last ten seconds: those requests come in slots 0 and 6."""
    assert promises(sound("0,6")) == set()
    assert promises(sound("0,5")) == {"P11"}
    still = Fault("still", "bot1a", 40.0, 64.5)
    assert promises(attrs.evolve(sound("0,5"), faults=[still])) == set()
    assert promises(attrs.evolve(sound("0,5"), faults=[attrs.evolve(still, name="bot1b")])) == {"P11"}


def test_bandwidth() -> None:
    slow = [Registered(1, "", "p", Kind(bandwidth_bytes=1000))]

    def fetches(pause_seconds: float) -> Case:
        journal = Journal(
            asked=[Asked(1, "/p/a", number * pause_seconds, "bot1a", 1, 0.0) for number in range(20)],
            gave=[Gave(1, "/p/a", number * pause_seconds + 0.1, 200, 5000) for number in range(20)],
        )
        return Case(slow, PORT, journal, Evidence([], [], {}, 0, {}))

    assert promises(fetches(5.0)) == set()
    assert promises(fetches(2.0)) == {"P11"}
    assert figures(fetches(2.0))["requests_in_bandwidth"] == 19
    # Who was killed may have taken the knowledge with it: nothing is judged then, and nothing counted as judged.
    killed = attrs.evolve(fetches(2.0), faults=[Fault("kill", "bot1a", 39.0, 39.5)])
    assert promises(killed) == set()
    assert figures(killed)["requests_in_bandwidth"] == 0


def test_interval() -> None:
    slow = [Registered(1, "", "p", Kind(interval_seconds=10.0))]

    def fetches(pause_seconds: float) -> Case:
        asked = [Asked(1, "/p/a", number * pause_seconds, "bot1a", 1, 0.0) for number in range(20)]
        return Case(slow, PORT, Journal(asked=asked), Evidence([], [], {}, 0, {}))

    assert promises(fetches(9.0)) == set(), "the way there may take some time"
    assert promises(fetches(7.0)) == {"P11"}
    assert figures(fetches(7.0))["requests_in_interval"] == 19
    still = [Fault("still", "bot1a", 0.0, number * 7.0) for number in range(20)]
    assert promises(attrs.evolve(fetches(7.0), faults=still)) == set()


def test_a_connection_number_given_twice() -> None:
    case = sound()
    case.journal.welcomes.append(Welcome(1, 9.0, 7, 0, (), ""))
    assert promises(case) == {"P5"}


def test_what_a_content_user_lacks() -> None:
    case = sound()
    assert {violation.promise for violation in check_feed(case, {})} == {"feed"}
    too_much = {each.curl: (each.md5, each.md5) for each in case.evidence.rows if each.cached} | {
        ROOT + "b": ("", "")
    }
    assert [violation.promise for violation in check_feed(case, too_much)] == ["feed"]
