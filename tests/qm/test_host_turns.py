"""Groups of providers that share a host, and their turns, each rule by itself; test_hosts.py plays them."""

from __future__ import annotations

from lcc.model import ProviderHosts
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.host_turns import HostTurns
from lcc.roles.qm.schedule.hosts import ALL, NO, SERIAL, HostGroup, HostGroups, Regrouped
from lcc.roles.qm.schedule.ready_queue import Ready, ReadyQueue
from lcc.roles.qm.schedule.work import START, ProviderWork

NOW = 1_700_000_000.0


def at(pid: int, *hosts: str, watched: bool = False) -> ProviderHosts:
    return ProviderHosts(pid, hosts, watched)


def groups_of(*providers: ProviderHosts, serial: str = ALL) -> HostGroups:
    groups = HostGroups(serial)
    groups.load(providers, NOW)
    return groups


def members(groups: HostGroups, pid: int) -> set[int]:
    group = groups.get(pid)
    return set() if group is None else set(group.members)


def group_of(groups: HostGroups, pid: int) -> HostGroup:
    group = groups.get(pid)
    assert group is not None
    return group


# Groups.


def test_where_no_host_is_serial_nothing_is_known() -> None:
    assert SERIAL == ("no", "watched", "all"), "values of the setting"
    groups = groups_of(at(1, "h", watched=True), at(2, "h"), serial=NO)
    assert groups.learn(at(3, "h", watched=True), NOW) is None
    groups.withhold([1])
    assert groups.removed(2, 1, NOW) is None
    assert (groups.groups, groups.leaving, groups.later, groups._at) == ([], {}, {}, {})


def test_all_of_a_host_are_one_group_and_one_alone_is_none() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "h", "i"), at(4, "i"), at(5, "j", watched=True))
    assert len(groups.groups) == 1 and members(groups, 1) == {1, 2, 3, 4}
    assert {id(groups.get(pid)) for pid in (1, 2, 3, 4)} == {id(groups.groups[0])}
    assert groups.get(5) is None and groups.groups[0].elsewhere == set()
    watched = groups_of(at(1, "h"), at(2, "h"), at(3, "i"), at(4, "i", watched=True), serial="watched")
    assert members(watched, 1) == set() and members(watched, 3) == {3, 4}


def test_only_a_change_makes_new_groups() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"))
    group = group_of(groups, 1)
    assert groups.learn(at(1, "h"), NOW) is None and groups.get(2) is group
    assert groups.learn(at(3), NOW) is None and groups.learn(at(3, "i"), NOW) is None
    assert groups.learn(at(4, "i"), NOW + 5) == Regrouped({3, 4}, [])
    assert groups.get(1) is group and group.began == NOW and group_of(groups, 3).began == NOW + 5
    groups.wait(group, Ready((7, 0), 2, 1))
    assert groups.learn(at(3, "h"), NOW) == Regrouped({1, 2, 3, 4}, [Ready((7, 0), 2, 1)])
    assert members(groups, 2) == {1, 2, 3} and groups.get(4) is None
    for pid in (1, 2, 3, 4):
        groups.removed(pid, 0, NOW)
    assert groups.groups == [] and groups._at == {} and groups.leaving == {}


def test_those_that_wait_are_counted_while_they_do() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "h"), at(4, "i"), at(5, "i"))
    assert groups.waiting_count == 0 and groups.with_waiting == []
    first, second = group_of(groups, 1), group_of(groups, 4)
    groups.wait(first, Ready((7, 0), 2, 1))
    groups.wait(first, Ready((6, 0), 3, 0))
    groups.wait(second, Ready((8, 0), 5, 0))
    assert groups.waiting_count == 3 and groups.with_waiting == [first, second]
    second.waiting.discard(5)
    assert groups.waiting_count == 2 and groups.with_waiting == [first] == list(groups._with_waiting)
    # Whose group is gone waits elsewhere.
    done = groups.learn(at(1, "z"), NOW)
    assert done is not None and done.waiting == [Ready((7, 0), 2, 1), Ready((6, 0), 3, 0)]
    assert groups.waiting_count == 0


def test_a_busy_provider_keeps_its_former_hosts_until_nothing_is_out() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "i"))
    assert groups.learn(at(1, "i"), NOW, busy=True) == Regrouped({1, 2, 3}, [])
    assert members(groups, 1) == {1, 2, 3} and groups.later == {1: at(1, "i")}
    # Its roots were changed back meanwhile.
    assert groups.learn(at(1, "h", "i"), NOW, busy=True) is None and groups.later == {}
    assert groups.free(1, NOW) is None and members(groups, 1) == {1, 2, 3}
    groups.learn(at(1, "i"), NOW, busy=True)
    assert groups.free(1, NOW) is not None and members(groups, 1) == {1, 3} and groups.later == {}
    assert groups.learn(at(4, "i"), NOW, busy=True) is not None, "a new one has no former hosts"
    # It is watched until then, too; one that was not watched is not.
    groups = groups_of(at(1, "h", watched=True), at(2, "h"), serial="watched")
    groups.learn(at(1, "h"), NOW, busy=True)
    assert members(groups, 1) == {1, 2}
    groups.free(1, NOW)
    assert groups.groups == []
    groups.removed(1, 1, NOW)
    assert groups.groups == [] and groups.later == {1: at(1)}


def test_what_was_withheld_belongs_to_its_former_hosts_until_it_is_let_go() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "i"), at(4, "j"), at(5, "j"))
    groups.withhold([1, 3, 4, 9])
    assert [group_of(groups, pid).elsewhere for pid in (2, 4)] == [{1}, {4}]
    assert group_of(groups, 2).occupied and group_of(groups, 2).contested
    groups.learn(at(1, "i"), NOW)
    assert members(groups, 1) == {1, 2, 3} and group_of(groups, 1).elsewhere == {1, 3}
    assert groups.free(1, NOW) is None and groups.later == {1: at(1, "i")}
    # What is out of it is known: it has its turn.
    groups.known(3)
    assert group_of(groups, 1).elsewhere == {1} and groups.known(9) is None
    assert groups.learn(at(3, "i", "k"), NOW) is not None and groups.later.keys() == {1}
    other = group_of(groups, 4)
    assert groups.let_go(NOW + 5) == [Regrouped({1, 2, 3}, [])]
    assert members(groups, 1) == {1, 3} and group_of(groups, 1).elsewhere == set()
    assert group_of(groups, 4) is other and (other.elsewhere, other.began) == (set(), NOW + 5)
    assert groups.learn(at(4, "z"), NOW) is not None and groups.later == {}


def test_one_of_which_is_known_what_is_out_is_withheld_no_longer() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"))
    groups.withhold([1])
    groups.known(1)
    assert groups.learn(at(1, "i"), NOW) is not None and groups.groups == [] and groups.later == {}


def test_what_is_out_of_a_removed_provider_holds_its_host() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "j"))
    groups.removed(3, 0, NOW)
    groups.removed(8, 2, NOW)
    assert groups.leaving == {} and groups.later == {}
    assert groups.removed(1, 3, NOW) is None and groups.leaving == {1: 3}
    assert group_of(groups, 2).elsewhere == {1} and groups.later == {1: at(1)}
    groups.known(1)
    assert group_of(groups, 2).elsewhere == {1}
    groups.learn(at(4, "h"), NOW)
    assert group_of(groups, 4).elsewhere == {1} and group_of(groups, 4).turns == set()
    groups.let_go(NOW)
    assert group_of(groups, 4).elsewhere == {1}
    assert groups.answered(5, NOW) is None and groups.free(1, NOW) is None
    assert groups.answered(1, NOW) is None and groups.answered(1, NOW) is None and groups.leaving == {1: 1}
    assert groups.answered(1, NOW) == Regrouped({1, 2, 4}, [])
    assert members(groups, 2) == {2, 4} and groups.leaving == {} and group_of(groups, 2).elsewhere == set()


def test_the_latest_start_counts_for_all() -> None:
    groups = groups_of(at(1, "h"), at(2, "h"), at(3, "i"))
    groups.began(3, NOW + 50)
    group = group_of(groups, 1)
    for begun, latest in ((-1, 0), (4, 4), (3, 4)):
        groups.began(2, NOW + begun)
        assert group.began == NOW + latest
    for step in (60.0, -3600.0):
        before = group.began
        groups.stepped(step)
        assert group.began == before + step


# Turns.


class Rig:
    """Turns of providers 1 to 3, which share a host, and of 4, which has one for itself."""

    def __init__(self) -> None:
        self.hosts = groups_of(at(1, "h"), at(2, "h"), at(3, "h"), at(4, "i"))
        self.group = group_of(self.hosts, 1)
        self.active: dict[int, ProviderWork] = {}
        self.ready = ReadyQueue()
        self.delays = Delays(10.0, 100.0, lambda: 0.5)
        self.delays.release(NOW + 7)
        self.updated: list[int] = []
        self.recalled: list[int] = []
        self.turns = HostTurns(
            *(self.hosts, self.active, self.ready, self.delays),
            lambda work: self.updated.append(work.pid),
            lambda work: self.recalled.append(work.pid),
        )

    def begin(self, pid: int, priority: int = 0, busy: int = 0) -> ProviderWork:
        work = self.active[pid] = ProviderWork(pid, START, priority)
        work.busy = busy
        self.turns.begins(work)
        return work

    @property
    def said(self) -> tuple[list[int], list[int]]:
        """Who was updated, and who was recalled, since this was asked last."""
        said = (self.updated, self.recalled)
        self.updated, self.recalled = [], []
        return said


def test_one_has_the_turn_and_the_others_wait_in_their_group() -> None:
    rig = Rig()
    assert rig.turns.must_wait(Ready((1, 0), 1, 0)) is False and rig.turns.must_wait(Ready((1, 0), 4, 0)) is False
    rig.group.waiting.add(1, (1, 0), 0)
    work = rig.begin(1, busy=1)
    assert work.group is rig.group and rig.group.turns == {1} and 1 not in rig.group.waiting
    assert rig.begin(4).group is None
    assert rig.turns.must_wait(Ready((5, 0), 2, 1)) is True and rig.turns.must_wait(Ready((4, 0), 3, 0)) is True
    assert rig.hosts.waiting_count == 2 and len(rig.ready) == 0
    assert rig.turns.queue_of(2) is rig.group.waiting
    assert [rig.turns.queue_of(pid) is rig.ready for pid in (1, 4, 9)] == [True, True, True]
    assert rig.said == ([], [1]), "2 is of a higher priority"
    # While it has its turn nobody else gets it.
    rig.turns.pass_on(3)
    rig.turns.pass_on(4)
    assert len(rig.ready) == 0
    rig.turns.ends(work)
    assert rig.ready.next() == Ready((5, 0), 2, 1) and rig.group.turns == set()
    rig.turns.pass_on(2)
    assert rig.ready.next() == Ready((4, 0), 3, 0)
    rig.turns.pass_on(2)
    assert len(rig.ready) == 0


def test_who_leaves_the_queue_waits_nowhere() -> None:
    rig = Rig()
    rig.ready.add(4, (1, 0), 0)
    rig.ready.add(1, (1, 0), 0)
    rig.group.waiting.add(2, (2, 0), 0)
    rig.group.waiting.add(3, (3, 0), 0)
    rig.turns.leave_queue(4)
    assert 4 not in rig.ready
    rig.turns.leave_queue(2)
    assert 2 not in rig.group.waiting and 2 not in rig.ready
    assert rig.ready.get(3) == Ready((3, 0), 3, 0), "nobody has the turn"
    rig.turns.leave_queue(1)
    assert [turn.pid for turn in rig.ready.first(9)] == [3]


def test_a_higher_priority_presses() -> None:
    rig = Rig()
    busy = rig.begin(1, priority=1, busy=2)
    rig.turns.press(rig.group, 1)
    assert rig.said == ([], [])
    rig.turns.press(rig.group, 2)
    assert rig.said == ([], [1])
    busy.recalled = True
    rig.turns.press(rig.group, 2)
    assert rig.said == ([], [])
    busy.busy = 0
    rig.turns.press(rig.group, 0)
    assert rig.said == ([1], []), "it has nothing out: it may have to give its turn up"


def test_a_priority_is_that_of_who_waits_wherever_that_is() -> None:
    rig = Rig()
    rig.begin(1, busy=1)
    rig.ready.add(4, (1, 0), 0)
    rig.group.waiting.add(2, (2, 0), 0)
    rig.turns.set_priority(4, 2)
    rig.turns.set_priority(3, 2)
    assert rig.ready.priority(4) == 2 and rig.said == ([], []), "3 does not wait"
    rig.turns.set_priority(2, 1)
    assert rig.group.waiting.priority(2) == 1 and rig.said == ([], [1])
    rig.turns.set_priority(9, 1)


def test_a_change_of_hosts_moves_turns_and_who_waits() -> None:
    rig = Rig()
    first = rig.begin(1, busy=1)
    rig.hosts.wait(rig.group, Ready((5, 0), 2, 1))
    other = rig.begin(4)
    rig.turns.learn(at(3, "h", "i"))
    group = group_of(rig.hosts, 4)
    assert group.members == {1, 2, 3, 4} and first.group is other.group is group and group.turns == {1, 4}
    assert rig.ready.next() == Ready((5, 0), 2, 1) and sorted(rig.said[0]) == [1, 4]
    assert group.began == NOW + 7 and group.contested
    # Who is gone, or is what this is about, is not put anywhere here.
    first.gone = True
    rig.turns.learn(at(4, "z"))
    assert rig.said == ([], []) and other.group is None
    first.gone = False
    rig.turns.learn(at(4, "i"))
    assert rig.said == ([1], [])


def test_a_busy_provider_moves_once_it_is_free() -> None:
    rig = Rig()
    work = rig.begin(1, busy=1)
    rig.turns.learn(at(1, "i"))
    assert rig.hosts.later == {1: at(1, "i")} and group_of(rig.hosts, 1).members == {1, 2, 3, 4}
    rig.turns.free(2)
    work.busy = 0
    rig.turns.free(1)
    assert group_of(rig.hosts, 1).members == {1, 4} and rig.hosts.later == {}
    assert work.group is group_of(rig.hosts, 1) and rig.said == ([], [])
    rig.turns.learn(at(1, "h"))
    assert group_of(rig.hosts, 1).members == {1, 2, 3}, "nothing is out"
    rig.turns.learn(at(2, "i"))
    assert group_of(rig.hosts, 2).members == {2, 4}, "it has no turn"


def test_orders_of_removed_providers_are_awaited() -> None:
    rig = Rig()
    rig.begin(1, busy=2)
    rig.turns.removed(1)
    del rig.active[1]
    rig.turns.removed(3)
    assert rig.hosts.leaving == {1: 2} and rig.group is not group_of(rig.hosts, 2)
    assert rig.turns.must_wait(Ready((5, 0), 2, 1))
    rig.turns.answered(1, NOW)
    rig.turns.answered(2, NOW)
    assert len(rig.ready) == 0
    rig.turns.answered(1, NOW)
    assert rig.ready.next() == Ready((5, 0), 2, 1) and rig.hosts.groups == []
    rig.turns.answered(1, NOW)


def test_who_waited_for_what_was_withheld_goes_on() -> None:
    rig = Rig()
    rig.hosts.withhold([1])
    assert rig.turns.must_wait(Ready((5, 0), 2, 1))
    rig.turns.let_go(NOW + 9)
    assert rig.ready.next() == Ready((5, 0), 2, 1) and rig.group.began == NOW + 9
    rig.hosts.withhold([4])
    rig.turns.learn(at(4, "h"))
    work = rig.begin(1)
    rig.turns.let_go(NOW)
    assert work.group is group_of(rig.hosts, 4) and work.group.turns == {1} and rig.said == ([1], [])
