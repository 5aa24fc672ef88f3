"""The folder of content files."""

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.storage.disk.content_folder import ATTEMPTS, AttemptFolder, ContentFolder, content_path
from lcc.storage.disk.durable import DurableCounter
from lcc.storage.disk.file_system import Disk
from lcc.testing.simulated.disk import SimulatedDisk

IDS = st.integers(0, 2**47)


def open_folder(path: Path, disk: Disk | None = None, block: int = 10) -> ContentFolder:
    folder = ContentFolder(path, lambda file: DurableCounter(file, block), disk or Disk())
    folder.open()
    (path / ATTEMPTS / "000").mkdir(exist_ok=True)
    return folder


def files_in(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


@given(IDS, IDS)
def test_names_sort_by_id(one: int, other: int) -> None:
    assert (content_path(one) < content_path(other)) == (one < other)


def test_at_most_1024_files_or_folders_lie_in_a_folder() -> None:
    assert len({content_path(number).rpartition("/")[0] for number in range(1024)}) == 1
    assert content_path(1024).rpartition("/")[0] != content_path(1023).rpartition("/")[0]
    assert content_path(2**20).split("/")[0] != content_path(2**20 - 1).split("/")[0]


def test_an_attempt_becomes_a_content_file(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "content")
    number = folder.reserve()
    name = folder.attempt(number, 1)
    sink = AttemptFolder(folder.path).sink(name)
    sink.write(b"hello ")
    sink.write(b"world")
    sink.close()
    assert (sink.size_bytes, sink.md5) == (11, hashlib.md5(b"hello world").hexdigest())
    folder.accept(name, number)
    assert files_in(folder.path) == [content_path(number), "counter"]
    assert (folder.path / content_path(number)).read_bytes() == b"hello world"
    assert (folder.path / content_path(number)).stat().st_mode & 0o027 == 0
    assert folder.remove(number)
    assert not folder.remove(number)


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    sink = AttemptFolder(tmp_path).sink(folder.attempt(1, 1))
    assert files_in(tmp_path / ATTEMPTS) == []
    sink.discard()
    with pytest.raises(OSError, match="closed"):
        sink.write(b"late")
    assert files_in(tmp_path / ATTEMPTS) == []


def test_an_empty_content_gives_an_empty_file(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    sink = AttemptFolder(tmp_path).sink(folder.attempt(1, 1))
    sink.close()
    folder.accept(folder.attempt(1, 1), 1)
    assert (tmp_path / content_path(1)).stat().st_size == 0
    assert sink.md5 == hashlib.md5(b"").hexdigest()


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_discarded_is_gone(tmp_path: Path, closed: bool) -> None:
    folder = open_folder(tmp_path)
    sink = AttemptFolder(tmp_path).sink(folder.attempt(1, 1))
    sink.write(b"x")
    if closed:
        sink.close()
    sink.discard()
    sink.discard()
    folder.discard(folder.attempt(1, 1))
    assert files_in(tmp_path / ATTEMPTS) == []


def test_attempts_of_an_earlier_run_are_removed_and_ids_are_never_given_again(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    first = [folder.reserve() for _ in range(25)]
    assert folder.names_upto > first[-1]
    AttemptFolder(tmp_path).sink(folder.attempt(first[0], 1)).close()
    again = open_folder(tmp_path)
    assert files_in(tmp_path) == ["counter"]
    assert not set(first) & {again.reserve() for _ in range(25)}


def test_a_missing_attempt_is_an_error(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        folder.accept(folder.attempt(1, 1), 1)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "counter",
        "attempts/../counter",
        "../attempts/000/000000000001.1",
        "attempts/000/000000000001",
        "attempts/000/000000000001.1/x",
        "attempts/000/000000000001.1\n",
        "/attempts/000/000000000001.1",
        "attempts/000/00000000000g.1",
        "attempts/000000000001.1",
        "attempts/001/000000000001.1",
        "attempts/000/000000000400.1",
        "attempts/000/000000000001.01",
    ],
)
def test_a_robot_writes_nothing_but_attempts(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="is not the path of an attempt"):
        AttemptFolder(tmp_path).sink(name)


def test_attempts_take_turns_in_folders_a_thousand_at_a_time(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    folders = {folder.attempt(number, 1).rpartition("/")[0] for number in range(0, 1 << 21, 256)}
    assert len(folders) == 1024
    assert folder.attempt(0, 1).rpartition("/")[0] == folder.attempt(1023, 1).rpartition("/")[0] == "attempts/000"
    assert folder.attempt(1024, 1) == "attempts/001/000000000400.1"


def test_folders_of_attempts_are_spread_where_the_file_system_can(tmp_path: Path) -> None:
    open_folder(tmp_path)
    if shutil.which("lsattr") is None or not Disk().spread(tmp_path):
        pytest.skip("no lsattr, or a file system without such flags")
    shown = subprocess.run(["lsattr", "-d", tmp_path / ATTEMPTS], capture_output=True, text=True, check=True).stdout
    assert "T" in shown.split()[0]


def test_an_attempt_never_follows_a_link_and_never_overwrites(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "content")
    name = folder.attempt(1, 1)
    (tmp_path / "victim").write_text("safe")
    (folder.path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        AttemptFolder(folder.path).sink(name).write(b"x")
    assert (tmp_path / "victim").read_text() == "safe"


class SmallDisk(Disk):
    """Takes three bytes at a time, and a number of bytes in all."""

    def __init__(self, room: int) -> None:
        self.room = room

    def append(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(3, self.room, len(data))
        self.room -= taken
        return os.write(descriptor, data[:taken])


def test_short_writes_and_a_full_disk(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    sink = AttemptFolder(tmp_path, SmallDisk(20)).sink(folder.attempt(1, 1))
    sink.write(b"0123456789")
    assert (tmp_path / folder.attempt(1, 1)).read_bytes() == b"0123456789"
    with pytest.raises(OSError, match="No space"):
        sink.write(b"0123456789abc")
    sink.discard()
    assert files_in(tmp_path / ATTEMPTS) == []


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_soon_after_the_first_start_leaves_the_folder_and_its_counter(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    path = Path("/srv/lcc/content")

    def opened() -> ContentFolder:
        folder = ContentFolder(path, lambda file: DurableCounter(file, 10, disk), disk)
        folder.open()
        return folder

    given = opened().reserve()
    disk.power_cut()
    folder = opened()
    assert folder.names_upto > given, "the name is given out again, and nobody knows that its file is lost"
    assert folder.reserve() > given
