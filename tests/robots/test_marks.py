"""How far the database has come: a BOT-M remembers it, and says it in its hello."""

from __future__ import annotations

from pathlib import Path

from lcc.protocols.work import Mark
from lcc.storage.disk.content_folder import ContentFolder
from lcc.storage.disk.durable import DurableCounter
from tests.support.roles.botm import Bench


def open_folder(path: Path) -> ContentFolder:
    folder = ContentFolder(path, lambda counter: DurableCounter(counter, 10))
    folder.open()
    return folder


def test_a_mark_is_remembered(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "content")
    assert folder.mark == ("", 0)
    folder.remember("epoch-a-that-is-long", 123_456)
    folder.remember("e", 7)
    assert folder.mark == ("e", 7)
    assert open_folder(tmp_path / "content").mark == ("e", 7)


def test_a_mark_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    open_folder(tmp_path / "content")
    for text in (b"", b"garbage", b"x y z", b"\0" * 200, b"-7 e", b"7 e 00000000"):
        (tmp_path / "content" / "mark").write_bytes(text)
        assert open_folder(tmp_path / "content").mark == ("", 0)


def test_the_hello_says_the_last_mark(bench: Bench) -> None:
    qm, wire = bench.qm()
    assert qm.peer_hello is not None and (qm.peer_hello.epoch, qm.peer_hello.acked) == ("", 0)
    bench.say(qm, Mark("e1", 5), Mark("e1", 9))
    wire.kill(wire.client)
    bench.settle()
    again, _ = bench.qm()
    assert again.peer_hello is not None
    assert (again.peer_hello.epoch, again.peer_hello.acked) == ("e1", 9)


def test_a_mark_of_an_older_program_is_read(tmp_path: Path) -> None:
    open_folder(tmp_path / "content")
    (tmp_path / "content" / "mark").write_bytes(b"00000000000000000009 8c1f6e02d4a94b7d".ljust(200) + b"\n")
    assert open_folder(tmp_path / "content").mark == ("8c1f6e02d4a94b7d", 9)


def test_a_mark_that_a_power_cut_left_in_part_is_none(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "content")
    file = tmp_path / "content" / "mark"
    marks = {("8c1f6e02d4a94b7d-00aa", 1999): b"", ("8c1f6e02d4a94b7d-ff11", 2000): b""}
    for mark in marks:
        folder.remember(*mark)
        marks[mark] = file.read_bytes()
    old, new = marks.values()
    for cut in range(len(new)):
        file.write_bytes(new[:cut] + old[cut:])
        assert open_folder(tmp_path / "content").mark in (*marks, ("", 0))
