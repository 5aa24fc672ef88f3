"""What a UNS does about sets that it has lost, and about a spool that was put back from a backup."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from lcc.protocols.uns_qm import Absorbed, Damage, NewEpoch, Noted, Set
from lcc.storage.disk.damage_list import DamageList
from tests.support.roles.uns import ROOT, FakeQm, World, absorbed

Worlds = Callable[..., World]


class Qm(FakeQm):
    """A queue manager that hears of damage.

    :ivar note: it says that it has noted it.
    """

    note = True

    def __init__(self, clock: Clock, answers: Callable[[Set], Absorbed | None]) -> None:
        super().__init__(clock, answers)
        self.damage: list[int] = []

    def elements_received(self, elements: list[Any]) -> None:
        for element in elements:
            if element.name == "damage":
                message = self.vocabulary.read(element.name, element.attributes)
                assert isinstance(message, Damage)
                assert all(taken.whole for taken in self.sets), "within a set"
                self.damage.append(message.pid)
                if self.note:
                    self.say(Noted(message.pid, message.number))
            else:
                super().elements_received([element])


class Forgetful(Qm):
    """One that hears of damage and is gone before it has noted it."""

    note = False


def connect(world: World, answers: Callable[[Set], Absorbed | None] = absorbed, make: type[Qm] = Qm) -> Qm:
    return world.connect_qm(answers, make)


def accepted(cp: Any) -> bool:
    return "<set_accepted" in cp.text


def names(qm: FakeQm) -> list[str]:
    return [taken.notices[0].curl.removeprefix(ROOT) for taken in qm.sets if taken.whole]


def damage_file(path: Path, kind: str) -> None:
    data = path.read_bytes()
    if kind == "content":
        path.write_bytes(data[:-5] + b"XXXXX")
    elif kind == "short":
        path.write_bytes(data[:-5])
    elif kind == "header":
        path.write_bytes(b"garbage!" + data[8:])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "zeros":
        path.write_bytes(b"\0" * len(data))


@pytest.mark.parametrize("kind", ["content", "short", "header", "empty", "zeros"])
def test_an_accepted_set_whose_file_is_damaged(world: World, logged: list[Any], kind: str) -> None:
    """Also where nothing is left in it: its name says whose it was."""
    for name in "abc":
        assert accepted(world.send_set(name))
    damage_file(world.folder / "000000000002-7.set", kind)
    world.restart()
    qm = connect(world)
    assert names(qm) == ["a", "c"] and qm.damage == [7]
    assert world.spool.damage.pids == []
    world.lose_qm()
    assert connect(world).damage == []


@pytest.mark.parametrize(("kind", "told"), [("header", [0]), ("empty", []), ("zeros", [])])
def test_a_set_that_was_not_accepted_whose_file_is_damaged(
    filing: World, logged: list[Any], kind: str, told: list[int]
) -> None:
    """The power failed while it was made: nobody was told anything.  What was written over says nothing of that."""
    world = filing
    world.connect_qm(lambda begin: None)
    assert not accepted(world.send_set("a"))
    damage_file(world.folder / "000000000001.set", kind)
    world.restart()
    qm = connect(world)
    assert names(qm) == [] and qm.damage == told


def test_sets_that_an_earlier_version_has_accepted_get_their_names(world: World) -> None:
    for name in "ab":
        assert accepted(world.send_set(name))
    (world.folder / "000000000001-7.set").rename(world.folder / "000000000001.set")
    world.restart()
    assert world.set_files() == ["000000000001-7.set", "000000000002-7.set"]
    assert names(connect(world)) == ["a", "b"] and world.set_files() == []


def test_a_set_that_cannot_be_renamed_is_passed_on_all_the_same(world: World, logged: list[Any]) -> None:
    assert accepted(world.send_set("a"))
    (world.folder / "000000000001-7.set").rename(world.folder / "000000000001.set")
    world.disk.fail["rename"] = OSError(errno.EROFS, "read-only")
    world.restart()
    assert names(connect(world)) == ["a"] and world.set_files() == []


@pytest.mark.parametrize("rotten", [b"XXXXX", b"<\0&<\n", b"X\xecX>\n"])
def test_an_accepted_set_whose_file_is_damaged_while_the_uns_runs(
    world: World, logged: list[Any], rotten: bytes
) -> None:
    """Also where the elements are no XML any longer, and the queue manager drops the link before the end; or no text
    (seed 10413)."""
    for name in "abc":
        assert accepted(world.send_set(name))
    path = world.folder / "000000000002-7.set"
    path.write_bytes(path.read_bytes()[: -len(rotten)] + rotten)
    heard: list[int] = []
    whole: list[str] = []
    for _ in range(4):  # the link is dropped where a set breaks off
        qm = connect(world)
        heard += qm.damage
        whole += names(qm)
        if world.has_qm:
            world.lose_qm()
    assert sorted(set(whole)) == ["a", "c"] and heard == [7]
    assert world.spool.damage.pids == []
    assert [path.name for path in (world.folder / "damaged").iterdir()] == ["000000000002-7.set"]
    assert not any("log_failure" in event for event in logged), "nobody expected that"


def test_a_set_whose_header_cannot_be_read_at_all(
    world: World, logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails at one place: that is no reason not to start."""
    for name in "abc":
        assert accepted(world.send_set(name))
    works = world.disk.open

    def fails(path: Path) -> Any:
        if path.name == "000000000002-7.set":
            raise OSError(errno.EIO, "Input/output error")
        return works(path)

    monkeypatch.setattr(world.disk, "open", fails)
    world.restart()
    assert [path.name for path in (world.folder / "damaged").iterdir()] == ["000000000002-7.set"]
    assert any(event["log_level"].name == "critical" for event in logged)
    qm = connect(world)
    assert names(qm) == ["a", "c"] and qm.damage == [7]


@pytest.mark.parametrize(("file", "told"), [("acked", []), ("damage", [0])])
def test_a_note_that_cannot_be_read(
    world: World, logged: list[Any], monkeypatch: pytest.MonkeyPatch, file: str, told: list[int]
) -> None:
    works = world.disk.read

    def fails(path: Path) -> bytes:
        if path.name == file:
            raise OSError(errno.EIO, "Input/output error")
        return works(path)

    assert accepted(world.send_set("a"))
    monkeypatch.setattr(world.disk, "read", fails)
    world.restart()
    qm = connect(world)
    assert names(qm) == ["a"] and qm.damage == told


def test_it_is_said_until_it_is_noted(world: World, logged: list[Any]) -> None:
    world.send_set("a", pid=8)
    damage_file(world.folder / "000000000001-8.set", "content")
    world.restart()
    assert connect(world, make=Forgetful).damage == [8]
    world.lose_qm()
    world.restart()
    assert connect(world, make=Forgetful).damage == [8]
    world.lose_qm()
    assert world.spool.acked < world.spool.numbers_upto - 1
    assert connect(world).damage == [8]
    assert world.spool.acked == world.spool.numbers_upto - 1, "it remembers that this was answered"
    world.lose_qm()
    world.restart()
    assert connect(world).damage == []


def test_what_nobody_was_told_of_is_not_reported(filing: World, logged: list[Any]) -> None:
    world = filing
    world.held_threads = []
    cp = world.send_set("a")
    assert not accepted(cp)
    world.held_threads = None
    damage_file(world.folder / "000000000001.set", "content")
    world.restart()
    assert connect(world).damage == []


def test_refused_too_late(worlds: Worlds, logged: list[Any]) -> None:
    world = worlds(answer_timeout=5.0)
    held: list[Set] = []
    qm = connect(world, held.append)
    cps = [world.send_set("a"), world.send_set("b", pid=8)]
    world.pass_time(6)
    assert all(map(accepted, cps)) and not any(begin.answered for begin in held)
    qm.say(Absorbed("epoch1", 1, 1103, "cannot be stored"))
    qm.say(Absorbed("epoch1", 2, 1105, "gone"))
    world.pump()
    assert qm.damage == [7], "of a provider that is gone nothing is wanted"
    assert world.uns.counters.sets_refused_late == 2


def test_a_refusal_in_time_is_no_damage(world: World) -> None:
    qm = connect(world, lambda begin: Absorbed(begin.epoch, begin.number, 1103, "no"))
    assert not accepted(world.send_set("a"))
    assert qm.damage == []


def test_a_disk_that_cannot_keep_the_note(tmp_path: Path, world: World, logged: list[Any]) -> None:
    damage = DamageList(tmp_path / "damage", world.disk)
    damage.open()
    world.disk.fail["create"] = OSError(errno.EIO, "disk")
    damage.add(7)
    assert damage.pids == [7]
    world.disk.fail.clear()
    (tmp_path / "damage").write_bytes(b"8\nnonsense\n")
    again = DamageList(tmp_path / "damage", world.disk)
    again.open()
    assert again.pids == [0, 8]


def test_the_hello_says_which_numbers_were_never_given(world: World) -> None:
    qm = world.connect_qm()
    assert qm.peer_hello is not None and qm.peer_hello.numbers_upto == 1
    world.send_set("a")
    world.lose_qm()
    qm = world.connect_qm()
    assert qm.peer_hello is not None and qm.peer_hello.numbers_upto == 2


def put_back(world: World, backup: Path, tokens: list[str]) -> None:
    """Stop it, put its spool back from a backup, start it."""
    world.disk.close_all()
    shutil.rmtree(world.folder)
    shutil.copytree(backup, world.folder)
    world.restart_with(lambda: tokens.pop(0))


def test_a_spool_that_was_put_back_begins_a_new_epoch(world: World, tmp_path: Path, logged: list[Any]) -> None:
    world.send_set("a")
    world.disk.close_all()
    shutil.copytree(world.folder, tmp_path / "backup")
    world.connect_qm()
    for name in "bcd":
        world.send_set(name)
    put_back(world, tmp_path / "backup", ["epoch2", "epoch3"])
    qm = world.connect_qm(lambda begin: None)
    assert qm.peer_hello is not None and qm.peer_hello.epoch == "epoch1"
    cp = world.send_set("new")
    qm.say(NewEpoch("epoch1"))
    world.pump()
    assert not world.uns.forwarder.connected
    assert accepted(cp), "its provider is answered from the spool"
    assert any("restored from a backup" in event.get("log_format", "") for event in logged)
    qm = world.connect_qm(lambda begin: None)
    assert qm.peer_hello is not None
    assert (qm.peer_hello.epoch, qm.peer_hello.acked) == ("epoch2", 0)
    assert names(qm) == ["a", "new"] and {taken.begin.epoch for taken in qm.sets} == {"epoch2"}
    # The files are as they were; that they belong to the new epoch survives a restart, and another change.
    first = sorted(world.folder.glob("*.set"))[0]
    assert json.loads(first.read_bytes()[:512])["epoch"] == "epoch1"
    world.restart()
    qm = world.connect_qm(lambda begin: None)
    assert names(qm) == ["a", "new"] and {taken.begin.epoch for taken in qm.sets} == {"epoch2"}
    qm.say(NewEpoch("epoch2"))
    world.pump()
    world.restart()
    qm = world.connect_qm()
    assert names(qm) == ["a", "new"] and {taken.begin.epoch for taken in qm.sets} == {"epoch3"}
    assert world.set_files() == []


def test_a_new_epoch_that_cannot_be_written_is_no_new_epoch(world: World, logged: list[Any]) -> None:
    world._token = lambda: "epoch2"
    qm = world.connect_qm()
    world.send_set("a")
    world.disk.fail["sync_folder"] = OSError(errno.EIO, "disk")
    qm.say(NewEpoch("epoch1"))
    world.pump()
    assert world.spool.epoch == "epoch1" and not world.uns.forwarder.connected
    world.disk.fail.clear()
    qm = world.connect_qm()
    qm.say(NewEpoch("epoch1"))
    world.pump()
    assert world.spool.epoch == "epoch2"
    qm = world.connect_qm()
    qm.say(NewEpoch("epoch1"))  # late: it has begun already
    world.pump()
    assert world.spool.epoch == "epoch2"
    assert accepted(world.send_set("b"))


def test_a_set_that_arrives_while_the_epoch_changes(world: World, logged: list[Any]) -> None:
    world._token = lambda: "epoch2"
    qm = world.connect_qm()
    cp = world.login()
    text = f'<lococa:set set="partial" urlprefix="{ROOT}"><url c="a" m="text/html"/>'
    cp.send(text)
    world.pump()
    world.held_threads = []
    qm.say(NewEpoch("epoch1"))
    world.pump()
    cp.send("</lococa:set>")
    world.pump()
    world.release_threads()
    assert accepted(cp)
    qm = world.connect_qm()
    assert names(qm) == ["a"] and qm.sets[0].begin.epoch == "epoch2"
