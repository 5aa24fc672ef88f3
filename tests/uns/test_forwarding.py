"""From the spool to the queue manager: nothing lost, nothing out of order, nothing answered too early."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.protocols.uns_qm import Absorbed, Set
from lcc.storage.disk.set_file import CHARGED_BYTES_MIN
from tests.support.roles.uns import ROOT, RecordingDisk, World, absorbed, codes, partial
from tests.support.transports import MemoryTransport
from tests.uns.kit import accepted, names

Worlds = Callable[..., World]


@pytest.mark.parametrize("in_memory", [True, False])
def test_with_a_queue_manager_nothing_is_answered_before_it_answers(worlds: Worlds, in_memory: bool) -> None:
    world = worlds() if in_memory else worlds(memory_max_bytes=0)
    held: list[Set] = []
    qm = world.connect_qm(held.append)
    cp = world.send_set("a")
    assert qm.numbers == [1] and not accepted(cp)
    assert world.set_files() == ([] if in_memory else ["000000000001.set"])
    assert (world.spool.memory_bytes > 0) is in_memory and world.spool.size_bytes == CHARGED_BYTES_MIN
    qm.say(absorbed(held[0]))
    world.pump()
    assert accepted(cp) and world.set_files() == []
    assert not any("sync_file 000000000001.set" in line for line in world.disk.log)
    assert world.spool.size_bytes == 0 == world.spool.memory_bytes and world.spool.acked == 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_without_a_queue_manager_the_set_is_synced_before_the_answer(worlds: Worlds, in_memory: bool) -> None:
    world = worlds() if in_memory else worlds(memory_max_bytes=0)
    world.held_threads = []
    cp = world.send_set("a")
    assert not accepted(cp) and len(world.held_threads) == 1
    world.disk.log.clear()
    world.release_threads()
    assert world.disk.log == [
        *(["create 000000000001.set", "write "] if in_memory else ["patch 000000000001.set"]),
        "sync_file 000000000001.set",
        "rename 000000000001-7.set",
        "sync_folder " + world.folder.name,
    ]
    assert accepted(cp) and world.set_files() == ["000000000001-7.set"] and world.incoming_files() == []
    assert world.spool.memory_bytes == 0


def test_sets_that_wait_for_stable_storage_share_the_thread_and_the_sync_of_the_folder(world: World) -> None:
    world.held_threads = []
    cps = [world.send_set(f"page{number}") for number in range(12)]
    assert len(world.held_threads) == 8, "the others wait for one of these"
    world.held_threads.pop(0)()
    world.pump()
    assert list(map(accepted, cps)) == [True] + [False] * 11 and len(world.held_threads) == 8
    world.disk.log.clear()
    world.held_threads.pop()()
    world.pump()
    assert list(map(accepted, cps)) == [True] + [False] * 7 + [True] * 4
    assert [line.split()[0] for line in world.disk.log].count("sync_folder") == 1
    assert [line.split()[0] for line in world.disk.log].count("sync_file") == 4
    world.release_threads()
    assert all(map(accepted, cps)) and len(world.set_files()) == 12
    assert names(world.connect_qm()) == [f"page{number}" for number in range(12)]


def test_one_that_cannot_be_secured_does_not_harm_those_that_wait_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    works = world.disk.sync_file

    def fails(path: Any) -> None:
        if path.name == "000000000010.set":
            raise OSError(errno.EIO, "disk")
        works(path)

    monkeypatch.setattr(world.disk, "sync_file", fails)
    world.held_threads = []
    cps = [world.send_set(f"page{number}") for number in range(1, 13)]
    world.release_threads()
    assert [number for number, cp in enumerate(cps, 1) if not accepted(cp)] == [10]
    assert codes(cps[9].text) == [1013]
    assert names(world.connect_qm()) == [f"page{number}" for number in range(1, 13) if number != 10]
    assert world.spool.size_bytes == 0 == world.spool.memory_bytes and world.incoming_files() == []


def test_small_sets_beyond_the_memory_for_them_have_files(worlds: Worlds) -> None:
    world = worlds(memory_max_bytes=3000)
    qm = world.connect_qm(lambda begin: None)
    cps = [world.send_set(name) for name in "abcd"]
    assert world.set_files() == ["000000000003.set", "000000000004.set"] and qm.numbers == [1, 2, 3, 4]
    world.lose_qm()
    world.pump()
    assert all(map(accepted, cps)) and len(world.set_files()) == 4 and world.spool.memory_bytes == 0
    assert names(world.connect_qm()) == list("abcd") and world.set_files() == []


def test_a_killed_process_forgets_what_was_only_in_memory_and_nobody_was_told(world: World) -> None:
    first = world.connect_qm(lambda begin: None)
    cp = world.send_set("a")
    assert first.numbers == [1] and not accepted(cp)
    world.restart()
    second = world.connect_qm()
    world.send_set("b")
    assert names(second) == ["b"] and second.numbers[0] > 1, "its number is not given out again"


def test_a_set_is_not_passed_on_while_it_is_being_secured(world: World) -> None:
    world.held_threads = []
    cp = world.send_set("a")
    qm = world.connect_qm()
    assert qm.sets == [] and not accepted(cp)
    world.release_threads()
    assert accepted(cp)
    assert qm.numbers == [1] and qm.sets[0].begin.answered
    assert world.set_files() == []


@pytest.mark.parametrize("number", [1101, 1105])
def test_a_refusal_of_the_queue_manager_reaches_the_provider(world: World, number: int) -> None:
    world.connect_qm(lambda begin: Absorbed(begin.epoch, begin.number, number, "because & so"))
    cp = world.send_set("a")
    assert codes(cp.text) == [number] and "because &amp; so" in cp.text and cp.closed
    assert world.set_files() == []


def test_the_queue_manager_goes_away_midway(world: World) -> None:
    qm = world.connect_qm(lambda begin: None)
    cps = [world.send_set(name) for name in "abc"]
    assert qm.numbers == [1, 2, 3] and not any(map(accepted, cps))
    world.disk.log.clear()
    world.lose_qm()
    world.pump()
    assert all(map(accepted, cps))
    for number in (1, 2, 3):
        assert f"sync_file {number:012d}.set" in world.disk.log
    again = world.connect_qm()
    assert again.numbers == [1, 2, 3] and all(taken.begin.answered for taken in again.sets)
    assert world.set_files() == []


def test_a_queue_manager_that_takes_too_long_is_not_waited_for(worlds: Worlds) -> None:
    world = worlds(answer_timeout=5.0)
    held: list[Set] = []
    qm = world.connect_qm(held.append)
    cp = world.send_set("a")
    world.pass_time(4)
    assert not accepted(cp)
    world.pass_time(2)
    assert accepted(cp) and world.set_files() == ["000000000001-7.set"]
    qm.say(absorbed(held[0]))
    world.pump()
    assert world.set_files() == [] and qm.numbers == [1]


def test_the_answer_comes_while_the_set_is_being_secured(worlds: Worlds) -> None:
    world = worlds(answer_timeout=5.0)
    held: list[Set] = []
    qm = world.connect_qm(held.append)
    cp = world.send_set("a")
    world.held_threads = []
    world.pass_time(6)
    qm.say(absorbed(held[0]))
    world.pump()
    assert accepted(cp) and world.set_files() == []
    world.release_threads()
    assert world.set_files() == [] and world.spool.size_bytes == 0


@pytest.mark.parametrize("before", [True, False])
def test_the_answer_comes_while_the_set_gets_its_new_name(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    world = worlds(answer_timeout=5.0)
    held: list[Set] = []
    qm = world.connect_qm(held.append)
    cp = world.send_set("a")
    rename = world.disk.rename

    def answered_meanwhile(source: Any, target: Any) -> None:
        if not before:
            rename(source, target)
        qm.say(absorbed(held[0]))
        world.pump()
        if before:
            rename(source, target)

    monkeypatch.setattr(world.disk, "rename", answered_meanwhile)
    world.held_threads = []
    world.pass_time(6)
    world.release_threads()
    assert accepted(cp) and world.set_files() == [] and world.spool.size_bytes == 0


def test_a_set_refused_after_it_was_answered_is_dropped_loudly(world: World, logged: list[Any]) -> None:
    world.send_set("a")
    world.connect_qm(lambda begin: Absorbed(begin.epoch, begin.number, 1105, "gone"))
    assert world.uns.counters.sets_refused_late == 1
    assert any(event["log_level"].name == "critical" for event in logged)
    assert world.set_files() == []


def test_everything_in_order_while_new_sets_come_in(worlds: Worlds) -> None:
    world = worlds()
    for i in range(20):
        assert accepted(world.send_set(f"old{i}"))
    world.link_capacity = 100
    qm = world.connect_qm()
    for i in range(20):
        assert accepted(world.send_set(f"new{i}"))
    assert names(qm) == [f"old{i}" for i in range(20)] + [f"new{i}" for i in range(20)]
    assert qm.numbers == list(range(1, 41)) and world.set_files() == []


def test_a_new_set_waits_behind_the_backlog_on_the_disk(world: World) -> None:
    for i in range(3):
        world.send_set(f"old{i}")
    world.link_capacity = 10
    qm = world.connect_qm()
    assert qm.sets[0].begin.answered
    # The queue manager stops reading: the link is full, the backlog is not through.
    assert world._ends is not None
    world._ends[1].paused = True
    cps = [world.send_set(f"new{i}") for i in range(4)]
    assert list(map(accepted, cps)) == [False, False, True, True]
    world._ends[1].paused = False
    world.pump()
    assert names(qm) == ["old0", "old1", "old2", "new0", "new1", "new2", "new3"]
    assert [taken.begin.answered for taken in qm.sets] == [True] * 3 + [False] * 2 + [True] * 2
    assert all(map(accepted, cps))


def test_restart_with_spooled_sets(world: World) -> None:
    for name in "abc":
        world.send_set(name)
    half = world.login()
    half.send(partial(*[f"never-{number}-ends" for number in range(2000)])[:-15])
    world.pump()
    assert len(world.incoming_files()) == 1
    world.restart()
    assert world.incoming_files() == [] and len(world.set_files()) == 3
    assert world.spool.size_bytes == 3 * CHARGED_BYTES_MIN
    qm = world.connect_qm()
    assert names(qm) == ["a", "b", "c"] and all(taken.begin.answered for taken in qm.sets)
    world.send_set("d")
    assert names(qm)[-1] == "d" and qm.numbers[-1] > 3 and qm.sets[0].begin.epoch == qm.sets[-1].begin.epoch


def test_a_set_that_was_complete_but_not_answered_is_delivered_by_the_next_run(filing: World) -> None:
    world = filing
    world.held_threads = []
    cp = world.send_set("a")
    assert not accepted(cp)
    world.held_threads = None
    world.restart()
    qm = world.connect_qm()
    assert names(qm) == ["a"] and not qm.sets[0].begin.answered


def test_delivered_again_it_has_the_same_id_and_the_same_content(world: World) -> None:
    first = world.connect_qm(lambda begin: None)
    world.send_set("a")
    world.lose_qm()
    world.restart()
    second = world.connect_qm()
    (one,), (two,) = first.sets, second.sets
    assert (one.begin.epoch, one.begin.number) == (two.begin.epoch, two.begin.number)
    assert one.notices == two.notices


def test_the_hello_says_what_was_answered(world: World) -> None:
    world.connect_qm()
    for name in "abc":
        world.send_set(name)
    world.restart()
    qm = world.connect_qm()
    assert qm.peer_hello is not None
    assert (qm.peer_hello.name, qm.peer_hello.epoch, qm.peer_hello.acked) == ("uns", "epoch1", 3)


@pytest.mark.parametrize("number", [2, 7])
def test_an_answer_out_of_order_drops_the_link(world: World, number: int) -> None:
    qm = world.connect_qm(lambda begin: None)
    cps = [world.send_set("a"), world.send_set("b")]
    qm.say(Absorbed("epoch1", number, 0))
    world.pump()
    assert not world.uns.forwarder.connected
    assert all(map(accepted, cps)) and len(world.set_files()) == 2
    assert world.connect_qm().numbers == [1, 2]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_set_that_cannot_be_opened_for_want_of_descriptors_is_tried_again(
    world: World, restarted: bool, logged: list[Any]
) -> None:
    world.send_set("a")
    if restarted:
        world.restart()
    world.disk.fail["open"] = OSError(errno.EMFILE, "too many open files")
    qm = world.connect_qm()
    cp = world.send_set("b")
    world.pass_time(3)
    assert qm.sets == [] and accepted(cp) and len(world.set_files()) == 2
    del world.disk.fail["open"]
    world.pass_time(2)
    assert names(qm) == ["a", "b"] and world.set_files() == []


def test_a_lost_counter_begins_a_new_epoch(world: World, logged: list[Any]) -> None:
    world.send_set("a")
    (world.folder / "numbers").write_bytes(b"\0\0\0")
    tokens = iter(["epoch2"])
    world.restart_with(lambda: next(tokens))
    assert world.spool.epoch == "epoch2" and world.spool.acked == 0
    world.send_set("b")
    qm = world.connect_qm()
    assert [(taken.begin.epoch, names(qm)[i]) for i, taken in enumerate(qm.sets)] == [
        ("epoch1", "a"),
        ("epoch2", "b"),
    ]
    assert world.set_files() == []


def test_sets_of_a_lost_epoch_go_first_whatever_their_numbers(world: World, logged: list[Any]) -> None:
    """The file was told before, and somebody has put it back."""
    for name in "abc":
        world.send_set(name)
    aside = world.folder.with_name("aside")
    (world.folder / "000000000003-7.set").rename(aside)
    world.connect_qm()
    world.lose_qm()
    (world.folder / "numbers").write_bytes(b"\0\0\0")
    world.restart_with(lambda: "epoch2")
    world.send_set("d")
    assert world.set_files() == ["000000000001-7.set"]
    aside.rename(world.folder / "000000000003-7.set")
    world.restart()
    qm = world.connect_qm()
    assert [(taken.begin.epoch, taken.begin.number) for taken in qm.sets] == [("epoch1", 3), ("epoch2", 1)]
    assert names(qm) == ["c", "d"]


def test_a_big_set_never_lies_in_memory(world: World) -> None:
    world.link_capacity = 65536
    cp = world.login()
    cp.send(partial(*(f"page{i}" for i in range(20_000))))
    world.pump()
    assert accepted(cp)
    largest = 0
    qm = world.connect_qm()
    assert world._ends is not None
    ours = world._ends[0]
    plain = ours.write

    def watched(data: bytes) -> None:
        nonlocal largest
        plain(data)
        largest = max(largest, len(ours.out))

    ours.write = watched  # type: ignore[method-assign]
    world.pump()
    assert qm.sets[0].whole and len(qm.sets[0].notices) == 20_000
    assert largest <= 4 * 65536


def test_stopping_cuts_connections_and_keeps_what_is_spooled(filing: World) -> None:
    world = filing
    world.connect_qm(lambda begin: None)
    waits = world.send_set("a")
    world.uns.close()
    world.pump()
    assert waits.transport.closed and not accepted(waits)
    assert world.set_files() == ["000000000001.set"]
    assert [call for call in world.clock.getDelayedCalls() if call.active()] == []


STEPS = st.lists(st.sampled_from(["set", "set", "up", "up-silent", "down", "restart", "time"]), max_size=14)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_whatever_happens_each_accepted_set_is_absorbed_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    world = World(tmp_path_factory.mktemp("world") / "spool", answer_timeout=3.0)
    told: list[str] = []
    applied: dict[tuple[str, int], str] = {}
    waiting: list[tuple[str, Any]] = []
    managers: list[Any] = []

    def note() -> None:
        for qm in managers:
            for taken in qm.sets:
                if taken.whole and qm.answers is absorbed:
                    applied.setdefault((taken.begin.epoch, taken.begin.number), taken.notices[0].curl)

    for i, step in enumerate([*steps, "down", "restart", "up"]):
        if step == "set":
            waiting.append((f"{ROOT}page{i}", world.send_set(f"page{i}")))
        elif step in ("up", "up-silent"):
            if not world.uns.forwarder.connected:
                managers.append(world.connect_qm(absorbed if step == "up" else lambda begin: None))
        elif step == "down":
            if world.qm is not None:
                world.lose_qm()
                world.pump()
        elif step == "time":
            world.pass_time(5)
        else:
            world.restart()
        note()
        told += [name for name, cp in waiting if accepted(cp)]
        waiting = [(name, cp) for name, cp in waiting if not accepted(cp)]
    world.disk.close_all()
    order = [applied[key] for key in sorted(applied)]
    assert list(applied.values()) == order  # applied in the order of their numbers
    assert [name for name in told if name not in order] == []
    assert len(set(order)) == len(order)
    assert world.set_files() == [] and world.spool.size_bytes == 0


def test_the_keep_alive_does_not_cut_into_a_set_that_takes_long(world: World) -> None:
    world.link_capacity = 1
    qm = world.connect_qm()
    cp = world.login()
    there = qm.stream.transport
    assert isinstance(there, MemoryTransport)
    there.paused = True  # a piece of the set is on its way, the next one has to wait
    cp.send(partial(*(f"ü{number:04d}" for number in range(3000))), 4096)
    world.pump()
    assert not qm.sets
    world.pass_time(6)
    there.paused = False
    world.pump()
    assert qm.numbers == [1] and len(qm.sets[0].notices) == 3000
    assert 'received="3000"' in cp.text


def test_the_unread_store_refuses_what_is_too_much(tmp_path: Path) -> None:
    from lcc.storage.disk.error_file import ErrorFile, ErrorFileFull

    store = ErrorFile(tmp_path / "errors", 100_000, RecordingDisk())
    long_line, short_lines = "ü" * 39_999 + "\n", "yyy\n" * 5_001
    store.append(long_line)
    with pytest.raises(ErrorFileFull):
        store.append(short_lines)
    store.append(short_lines, bounded=False)
    assert list(tmp_path.iterdir()) == []
    taken = []
    while store:
        taken.append(store.take(7_001).decode())
    assert "".join(taken) == long_line + short_lines
    assert all(text.endswith("\n") for text in taken)
    store.close()
    assert not store


def test_attributes_reach_the_queue_manager_as_they_were_sent(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    value = "a'b&quot;c&lt;&gt;&amp;\\&#9;&#10;ü\u2028\U0001f600"
    cp.send(f'<lococa:set urlprefix="{ROOT}"><url c="x" m="text/html" note="{value}"/></lococa:set>')
    world.pump()
    assert json.loads(qm.sets[0].notices[0].sent) == [
        *("c", "x", "m", "text/html"),
        *("note", "a'b\"c<>&\\\t\nü\u2028\U0001f600"),
    ]
