"""Which of the waiting jobs is next, and who gets it."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.tasks.job_hosts import may_run
from lcc.model.tasks import DueJob
from lcc.roles.scheduler.ready import ReadyJobs


@attrs.define(eq=False)
class Taker:
    host: str = "a"
    whole: int = 10
    kinds: dict[str, int] = attrs.field(factory=lambda: {"k": 10})
    commands: set[str] = attrs.field(factory=lambda: {"c"})

    def free(self, kind: str) -> int:
        return self.kinds.get(kind, 0) if kind else self.whole

    def takes_kind(self, kind: str) -> bool:
        return kind in self.kinds

    def has(self, command: str) -> bool:
        return not command or command in self.commands


def job(number: int, due: int = 0, kind: str = "k", command: str = "c", resource: str = "", *hosts: str) -> DueJob:
    return DueJob(number, due, 0, kind, command, resource, hosts)


def ready(*jobs: DueJob) -> ReadyJobs:
    lines = ReadyJobs()
    for each in jobs:
        lines.add(each)
    return lines


def ids(lines: ReadyJobs, *takers: Taker, now: float = 100, limit: int = 99) -> list[int]:
    return [job.id for job, _ in lines.choose(takers, now, limit)]


def test_what_is_due_longest_comes_first() -> None:
    lines = ready(job(1, 5), job(2, 3), job(3, 4, command=""), job(4, 3))
    assert lines.oldest_due_time == 3
    assert ids(lines, Taker(), limit=3) == [2, 4, 3]
    assert ids(lines, Taker()) == [1] and len(lines) == 0


def test_room_of_kinds_and_of_all() -> None:
    jobs = [job(number, kind="ab"[number % 2], command="") for number in range(10)]
    assert ids(ready(*jobs), Taker(kinds={"a": 2, "b": 1})) == [0, 1, 2]
    assert ids(ready(*jobs), Taker(kinds={"a": 9, "b": 9}, whole=3)) == [0, 1, 2]
    assert ids(ready(*jobs)) == []
    small, large = Taker(kinds={"a": 1}), Taker(kinds={"a": 3})
    chosen = ready(*jobs).choose([small, large], 100, 99)
    assert [taker for _, taker in chosen].count(large) == 3 and len(chosen) == 4


def test_a_resource_is_used_by_one_job_at_a_time() -> None:
    lines = ready(job(1, resource="r"), job(2, resource="r"), job(3, resource="r", kind="other", command=""), job(4))
    taker = Taker(kinds={"k": 9, "other": 9})
    assert ids(lines, taker) == [1, 4]
    assert ids(lines, taker) == []
    lines.release("r", 7)  # somebody else
    assert ids(lines, taker) == []
    lines.release("r", 1)
    assert ids(lines, taker) == [2]


def test_a_resource_has_an_interval() -> None:
    lines = ready(job(1, resource="r"), job(2, resource="r"))
    lines.set_interval("r", 60, 50)
    assert ids(lines, Taker(), now=100) == []
    assert ids(lines, Taker(), now=110) == [1]
    lines.use("r", 1, 115)  # it took a while to start it
    lines.release("r", 1)
    assert ids(lines, Taker(), now=174) == []
    assert ids(lines, Taker(), now=175) == [2]
    lines.use("r", 2, 175)
    lines.release("r", 2)
    lines.add(job(3, resource="r"))
    lines.set_interval("r", 0, 0)
    assert ids(lines, Taker(), now=176) == [3]


def test_the_later_use_of_a_resource_counts() -> None:
    """It is stored when the start is ordered; the job goes out after the commit."""
    lines = ready(job(1, resource="r"), job(2, resource="r"))
    lines.set_interval("r", 60, 0)
    lines.use("r", 7, 150)
    lines.release("r", 7)
    lines.set_interval("r", 60, 110)
    assert ids(lines, Taker(), now=209) == []
    lines.set_interval("r", 100, 110)
    assert ids(lines, Taker(), now=249) == []
    lines.set_interval("r", 80, 160)
    assert ids(lines, Taker(), now=239) == []
    assert ids(lines, Taker(), now=240) == [1]
    lines.release("r", 1)
    # The clock is set back.
    lines.use("r", 8, 300)
    lines.release("r", 8)
    lines.no_later_than(200)
    lines.set_interval("r", 80, 200)
    assert ids(lines, Taker(), now=279) == []
    assert ids(lines, Taker(), now=280) == [2]
    # It was removed, and added again.
    lines.set_interval("r", 0, 0)
    lines.set_interval("r", 80, 0)
    lines.release("r", 2)
    lines.add(job(3, resource="r"))
    assert ids(lines, Taker(), now=281) == [3]


def test_a_job_that_does_not_start_uses_no_interval() -> None:
    lines = ready(job(1, resource="r"), job(2, resource="r"))
    lines.set_interval("r", 60, 0)
    assert ids(lines, Taker(), now=100) == [1]
    lines.release("r", 1)
    assert ids(lines, Taker(), now=101) == [2]


def test_hosts_and_executables() -> None:
    lines = ready(job(1, 0, "k", "c", "", "allow:b"), job(2, command="d"), job(3, 0, "k", "", "", "deny:a"))
    a, b = Taker("a"), Taker("b", commands=set())
    assert ids(lines, a) == []
    assert ids(lines, a, b) == []
    lines.managers_changed()
    assert ids(lines, a, b) == [3]
    b.commands = {"c", "d"}
    lines.managers_changed()
    assert ids(lines, a, b) == [1, 2]


def test_one_that_waits_no_longer() -> None:
    lines = ready(job(1), job(2))
    lines.discard(1)
    lines.discard(7)
    assert 1 not in lines and ids(lines, Taker()) == [2]


def test_lines_that_nobody_may_have_make_room_first() -> None:
    many = [job(number, number, command="missing") for number in range(10, 20)]
    lines = ready(*many, job(1, 50), job(2, 51))
    assert lines.make_room([Taker()]) and len(lines) == 2
    # What is missing is not forgotten, nor is it taken in as long as no manager has changed.
    assert lines.oldest_due_time == 10 and lines.read_from is None
    lines.add(job(15, 15, command="missing"))
    assert len(lines) == 2
    lines.managers_changed()
    assert lines.read_from == (10, 10)
    lines.add(job(15, 15, command="missing"))
    assert len(lines) == 3


def test_the_longest_lines_make_room_and_are_read_again_when_they_are_empty() -> None:
    lines = ready(*(job(number, number) for number in range(1, 11)), job(20, 1, command=""))
    assert lines.make_room([Taker()]) and len(lines) == 6
    lines.add(job(7, 7))
    assert 7 not in lines
    assert sorted(ids(lines, Taker(), limit=4)) == [1, 2, 3, 20] and lines.read_from is None
    assert ids(lines, Taker()) == [4, 5] and lines.read_from == (6, 6)
    lines.add(job(7, 7))
    assert 7 in lines
    assert not ready().make_room([Taker()]) and not ready(job(1)).make_room([Taker()])
    assert not ready(job(1), job(2)).make_room([])


def test_a_line_that_was_cut_is_read_again_when_its_jobs_are_gone() -> None:
    lines = ready(*(job(number, number) for number in range(1, 11)))
    assert lines.make_room([Taker()]) and len(lines) == 5
    for number in range(1, 6):
        assert lines.read_from is None
        lines.discard(number)
    assert lines.read_from == (6, 6) and lines.oldest_due_time is None


def test_how_much_is_cut() -> None:
    for count, kept in ((2, 1), (3, 2), (4, 2), (7, 4)):
        lines = ready(*(job(number, number) for number in range(count)), job(100, command=""))
        assert lines.make_room([Taker()])
        assert len(lines) == kept + 1 and 100 in lines and kept - 1 in lines


def test_how_many_of_each_kind_wait() -> None:
    lines = ready(job(1), job(2, 9, "k", "missing"), job(3, kind="other"))
    assert lines.waiting_by_kind == {"k": 2, "other": 1}
    lines.discard(3)
    assert lines.waiting_by_kind == {"k": 2}


def test_only_lines_of_more_than_half_the_longest_one_are_cut() -> None:
    lines = ready(*(job(number, number) for number in range(6)), *(job(10 + number, kind="l") for number in range(3)))
    assert lines.make_room([Taker(kinds={"k": 9, "l": 9})])
    assert lines.waiting_by_kind == {"k": 3, "l": 3}


def test_all_are_forgotten() -> None:
    lines = ready(job(1, 7), job(2, kind="other"), job(3, resource="r"))
    lines.use("r", 9, 0)
    lines.read_from = (1, 1)
    lines.clear()
    assert (len(lines), lines.oldest_due_time, lines.read_from) == (0, None, None)
    assert ids(lines, Taker()) == []
    lines.add(job(3, resource="r"))
    assert ids(lines, Taker()) == [], "its resource is still in use"


def test_nothing_is_left_of_kinds_that_were() -> None:
    lines = ReadyJobs()
    for number in range(50):
        lines.add(job(number, kind=f"k{number}"))
        lines.add(job(100 + number, kind=f"k{number}"))
        lines.discard(number)
        assert len(ids(lines, Taker(kinds={f"k{number}": 1}))) == 1
    assert lines._open == {} and lines._lines == {}


def test_one_that_has_changed() -> None:
    lines = ready(job(1, command="other"), job(2))
    lines.add(job(1, 50))
    assert len(lines) == 2 and ids(lines, Taker()) == [2, 1]


def test_the_clock_is_set_back() -> None:
    lines = ready(job(1, 100), job(2, 50))
    assert ids(lines, Taker(), now=60) == [2]
    assert ids(lines, Taker(), now=100) == [1]


JOBS = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.sampled_from("kl"),
        st.sampled_from(["", "c", "d"]),
        st.sampled_from(["", "", "r", "s"]),
        st.sampled_from([(), ("allow:a",), ("deny:a",)]),
    ),
    max_size=40,
)
TAKERS = st.lists(
    st.builds(
        Taker,
        st.sampled_from("abc"),
        st.integers(0, 5),
        st.dictionaries(st.sampled_from("kl"), st.integers(0, 4)),
        st.sets(st.sampled_from("cd")),
    ),
    max_size=4,
)


@given(JOBS, TAKERS)
def test_against_a_model(jobs: list[tuple[int, str, str, str, tuple[str, ...]]], takers: list[Taker]) -> None:
    """Nothing is given to who may not have it; and nothing waits that anybody could have."""
    waiting = [DueJob(number, each[0], 0, *each[1:]) for number, each in enumerate(jobs)]
    lines = ready(*waiting)
    chosen = lines.choose(takers, 60, 1000)
    kinds_left = {id(taker): dict(taker.kinds) for taker in takers}
    whole_left = {id(taker): taker.whole for taker in takers}
    used: set[str] = set()
    for each, found in chosen:
        assert isinstance(found, Taker)
        kinds = kinds_left[id(found)]
        assert kinds[each.kind] > 0
        kinds[each.kind] -= 1
        whole_left[id(found)] -= 1
        assert found.has(each.command) and may_run(each.hosts, found.host)
        assert not each.resource or each.resource not in used
        used.add(each.resource)
    assert all(whole >= 0 for whole in whole_left.values())
    gone = {each.id for each, _ in chosen}
    assert len(lines) == len(waiting) - len(gone)
    for each in waiting:
        if each.id in gone or (each.resource and each.resource in used):
            continue
        for taker in takers:
            room = kinds_left[id(taker)].get(each.kind, 0) > 0 and whole_left[id(taker)] > 0
            assert not (room and taker.has(each.command) and may_run(each.hosts, taker.host))
