"""The UNS when the disk of its spool has no room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from lcc.errors import code
from lcc.storage.disk.file_system import Space
from lcc.storage.disk.spool import spool_room
from tests.support.logs import LoggedErrors
from tests.support.roles.uns import RecordingDisk, World, codes, partial

Worlds = Callable[..., World]


class FullDisk(RecordingDisk):
    """Says what the test wants of its space."""

    space_left = Space(1 << 30, 1000, True)

    def space(self, folder: Any) -> Space:
        return self.space_left


def fill(world: World, disk: FullDisk, **space: Any) -> None:
    disk.space_left = attrs.evolve(disk.space_left, **space)
    world.spool._room = spool_room(world.folder, 1 << 20, disk)


def test_a_full_disk_is_said_at_init_and_at_the_next_set(worlds: Worlds, logged_errors: LoggedErrors) -> None:
    world, disk = worlds(), FullDisk()
    early = world.login(8)
    fill(world, disk, free_bytes=1000)
    for _ in range(3):
        refused = world.login()
        assert codes(refused.text) == [code("try-later")] and "init_rejected" in refused.text
    early.send(partial("a"))
    world.pump()
    assert codes(early.text) == [code("try-later")] and "set_rejected" in early.text
    assert world.set_files() == world.incoming_files() == []
    fill(world, disk, free_bytes=1 << 30)
    accepted = world.send_set("b")
    assert codes(accepted.text) == [] and "set_accepted" in accepted.text
    (line,) = logged_errors.flush("The spool is full")
    assert str(world.folder) in line and "[uns] spool_reserve" in line


def test_no_inodes_and_read_only_are_said_so(worlds: Worlds, logged_errors: LoggedErrors) -> None:
    world, disk = worlds(), FullDisk()
    fill(world, disk, free_files=0)
    assert codes(world.login().text) == [code("try-later")]
    assert logged_errors.flush("inodes")
    fill(world, disk, free_files=1)
    assert codes(world.login().text) == []
    fill(world, disk, writable=False)
    assert codes(world.login().text) == [code("try-later")]
    assert logged_errors.flush("Read-only file system")
