"""Providers' connections: logging in, sets, errors, every way of being rejected."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import fromstring

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.protocols.cp_uns_client import init
from lcc.protocols.uns_qm import Absorbed, Set
from tests.support.roles.uns import CONVERSATION, PASSWORD, ROOT, STATUS, Cp, World, absorbed, codes, partial, url


def run_conversation(folder: Path, pieces: list[bytes]) -> tuple[bytes, list[bytes]]:
    world = World(folder)
    qm = world.connect_qm(lambda begin: None)
    cp = world.connect()
    for piece in pieces:
        cp.send(piece)
    world.pump()
    world.pass_time(31)
    assert len(qm.sets) == 2
    world.disk.close_all()
    answer, files = bytes(cp.received), [(folder / name).read_bytes() for name in world.set_files()]
    return answer, files


def test_the_whole_conversation(worlds: Callable[..., World]) -> None:
    world = worlds()
    qm = world.connect_qm()
    cp = world.connect()
    cp.send(CONVERSATION)
    world.pump()
    accepted, _, results = cp.text.partition("</lococa:init_accepted>")
    assert '<connect_info seq="1" lastConnectIP=""/>' in accepted
    assert "<mime>text/*</mime>" in accepted
    assert codes(results) == [1204, 1205, 1208, 1201]
    assert '<set_accepted received="4"/>' in results
    assert results.endswith(
        '<lococa:set_result>\n<errors>\n</errors>\n<set_accepted received="1"/>\n</lococa:set_result>\n'
    )
    full, second = qm.sets
    assert full.begin.full and not full.begin.answered and full.begin.connseq == 1
    assert [(n.curl, n.delete, n.named_only) for n in full.notices] == [
        (ROOT + "a", False, False),
        ("http://elsewhere.example/", False, True),
        (ROOT + "%C3%BCmlaut/%C3%BC", False, False),
        (ROOT + "b", False, True),
        (ROOT + "c", False, True),
        (ROOT + "d", True, False),
    ]
    assert [n.curl for n in second.notices] == [ROOT + "second"]
    assert world.set_files() == [] and world.incoming_files() == []
    assert not cp.closed  # the provider closes


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=st.sets(st.integers(1, len(CONVERSATION) - 1), max_size=12))
def test_every_segmentation_gives_the_same_answer_and_the_same_spool(
    tmp_path_factory: pytest.TempPathFactory, cuts: set[int]
) -> None:
    edges = [0, *sorted(cuts), len(CONVERSATION)]
    pieces = [CONVERSATION[a:b] for a, b in pairwise(edges)]
    folders = [tmp_path_factory.mktemp("spool") for _ in range(2)]
    assert run_conversation(folders[0], pieces) == run_conversation(folders[1], [CONVERSATION])


def test_byte_by_byte_gives_the_same(tmp_path: Path) -> None:
    pieces = [CONVERSATION[i : i + 1] for i in range(len(CONVERSATION))]
    assert run_conversation(tmp_path / "a", pieces) == run_conversation(tmp_path / "b", [CONVERSATION])


def test_a_connection_cut_off_at_any_byte_leaves_no_set(worlds: Callable[..., World]) -> None:
    whole = (init(7, PASSWORD) + partial("a", "b", kind="full")).encode()
    world = worlds()
    qm = world.connect_qm()
    for cut in range(len(whole) - 1):
        cp = world.connect()
        cp.send(whole[:cut])
        world.pump()
        if cut % 2:
            cp.half_close()
            world.pump()
            assert cp.closed
        if not cp.transport.closed:
            cp.lose()
    assert qm.sets == []
    assert world.set_files() == [] and world.incoming_files() == []
    assert world.spool.size_bytes == 0
    assert world.uns.counters.connections_now == 0
    cp = world.connect()
    cp.send(whole)
    world.pump()
    assert qm.numbers == [1]


def test_a_default_namespace_is_answered_without_prefix(world: World) -> None:
    world.connect_qm()
    cp = world.connect()
    cp.send(init(7, PASSWORD, prefix="") + f'<set urlprefix="{ROOT}">' + url("a") + "</set>")
    world.pump()
    assert (
        "<init_accepted>" in cp.text and "</set_result>" in cp.text and ":" not in re.findall(r"<(\S+)", cp.text)[0]
    )


def test_a_set_that_stops_arriving_is_rejected(world: World) -> None:
    cp = world.login()
    cp.send(partial("a", "b")[:-20])
    world.pump()
    for _ in range(4):
        world.pass_time(100)
    assert codes(cp.text) == [1005] and "set_rejected" in cp.text and cp.closed
    assert world.incoming_files() == []


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ("<nonsense/>", 1002),
        ('<init xmlns="http://example.org/"><provider id="7" passwd="x"/></init>', 1002),
        ("no xml at all >", 1001),
        ('<!DOCTYPE x><x xmlns="http://www.lococa.org/1.0"/>', 1004),
        ("<lococa:init>", 1001),
        (init(7, PASSWORD).replace("<provider", "<provided"), 1002),
        ("<a" + " " * 70_000 + ">", 1003),
    ],
)
def test_nonsense_instead_of_an_init(world: World, data: str, number: int) -> None:
    cp = world.connect()
    cp.send(data)
    world.pump()
    assert codes(cp.text) == [number] and "init_rejected" in cp.text and cp.closed


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        ("<lococa:fetch/>", [1002]),
        ('<lococa:set set="half"/>', [1103]),
        ('<lococa:set urlprefix="site.example/"/>', [1104]),
        ("<lococa:set><url c='a'/><broken</lococa:set>", [1202, 1001]),
        ("<lococa:set><a><b><c><d><e><f><g><h><i>", [1003]),
        ("junk>", [1001]),
    ],
)
def test_nonsense_instead_of_a_set(world: World, data: str, numbers: list[int]) -> None:
    world.connect_qm()
    cp = world.login()
    greeting = len(cp.text)
    cp.send(data)
    cp.send(b"x" * 100_000)
    world.pump()
    answer = cp.text[greeting:]
    assert codes(answer) == numbers and cp.closed
    assert answer.startswith("<lococa:set_result>\n<errors>") and answer.endswith("</lococa:set_result>\n")
    assert world.set_files() == [] and world.incoming_files() == []


def test_a_full_set_over_the_allowance_is_rejected_at_its_tag(world: World) -> None:
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=0)
    cp = world.login()
    cp.send(f'<lococa:set set="full" urlprefix="{ROOT}">')
    world.pump()
    assert codes(cp.text) == [1101] and cp.closed
    cp.send("<url c='a'/>" * 100)
    cp.half_close()
    world.pump()
    assert cp.transport.closed
    assert codes(world.login().text) == []


def test_full_sets_that_the_database_does_not_know_yet_count(world: World) -> None:
    """However many connections a provider has, and whether a queue manager is there or not."""
    begin = f'<lococa:set set="full" urlprefix="{ROOT}">'
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=2)

    def begun() -> Cp:
        cp = world.login()
        cp.send(begin)
        world.pump()
        return cp

    first, second, third = begun(), begun(), begun()
    assert [codes(cp.text) for cp in (first, second, third)] == [[], [], [1101]]
    second.lose()
    world.pump()
    second = begun()
    assert codes(second.text) == []
    for cp in (first, second):
        cp.send("</lococa:set>")
    world.pump()
    assert "set_accepted" in first.text and "set_accepted" in second.text
    assert codes(begun().text) == [1101], "they wait in the spool"
    world.restart()
    assert codes(begun().text) == [1101]
    early = world.login()

    def applied(begin: Set) -> Absorbed:
        world.database.used[begin.pid] += 1
        return absorbed(begin)

    world.connect_qm(applied)
    early.send(begin)
    world.pump()
    assert codes(early.text) == [1101], "it was told that two are left before these were applied"
    assert codes(begun().text) == [1101]
    world.database.used.clear()  # a new period
    assert codes(begun().text) == [], "what the database says now is all there is"


def test_a_full_set_that_is_refused_is_not_counted(world: World) -> None:
    world.connect_qm(lambda begin: Absorbed(begin.epoch, begin.number, 1105))
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=1)
    for _ in range(2):
        cp = world.login()
        cp.send(partial("a", kind="full"))
        world.pump()
        assert codes(cp.text) == [1105]


ELSEWHERE = "http://elsewhere.example/"


def full(*elements: str, prefix: str = ROOT) -> str:
    return f'<lococa:set set="full" urlprefix="{prefix}">' + "".join(elements) + "</lococa:set>"


def test_a_full_set_that_names_nothing_within_the_roots_is_refused(world: World) -> None:
    qm = world.connect_qm()
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=1)
    for elements in (
        [url("a"), url("b")],
        [url("a", 'm="text/html" outside="drop"')],
        [url("a", 'op="delete"'), '<url m="text/html"/>', url("http://[/")],
        [url(name) for name in map(str, range(200))],
    ):
        cp = world.login()
        cp.send(full(*elements, prefix=ELSEWHERE))
        world.pump()
        assert "set_accepted" not in cp.text and codes(cp.text)[-1] == 1106 and cp.closed
    assert qm.sets == [] and world.set_files() == [] and world.incoming_files() == []
    assert world.spool.size_bytes == 0


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [url(ELSEWHERE), url("a")],
        [url("a", "")],
        [url("a", 'm="video/mpeg"')],
        [url("a", f'm="text/html" f="{ELSEWHERE}"')],
        [url("a", 'op="delete"')],
        [url(name) for name in map(str, range(200))],
    ],
)
def test_a_full_set_that_is_empty_or_names_something_is_taken(world: World, elements: list[str]) -> None:
    qm = world.connect_qm()
    cp = world.login()
    cp.send(full(*elements))
    world.pump()
    assert "<set_accepted" in cp.text and len(qm.sets) == 1


def test_a_partial_set_may_lie_outside_as_a_whole(world: World) -> None:
    world.connect_qm()
    cp = world.login()
    cp.send(partial(ELSEWHERE))
    world.pump()
    assert codes(cp.text) == [1204] and '<set_accepted received="0"/>' in cp.text


def test_the_request_that_a_full_set_answers_is_noted(world: World) -> None:
    qm = world.connect_qm()
    world.database.statuses[7] = attrs.evolve(STATUS, full_set_wanted="cache-crash", wantid=99)
    cp = world.login()
    for kind in ("partial", "full", "full"):
        cp.send(partial("a", kind=kind))
    world.pump()
    assert [taken.begin.wantid for taken in qm.sets] == [0, 99, 0]
    world.lose_qm()
    cp = world.login()
    cp.send(partial("b", kind="full"))
    world.pump()
    world.restart()
    assert [taken.begin.wantid for taken in world.connect_qm().sets] == [99]


def test_a_wanted_full_set_is_free_once(world: World) -> None:
    world.connect_qm()
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=0, full_set_wanted="old-files")
    cp = world.login()
    assert 'allowed="0" wanted="yes" reason="old-files"' in cp.text
    cp.send(partial("a", kind="full"))
    world.pump()
    assert 'received="1"' in cp.text
    cp.send(partial("a", kind="full"))
    world.pump()
    assert codes(cp.text) == [1101]


def test_a_set_of_too_many_elements(worlds: Callable[..., World]) -> None:
    world = worlds(set_urls_max=2)
    world.connect_qm()
    assert "set_accepted" in _answer(world, partial("a", "b"))
    assert codes(_answer(world, partial("a", "b", "c"))) == [1102]


def test_a_set_of_too_many_bytes(worlds: Callable[..., World]) -> None:
    world = worlds(set_bytes_max=65536)
    world.connect_qm()
    assert codes(_answer(world, partial(*("x" * 50 for _ in range(2000))))) == [1003]
    assert world.set_files() == [] and world.incoming_files() == []


def test_errors_arrive_while_the_set_still_does(world: World) -> None:
    cp = world.login()
    cp.send(f'<lococa:set urlprefix="{ROOT}"><url c="ftp//" f="gopher://x/"/>' + url("ok"))
    world.pump()
    assert len(codes(cp.text)) == 1 and "set_accepted" not in cp.text


@pytest.mark.parametrize("count", [20, 3000])
def test_a_provider_that_reads_only_at_the_end_gets_everything_in_order(
    worlds: Callable[..., World], count: int
) -> None:
    world = worlds()
    world.connect_qm()
    cp = world.login(capacity=1000)
    cp.reads = False
    cp.send(partial(*(f"http://elsewhere.example/{i}-ü" for i in range(count))), 4096)
    cp.send(partial("another"))
    world.pump()
    assert len(cp.transport.out) < 200_000
    if count == 3000:
        assert len(cp.waiting) == 1  # the next set is not read before this one's answer is
    cp.reads = True
    world.pump()
    named = re.findall(r' c="http://elsewhere.example/(\d+)-ü"', cp.text)
    assert named == [str(i) for i in range(count)]
    assert cp.text.count("<set_accepted") == 2 and cp.text.endswith("</lococa:set_result>\n")


def test_a_provider_that_never_reads_is_dropped_after_a_while(worlds: Callable[..., World]) -> None:
    world = worlds()
    qm = world.connect_qm()
    cp = world.login(capacity=1000)
    cp.reads = False
    cp.send(partial(*(f"http://elsewhere.example/{i}" for i in range(3000))), 4096)
    world.pump()
    assert qm.numbers == [1]
    for _ in range(4):
        world.pass_time(100)
    assert cp.transport.closed
    assert world.incoming_files() == []


def test_more_unread_errors_than_are_kept(worlds: Callable[..., World]) -> None:
    world = worlds(unsent_errors_max_bytes=200_000)
    qm = world.connect_qm()
    cp = world.login(capacity=1000)
    cp.reads = False
    cp.send(partial(*(f"http://elsewhere.example/{i}" for i in range(5000))), 4096)
    world.pump()
    cp.reads = True
    cp.half_close()
    world.pump()
    assert codes(cp.text)[-1] == 1003 and "not read" in cp.text
    assert cp.text.endswith("</lococa:set_result>\n") and cp.transport.closed
    assert qm.sets == [] and world.incoming_files() == []


def test_a_rejection_while_errors_wait_to_be_read_leaves_no_error_half_said(world: World) -> None:
    cp = world.login(capacity=1000)
    cp.received.clear()
    cp.reads = False
    elements = "".join(url(f"http://elsewhere.example/{number}-ü") for number in range(1000))
    cp.send(f'<lococa:set urlprefix="{ROOT}">{elements}')
    world.pump()
    cp.send(elements * 4)
    world.pump()
    cp.received += cp.transport.take()  # it begins to read: the first piece of what waits goes out
    cp.send("<junk <>")
    world.pump()
    cp.reads = True
    world.pump()
    assert codes(cp.text)[-1] == 1001
    fromstring(cp.text.replace(":set_result", "", 1).replace("/lococa:set_result", "/lococa"))


def test_half_close_after_the_set_still_gets_the_answer(world: World) -> None:
    world.connect_qm()
    cp = world.connect()
    cp.send(init(7, PASSWORD) + partial("a"))
    cp.half_close()
    world.pump()
    assert 'received="1"' in cp.text and cp.transport.closed


def test_thousands_of_empty_sets_in_one_piece(world: World) -> None:
    world.connect_qm()
    cp = world.login()
    cp.send("<lococa:set/>" * 1500)
    world.pump()
    assert cp.text.count('<set_accepted received="0"/>') == 1500


def test_errors_shown_at_init_are_noted_in_the_set(world: World) -> None:
    qm = world.connect_qm()
    world.database.statuses[7] = attrs.evolve(STATUS, error_count=5, errors_upto=12)
    world.send_set("a")
    assert qm.sets[0].begin.errors_upto == 12


def test_what_waits_in_the_spool_counts_as_being_processed(worlds: Callable[..., World]) -> None:
    def processing(pid: int = 7) -> int:
        cp = world.login(pid)
        cp.lose()
        return int(re.findall(r'processing="(\d+)"', cp.text)[0])

    world = worlds()
    world.database.statuses[7] = attrs.evolve(STATUS, processing=3)
    assert processing() == 3
    world.login().send(partial("a", "b"))
    world.send_set("c")
    assert (processing(), processing(8)) == (6, 0)
    world.restart()
    assert processing() == 6
    qm = world.connect_qm(lambda begin: None)
    assert processing() == 6, "the queue manager has them, but not for good"
    for number in (1, 2):
        qm.say(Absorbed("epoch1", number, 0))
    world.pump()
    assert processing() == 3, "from now on it is the queue's to count them"


def test_blanked_subtypes_are_counted(world: World) -> None:
    qm = world.connect_qm()
    kinds = ["a: b", "nonsense", "", "type:", "x:y"]
    elements = [url(f"p{n}", f'm="text/html" s="{kind}"') for n, kind in enumerate(kinds)]
    elements += [url("p8", 's="nonsense"'), url("p9", 'm="text/html" subtype="no"')]
    answer = _answer(world, f'<lococa:set urlprefix="{ROOT}">' + "".join(elements) + "</lococa:set>")
    assert codes(answer) == [1205] and '<set_accepted received="6" blanked_subtypes="3"/>' in answer
    assert [notice.subtype for notice in qm.sets[0].notices] == ["a: b", "", "", "", "x:y", ""]


def test_nothing_of_a_set_is_left_for_the_next_one(world: World) -> None:
    """What checks elements is kept for the sets of a connection."""
    qm = world.connect_qm()
    cp = world.login()
    for prefix, name, blanked in ((ROOT, "a", 1), (ROOT, "b", 0), (f"{ROOT}x/", "c", 0), ("", f"{ROOT}d", 0)):
        cp.received.clear()
        element = url(name, 'm="text/html" s="nonsense"' if blanked else 'm="text/html"')
        cp.send(f'<lococa:set urlprefix="{prefix}">{element}</lococa:set>')
        world.pump()
        assert ("blanked_subtypes" in cp.text) == blanked and 'received="1"' in cp.text
    told = [notice.curl for each in qm.sets for notice in each.notices]
    assert told == [f"{ROOT}a", f"{ROOT}b", f"{ROOT}x/c", f"{ROOT}d"]


def test_the_password_is_in_no_log(world: World) -> None:
    from twisted.logger import globalLogPublisher

    texts: list[str] = []
    observer = lambda event: texts.append(repr(event))  # noqa: E731
    globalLogPublisher.addObserver(observer)
    try:
        world.login(7, "hunter2-wrong")
        world.login(7)
    finally:
        globalLogPublisher.removeObserver(observer)
    assert not any("hunter2" in text or PASSWORD in text for text in texts)


def _answer(world: World, data: str) -> str:
    cp = world.login()
    greeting = len(cp.text)
    cp.send(data)
    world.pump()
    return cp.text[greeting:]


def test_that_deletions_are_meant_goes_with_the_set(world: World) -> None:
    word = '<lococa:set deletions="{}" urlprefix="' + ROOT + '">' + url("a") + "</lococa:set>"
    cp = world.login()
    cp.send(word.format("yes") + word.format("no"))
    world.pump()
    world.pass_time(31)  # they are answered from the spool
    world.restart()
    qm = world.connect_qm()
    assert [taken.begin.deletions for taken in qm.sets] == [True, False]
    # The spool of an older version says nothing of it.
    world.lose_qm()
    cp = world.login()
    cp.send(partial("b"))
    world.pump()
    (name,) = world.set_files()
    text = (world.folder / name).read_bytes()
    head = text[:512].rstrip().replace(b',"deletions":false', b"")
    (world.folder / name).write_bytes(head.ljust(511) + b"\n" + text[512:])
    world.restart()
    assert [taken.begin.deletions for taken in world.connect_qm().sets] == [False]


def test_deletions_below_a_former_root_are_taken(world: World) -> None:
    qm = world.connect_qm()
    world.database.providers[7] = attrs.evolve(world.database.providers[7], former_roots=(ELSEWHERE,))
    cp = world.login()
    cp.send(full(url(f"{ELSEWHERE}a", 'op="delete"'), url(f"{ELSEWHERE}b"), url("c")))
    world.pump()
    assert codes(cp.text) == [1204] and '<set_accepted received="2"/>' in cp.text
    assert [(notice.delete, notice.named_only) for notice in qm.sets[0].notices] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    cp.send(full(url(f"{ELSEWHERE}a", 'op="delete"')))
    world.pump()
    assert codes(cp.text)[-1] == 1106, "it names nothing within the roots"
