"""Sets and the disk: a spool that is full, a disk that fails, files that are damaged."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from lcc.errors import code
from lcc.storage.disk.set_file import CHARGED_BYTES_MIN
from tests.support.logs import LoggedErrors
from tests.support.roles.uns import World, codes, partial
from tests.uns.kit import accepted, names

Worlds = Callable[..., World]


def test_over_the_spool_limit(worlds: Worlds, logged_errors: LoggedErrors) -> None:
    world = worlds(spool_max_bytes=655360)
    early = world.login(8)
    count = 0
    while not world.spool.no_room():
        count += 1
        cp = world.login()
        cp.send(partial(*("x" * 1000 for _ in range(20))))
        world.pump()
        assert accepted(cp)
    assert 10 < count < 40 and world.spool.size_bytes <= 655360
    early.send(partial(*("y" * 1000 for _ in range(200))))
    world.pump()
    assert codes(early.text) == [1012] and "set_rejected" in early.text
    assert world.incoming_files() == []
    refused = world.login()
    assert codes(refused.text) == [1012] and "init_rejected" in refused.text
    world.connect_qm()
    assert world.set_files() == [] and world.spool.size_bytes == 0
    assert accepted(world.send_set("z"))
    assert len(logged_errors.flush("[uns] spool_max_bytes")) == 1


def test_small_sets_are_counted_with_what_they_cost(worlds: Worlds, logged_errors: LoggedErrors) -> None:
    """However small it is, a set that waits takes memory and a file."""
    world = worlds(spool_max_bytes=65536)
    for number in range(8):
        assert accepted(world.send_set(f"{number}"))
    assert world.spool.no_room() and codes(world.login().text) == [1012]
    world.restart()
    assert world.spool.size_bytes == 65536 and codes(world.login().text) == [1012]
    world.connect_qm()
    assert world.spool.size_bytes == 0
    logged_errors.flush("[uns] spool_max_bytes")


def test_a_set_that_begins_where_none_fits_any_more_is_told_to_come_again(worlds: Worlds) -> None:
    world = worlds(spool_max_bytes=9 * CHARGED_BYTES_MIN - 700)
    for number in range(8):
        assert accepted(world.send_set(f"{number}"))
    assert not world.spool.no_room()
    last = world.send_set("8")
    assert codes(last.text) == [1012] and "set_rejected" in last.text
    assert world.incoming_files() == [] and world.spool.size_bytes == 8 * CHARGED_BYTES_MIN


def test_a_set_that_no_spool_would_hold_is_not_told_to_come_again(worlds: Worlds) -> None:
    world = worlds(spool_max_bytes=65536)
    cp = world.login()
    cp.send(partial(*("y" * 1000 for _ in range(200))))
    world.pump()
    assert codes(cp.text) == [code("set-too-large")] and "65536 bytes" in cp.text
    assert world.incoming_files() == [] and world.spool.size_bytes == 0


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize(
    ("operation", "number", "expected"),
    [
        ("create", errno.ENOSPC, 1012),
        ("write", errno.ENOSPC, 1012),
        ("write", errno.EIO, 1013),
        ("rename", errno.EIO, 1013),
        ("sync_file", errno.EIO, 1013),
        ("sync_folder", errno.ENOSPC, 1012),
        ("patch", errno.EIO, 1013),
    ],
)
def test_a_disk_that_fails_harms_only_the_set(
    worlds: Worlds, operation: str, number: int, expected: int, in_memory: bool, logged: list[Any]
) -> None:
    if in_memory and operation == "patch":
        return  # its file is written at once
    world = worlds() if in_memory else worlds(memory_max_bytes=0)
    cp = world.login()
    world.disk.fail[operation] = OSError(number, "disk")
    cp.send(partial("a"))
    world.pump()
    assert codes(cp.text) == [expected] and cp.closed and not accepted(cp)
    world.disk.fail.clear()
    assert world.set_files() == [] and world.incoming_files() == [] and world.spool.size_bytes == 0
    assert any(event["log_level"].name in ("error", "critical") for event in logged)
    qm = world.connect_qm()
    assert accepted(world.send_set("b")) and names(qm) == ["b"]


def test_a_set_that_may_be_absorbed_but_cannot_be_secured_is_not_answered(world: World, logged: list[Any]) -> None:
    world.connect_qm(lambda begin: None)
    cp = world.send_set("a")
    greeting = cp.text
    world.disk.fail["sync_file"] = OSError(errno.EIO, "disk")
    world.lose_qm()
    world.pump()
    assert cp.transport.closed and cp.text.startswith(greeting) and not accepted(cp)
    world.disk.fail.clear()
    assert world.connect_qm().numbers == [1] and world.set_files() == []


@pytest.mark.parametrize("damage", ["truncated", "header", "content", "empty"])
def test_a_damaged_file_is_moved_aside_and_the_others_are_delivered(
    world: World, damage: str, logged: list[Any]
) -> None:
    for name in "abc":
        world.send_set(name)
    path = world.folder / "000000000002-7.set"
    data = path.read_bytes()
    path.write_bytes(
        {
            "truncated": data[:-10],
            "header": b"#" * 100 + data[100:],
            "content": data[:-10] + b"##########",
            "empty": b"",
        }[damage]
    )
    world.restart()
    qm = world.connect_qm()
    assert names(qm) == ["a", "c"]
    assert (world.folder / "damaged" / "000000000002-7.set").exists() and world.set_files() == []
    assert any(event["log_level"].name == "critical" for event in logged)
    assert world.spool.size_bytes == 0


def test_a_file_that_ends_early_while_it_is_sent(world: World, logged: list[Any]) -> None:
    world.send_set("a")
    world.send_set("b")
    path = world.folder / "000000000001-7.set"
    path.write_bytes(path.read_bytes()[:-10])
    first = world.connect_qm()
    assert not any(taken.whole and taken.begin.number == 1 for taken in first.sets)
    second = world.connect_qm() if not world.uns.forwarder.connected else first
    assert names(second) == ["b"]
