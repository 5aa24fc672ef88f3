"""The UNS's end of the wire of notifiers: what it takes, from whom, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from lcc.errors import code
from lcc.model import Provider, Source
from lcc.model.notifiers import JOBS_MAY_SAY, MAY_SAY, NOTIFIERS
from lcc.model.sources import parse_source
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import (
    Accepted,
    Again,
    Draw,
    Drawn,
    Fault,
    Hold,
    Rejected,
    SetBegin,
    SetEnd,
    Watch,
    Watched,
    Window,
)
from lcc.protocols.uns_qm import Absorbed
from lcc.protocols.worker import NotifyUrl
from tests.support.logs import LoggedErrors
from tests.support.roles.notifiers import a_set, connect_notifier
from tests.support.roles.uns import World, partial
from tests.support.segments import segmentations
from tests.uns.kit import Answers


def test_a_set_goes_the_way_of_a_providers(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    assert [type(each) for each in notifier.heard()] == [Window]
    notifier.say(a_set(5, "a", "b"))
    assert notifier.heard() == [Accepted(5)]
    (taken,) = qm.sets
    begin = taken.begin
    assert (begin.pid, begin.source, begin.connseq, begin.full) == (7, "polled", 0, False)
    assert (begin.notifier, begin.said_epoch, begin.said) == ("scheduler/n1", "e1", 5)
    assert [notice.curl for notice in taken.notices] == ["http://site.example/a", "http://site.example/b"]
    assert world.uns.counters.notifier_sets_accepted == 1


def test_many_sets_of_many_providers_are_answered_at_once(world: World) -> None:
    for pid in range(10, 60):
        world.database.providers[pid] = Provider(pid, ("http://site.example/",), "")
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(*(a_set(number, "a", pid=10 + number % 50) for number in range(1, 201)))
    answers = notifier.answers()
    assert answers[-1] == Accepted(200) and len(answers) < 20
    assert [taken.begin.said for taken in qm.sets] == list(range(1, 201))
    assert not world.set_files() and not world.incoming_files()


def test_answers_are_in_the_order_of_the_sets(world: World) -> None:
    late = Answers(world)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"), a_set(2, "a", pid=99), a_set(3, "b"), a_set(4, "c", source="told"), a_set(9, "d"))
    assert notifier.answers() == []
    late.answer()
    assert notifier.answers() == [Accepted(1), Rejected(2, 1105, "the provider is no longer registered")]
    late.answer(2)
    said = notifier.answers()
    assert [type(each) for each in said] == [Accepted, Rejected, Accepted]
    assert (said[1].number, said[1].code) == (4, code("bad-set"))


def test_what_is_wrong_with_elements_is_told_at_once(world: World) -> None:
    late = Answers(world)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.send(
        SetBegin(1, 7, "feed").to_xml()
        + '<url c="http://site.example/a"/><url c="http://elsewhere.example/"/>'
        + '<url/><url c="http://site.example/" op="x"/>'
    )
    faults = notifier.heard()
    assert [(each.number, each.index, each.code) for each in faults] == [(1, 2, 1204), (1, 3, 1201), (1, 4, 1211)]
    assert faults[0].url == "http://elsewhere.example/"
    notifier.say(SetEnd(4))
    late.answer()
    assert notifier.heard() == [Accepted(1)]
    assert world.uns.counters.notifier_urls_refused == 3


def test_full_sets_are_rejected(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(SetBegin(1, 7, "listed", 0, full=True), SetEnd(0))
    (rejected,) = notifier.heard()
    assert (rejected.number, rejected.code) == (1, code("bad-set")) and "op=retract" in rejected.text
    assert not qm.sets


def test_a_set_of_nothing_but_faults_is_accepted_and_not_passed_on(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1), SetBegin(2, 7, "feed"), '<url c="nonsense"/>', SetEnd(1))
    assert [type(each) for each in notifier.heard()] == [Fault, Accepted]
    assert not qm.sets and not world.spool.size_bytes


@pytest.mark.parametrize("role", NOTIFIERS)
def test_each_role_says_its_own_sources_only(world: World, role: str) -> None:
    world.connect_qm()
    world.database.drawn[7] = 3
    notifier = connect_notifier(world, role)
    notifier.heard()
    for number, source in enumerate(Source, 1):
        name = str(source.name).lower()
        ordered = source in Source.TOLD | Source.PUSHED | Source.LISTED
        notifier.say(a_set(number, "a", source=name, order=3 if ordered else 0))
        (answer,) = notifier.answers()
        assert isinstance(answer, Accepted) == bool(source & MAY_SAY[role])


@pytest.mark.parametrize("source", ["link", "feed", "listed"])
def test_the_scheduler_says_what_its_jobs_notify_of(world: World, source: str) -> None:
    assert parse_source(source) & JOBS_MAY_SAY and NotifyUrl("http://site.example/").source == "link"
    world.connect_qm()
    world.database.drawn[7] = 3
    notifier = connect_notifier(world, "scheduler")
    notifier.heard()
    notifier.say(a_set(1, "a", source=source, order=3 if source == "listed" else 0))
    assert notifier.answers() == [Accepted(1)]


@pytest.mark.parametrize("source", ["", "nobody", "feed,polled", "TOLD"])
def test_a_source_that_is_none(world: World, source: str) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a", source=source))
    (answer,) = notifier.heard()
    assert answer.code == code("bad-set")


def test_order_numbers(world: World) -> None:
    qm = world.connect_qm()
    world.database.drawn[7] = 12
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(Draw(1, 7))
    assert notifier.heard() == [Drawn(1, 13)]
    world.database.drawn[8] = 20
    notifier.say(
        a_set(1, "a", source="listed", order=13),
        a_set(2, "a", source="listed", order=5),
        a_set(3, "a", source="listed", order=14),
        a_set(4, "a", source="listed"),
        a_set(5, "a", source="feed", order=5),
        a_set(6, "a", source="listed", order=20, pid=8),
    )
    answers = notifier.answers()
    assert [each.number for each in answers if isinstance(each, Rejected)] == [3, 4, 5]
    assert {each.code for each in answers if isinstance(each, Rejected)} == {code("bad-order")}
    assert [taken.begin.connseq for taken in qm.sets] == [13, 5, 20]


def test_a_number_that_is_held_is_kept_while_nobody_else_draws(world: World) -> None:
    notifier = connect_notifier(world, "push")
    notifier.heard()
    notifier.say(Draw(1, 7))
    notifier.say(Draw(2, 7, 1))
    assert notifier.heard() == [Drawn(1, 1), Drawn(2, 1)]
    again = connect_notifier(world, "push")
    again.heard()
    again.say(Draw(1, 7, 1), Draw(2, 7, 2))
    assert again.heard() == [Drawn(1, 2), Drawn(2, 2)]
    world.database.drawn[7] = 3
    again.say(Draw(3, 7, 2))
    assert again.heard() == [Drawn(3, 4)]


def test_a_number_is_not_given_again_while_a_set_with_it_waits_here(world: World) -> None:
    """The next set may be told through another UNS, and be there first: the older one would count as newer."""
    notifier = connect_notifier(world, "push")
    notifier.heard()
    notifier.say(Draw(1, 7))
    notifier.say(SetBegin(1, 7, "pushed", 1), '<url c="http://site.example/a" m="text/html"/>', SetEnd(1))
    notifier.say(Draw(2, 7, 1))
    assert [each.order for each in notifier.heard() if isinstance(each, Drawn)] == [1, 2]


def test_numbers_of_providers_that_are_not_there(world: World) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(Draw(1, 99))
    (answer,) = notifier.heard()
    assert (answer.id, answer.code) == (1, code("provider-gone"))
    assert 99 not in world.database.drawn
    world.database.away = True
    notifier.say(Draw(2, 8))
    (answer,) = notifier.heard()
    assert (answer.id, answer.code) == (2, code("try-later"))


def test_watched_providers(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a", pid=9))
    notifier.say(Watch(1, "http://site.example:80"), Watch(2, "http://NEW.example/blog/"), Watch(3, "nonsense"))
    rejected, *answers = notifier.heard()
    assert rejected.code == code("provider-gone")
    assert answers == [Watched(1, 7), Watched(2, 9), Watched(3, 0, code("bad-url"), answers[2].text)]
    assert world.database.providers[9].roots == ("http://new.example/blog/",)
    notifier.say(SetBegin(2, 9, "polled"), '<url c="http://new.example/robots.txt"/>', SetEnd(1))
    assert notifier.heard() == [Accepted(2)]
    assert qm.sets[-1].begin.pid == 9


def test_what_robots_txt_of_a_host_asks_for(world: World) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    site, folder = "http://new.example/", "http://new.example/blog/"
    notifier.say(Watch(1, site[:-1], 20_500, hours="6-8"), Watch(2, folder, 1), Watch(3, site, 1, hours="6-25"))
    good, bad, odd = notifier.heard()
    assert good == Watched(1, 9) and (bad.code, odd.code) == (code("bad-url"), code("bad-hours"))
    assert world.database.asked_by_sites == {site: (20.5, "6-8")}


def test_sites_on_private_addresses(world: World) -> None:
    """A spider, whose operator has said so, has them watched; others do not hear of such sites from an operator."""
    spider = connect_notifier(world, "spider")
    spider.heard()
    spider.say(Watch(1, "http://inside.example/", private=True), Watch(2, "http://outside.example/"))
    assert spider.heard() == [Watched(1, 9), Watched(2, 10)]
    assert [world.database.providers[pid].allow_private for pid in (9, 10)] == [True, False]
    scheduler = connect_notifier(world, "scheduler")
    scheduler.heard()
    scheduler.say(Watch(1, "http://more.example/", private=True))
    assert scheduler.closed and 11 not in world.database.providers


def test_watches_are_slowed_down(worlds: Callable[..., World]) -> None:
    world = worlds(notifier_watches_per_second=2.0)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(*(Watch(number, f"http://{number}.example/") for number in range(1, 11)))
    at_once = len(notifier.heard())
    assert 0 < at_once < 10
    notifier.say(a_set(1))  # meanwhile others go on
    assert notifier.heard() == [Accepted(1)]
    for _ in range(8):
        world.clock.advance(0.5)
    assert at_once + len(notifier.heard()) == 10


def test_a_set_that_comes_again_is_taken_once(world: World) -> None:
    late = Answers(world)
    first = connect_notifier(world)
    first.say(a_set(1, "a"), a_set(2, "b"), a_set(3, "c"))
    late.answer()
    first.lose()
    late.answer()  # nobody hears that
    again = connect_notifier(world)
    again.heard()
    again.say(a_set(1, "a"), a_set(2, "b"), a_set(3, "c"), a_set(4, "d"))
    assert again.answers() == [Accepted(2)]
    late.answer(2)
    assert again.answers() == [Accepted(4)]
    assert [taken.begin.said for taken in late.qm.sets] == [1, 2, 3, 4]


def test_faults_of_a_set_that_comes_again_are_told_again(world: World) -> None:
    late = Answers(world)
    text = SetBegin(1, 7, "feed").to_xml() + '<url c="http://site.example/a"/><url c="http://x.example/"/>'
    first = connect_notifier(world)
    first.say(text, SetEnd(2))
    first.lose()
    again = connect_notifier(world)
    again.heard()
    again.say(text, SetEnd(2))
    late.answer()
    assert [type(each) for each in again.heard()] == [Fault, Accepted]
    assert len(late.qm.sets) == 1


def test_a_second_connection_of_the_same_name_takes_its_place(world: World) -> None:
    world.connect_qm()
    first, other = connect_notifier(world), connect_notifier(world, name="n2")
    again = connect_notifier(world, epoch="e2")
    assert first.transport.closed and not other.transport.closed and not again.transport.closed
    assert len(world.uns.notifiers.open) == 2
    again.heard()
    again.say(a_set(1, "a"))
    assert again.answers() == [Accepted(1)]


def test_without_a_queue_manager_sets_are_secured(world: World) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"), a_set(2, "b"))
    assert notifier.answers()[-1] == Accepted(2)
    assert len(world.set_files()) == 2
    world.restart()
    again = connect_notifier(world)
    again.heard()
    again.say(a_set(1, "a"), a_set(2, "b"), a_set(3, "c"))
    qm = world.connect_qm()
    assert again.answers()[-1] == Accepted(3)
    assert [(taken.begin.said, taken.begin.notifier) for taken in qm.sets] == [
        (number, "scheduler/n1") for number in (1, 2, 3)
    ]
    assert not world.set_files()


def test_sets_wait_for_a_queue_manager_that_is_there(worlds: Callable[..., World]) -> None:
    """Without being written to the disk, even if there are others before them; but not for ever."""
    world = worlds(answer_timeout=10.0)
    world.link_capacity = 1
    late = Answers(world)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(*(a_set(number, "a") for number in range(1, 21)))
    assert not world.set_files() and not notifier.answers()
    world.pass_time(11)
    assert notifier.answers()[-1] == Accepted(20)
    assert len(world.set_files()) == 20
    late.answer(20)
    assert not world.set_files()


def test_a_lost_queue_manager_has_them_secured(world: World) -> None:
    late = Answers(world)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"))
    world.lose_qm()
    world.pump()
    assert notifier.answers() == [Accepted(1)]
    assert late.sets and len(world.set_files()) == 1


def test_what_the_queue_manager_refuses_is_rejected(world: World) -> None:
    world.connect_qm(lambda begin: Absorbed(begin.epoch, begin.number, 1105, "gone"))
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"))
    assert notifier.heard() == [Rejected(1, 1105, "gone")]


NONSENSE: list[Any] = [
    "<what/>",
    '<url c="x"/>',
    SetEnd(0).to_xml(),
    SetBegin(1, 7, "feed").to_xml() * 2,
    SetBegin(1, 7, "feed").to_xml() + SetEnd(1).to_xml(),
    a_set(2, "a") + a_set(2, "a"),
    a_set(0, "a"),
    Again().to_xml(),
    '<set number="1" pid="x" source="feed"/>',
    "</lcc:stream>",
    "&>",
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_ends_the_connection_and_nothing_else(world: World, text: str) -> None:
    world.connect_qm()
    notifier, other = connect_notifier(world), connect_notifier(world, name="n2")
    notifier.say(text)
    assert notifier.closed
    assert not other.closed and not world.incoming_files()


@pytest.mark.parametrize(
    "hello",
    [
        Hello(role="uns", name="x", epoch="e"),
        Hello(role="push", name="x", epoch="e"),
        Hello(role="scheduler", name="", epoch="e"),
        Hello(role="scheduler", name="x"),
        Hello(role="scheduler", name="x y", epoch="e"),
        Hello(role="scheduler", name="x", epoch="e" * 41),
        Hello(role="scheduler", name="x", epoch="e", version=2) if hasattr(Hello, "version") else None,
    ],
)
def test_who_may_not_connect(world: World, hello: Hello | None) -> None:
    if hello is None:
        pytest.skip("hellos have no version")
    notifier = connect_notifier(world, hello=hello.open_tag(), roles=frozenset(["scheduler"]))
    assert notifier.transport.closed and not world.uns.notifiers.open


def test_a_connection_that_is_lost_leaves_nothing_of_a_set_that_was_arriving(filing: World) -> None:
    notifier = connect_notifier(filing)
    notifier.say(SetBegin(1, 7, "feed"), '<url c="http://site.example/a"/>' * 5000)
    assert filing.spool.size_bytes
    notifier.lose()
    filing.pump()
    assert not filing.spool.size_bytes and not filing.incoming_files() and not filing.uns.notifiers.open


def test_a_uns_that_stops_answers_what_is_under_way(world: World) -> None:
    late = Answers(world)
    notifier, idle = connect_notifier(world), connect_notifier(world, name="n2")
    notifier.heard()
    notifier.say(a_set(1, "a"), SetBegin(2, 7, "feed"))
    stopped: list[None] = []
    world.uns.stop().addCallback(stopped.append)
    world.pump()
    assert notifier.answers() == [Hold(True, "this UNS stops"), Accepted(1)]
    assert late.sets and not stopped
    for each in (notifier, idle):
        assert each.transport.write_closed
        each.lose()
    assert stopped == [None]


def test_changes_of_a_provider_are_noticed(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.say(a_set(1, "a"))
    provider = world.database.providers[7]
    world.database.providers[7] = attrs.evolve(provider, roots=("http://new.example/",))
    world.pass_time(11)
    notifier.heard()
    notifier.say(a_set(2, "a", source="feed"))
    assert [type(each) for each in notifier.answers()] == [Fault, Accepted]
    world.database.providers[7] = attrs.evolve(provider, removed=True)
    world.pass_time(11)
    notifier.say(a_set(3, "a"))
    assert notifier.answers() == [Rejected(3, 1105, "the provider is no longer registered")]
    assert len(qm.sets) == 1


def test_providers_sessions_and_notifiers_go_on_together(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(Draw(1, 7))
    (drawn,) = notifier.heard()
    cp.send(partial("one"))
    world.pump()
    notifier.say(a_set(1, "a", source="listed", order=drawn.order))
    assert [(taken.begin.source, taken.begin.connseq) for taken in qm.sets] == [
        ("told", drawn.order + 1),
        ("listed", drawn.order),
    ]


CONVERSATION = (
    Hello(role="scheduler", name="n1", epoch="e1").open_tag()
    + Draw(1, 7).to_xml()
    + a_set(1, "a", "ä")
    + Watch(2, "http://new.example/").to_xml()
    + a_set(2, "a", pid=99)
    + SetBegin(3, 8, "feed").to_xml()
    + '<url c="http://site.example/a" m="text/html"/> <url c="nonsense"/>'
    + SetEnd(2).to_xml()
    + "<!-- > -->"
    + a_set(4, "gone", more="retract")
)


def test_at_every_segmentation(worlds: Callable[..., World]) -> None:
    world = worlds(notifier_watches_per_second=10_000.0)
    qm = world.connect_qm()
    whole: Any = None
    for at, pieces in enumerate(segmentations(CONVERSATION.encode())):
        world.database.drawn.clear()
        world.database.providers.pop(9, None)
        world.uns.notifiers.known._known.clear()
        qm.sets.clear()
        notifier = connect_notifier(world, hello="")
        for piece in pieces:
            notifier.send(piece)
            world.pump()
        said = notifier.heard()
        assert not notifier.closed
        notifier.lose()
        # Answers come once a turn: how many sets an <accepted> is for depends on the pieces.
        numbers = [each.upto for each in said if isinstance(each, Accepted)]
        kinds = sorted(repr(each) for each in said if not isinstance(each, Accepted))
        found = numbers[-1], kinds, [(taken.begin.said, taken.notices) for taken in qm.sets]
        whole = whole or found
        assert found == whole, at
        world.cps.clear()
    assert [said for said, _ in whole[2]] == [1, 3, 4]


def test_a_damaged_set_of_a_notifier_asks_no_provider_for_a_full_set(
    worlds: Callable[..., World], logged_errors: LoggedErrors
) -> None:
    world = worlds()
    notifier = connect_notifier(world)
    notifier.say(a_set(1, "a"), a_set(2, "b"), a_set(3, "c"), a_set(4, "d"))
    files = world.set_files()
    assert [name.partition("-")[2] for name in files] == ["7-n.set"] * 4
    (world.folder / files[0]).write_bytes(b"")
    (world.folder / files[1]).write_bytes(b"nonsense" * 100)
    third, fourth = ((world.folder / name).read_bytes() for name in files[2:])
    (world.folder / files[2]).write_bytes(third[:-1])
    (world.folder / files[3]).write_bytes(fourth[:-9] + b"nonsense\n")
    world.restart()
    qm = world.connect_qm()
    world.pass_time(1)
    assert not qm.sets and not world.spool.damage.pids
    assert len(list((world.folder / "damaged").iterdir())) == 4
    assert len(logged_errors.flush("Damaged set")) == 4 and len(logged_errors.flush("is lost")) == 1


def test_polls_and_hints_leave_a_session_its_number(world: World) -> None:
    """A set of a session costs a read, no commit, as long as nobody else draws: they draw nothing."""
    qm = world.connect_qm()
    cp, notifier = world.login(), connect_notifier(world)
    for number, source in enumerate(["polled", "feed", "polled"], 1):
        cp.send(partial(str(number)))
        world.pump()
        notifier.say(a_set(number, "a", source=source))
    told = [taken.begin.connseq for taken in qm.sets if taken.begin.source == "told"]
    assert len(told) == 3 and set(told) == {world.database.drawn[7]} == {1}


def test_a_providers_set_is_secured_before_those_of_notifiers(world: World) -> None:
    notifier, cp = connect_notifier(world), world.login()
    notifier.heard()
    world.held_threads = []
    notifier.say(*(a_set(number, "a") for number in range(1, 301)))
    cp.send(partial("one"))
    world.pump()
    while "set_accepted" not in cp.text:
        held, world.held_threads = world.held_threads, []
        assert held
        held[0]()
        world.held_threads += held[1:]
        world.pump()
    answered = [each.upto for each in notifier.answers() if isinstance(each, Accepted)]
    assert not answered or answered[-1] < 100
    world.release_threads()
    assert notifier.answers()[-1] == Accepted(300)
