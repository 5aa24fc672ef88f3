"""Which content files are on the disk after whatever happened, on real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.storage.disk.content_sync import ContentSync, SyncMark, boot_id, mark_at_start, read_mark
from lcc.storage.disk.file_system import Disk
from tests.support.logs import LoggedErrors


class BadDisk(Disk):
    """Syncing, as a test wants it."""

    def __init__(self) -> None:
        self.synced = 0
        self.broken = False

    def sync_all(self, folder: Any) -> None:
        self.synced += 1
        if self.broken:
            self.broken = False  # the kernel reports a fault once
            raise OSError(5, "Input/output error")


@pytest.fixture
def disk() -> BadDisk:
    return BadDisk()


Start = Callable[..., ContentSync]


@pytest.fixture
def start(tmp_path: Path, disk: BadDisk) -> Start:
    def start(boot: str, names_upto: int) -> ContentSync:
        sync = ContentSync(tmp_path, boot, disk)
        sync.open(names_upto)
        return sync

    return start


def test_a_new_folder_has_nothing_to_lose(start: Start) -> None:
    assert start("boot1", 1).suspect == (0, 0)
    assert start("boot2", 1).suspect == (0, 0)


def test_a_folder_of_which_nothing_is_known_is_suspect(start: Start, tmp_path: Path) -> None:
    assert start("boot1", 500).suspect == (0, 500)
    (tmp_path / "synced").write_text("what is this\n")
    assert start("boot1", 500).suspect == (0, 500)


def test_a_process_that_was_killed_loses_nothing(start: Start) -> None:
    start("boot1", 1).advance(20)
    assert start("boot1", 100).suspect == (0, 0)


def test_after_a_crash_what_is_younger_than_the_mark_is_suspect_until_it_is_verified(start: Start) -> None:
    start("boot1", 1).advance(20)
    crashed = start("boot2", 100)
    assert crashed.suspect == (20, 100)
    # The mark stays, whatever is synced and however often this is started, until all is verified.
    crashed.advance(150)
    assert crashed.suspect == (20, 100)
    assert start("boot2", 200).suspect == (20, 100)
    again = start("boot3", 200)
    assert again.suspect == (20, 200)
    again.intact(180)
    assert again.suspect == (0, 0)
    assert start("boot3", 300).suspect == (0, 0)
    assert start("boot4", 300).suspect == (180, 300)


def test_a_stop_in_order_loses_nothing(start: Start, disk: BadDisk) -> None:
    first = start("boot1", 1)
    first.advance(20)
    first.close()
    assert disk.synced == 2
    second = start("boot2", 100)
    assert second.suspect == (0, 0)
    assert start("boot3", 200).suspect == (100, 200)


def test_a_stop_before_all_is_verified_forgets_nothing(start: Start) -> None:
    start("boot1", 1).advance(20)
    start("boot2", 100).close()
    assert start("boot2", 150).suspect == (20, 100)
    start("boot2", 150).close()
    assert start("boot3", 150).suspect == (20, 150)


def test_a_disk_that_failed_once_is_not_trusted_again_before_the_next_boot(
    start: Start, disk: BadDisk, logged_errors: LoggedErrors
) -> None:
    sync = start("boot1", 1)
    sync.advance(20)
    disk.broken = True
    with pytest.raises(OSError, match="Input/output"):
        sync.advance(30)
    for method in (lambda: sync.advance(40), sync.close):
        with pytest.raises(OSError, match="earlier write"):
            method()
    with pytest.raises(OSError, match="earlier write"):
        start("boot1", 100).close()
    assert logged_errors.flush("An earlier write to the disk failed")
    assert start("boot2", 100).suspect == (20, 100)


def test_what_is_verified_is_suspect_no_longer_on_a_disk_that_has_failed(
    start: Start, disk: BadDisk, logged_errors: LoggedErrors
) -> None:
    start("boot1", 1).advance(20)
    sync = start("boot2", 100)
    assert sync.suspect == (20, 100)
    disk.broken = True
    with pytest.raises(OSError, match="Input/output"):
        sync.intact(100)
    assert sync.suspect == (20, 100)
    with pytest.raises(OSError, match="earlier write"):
        sync.intact(100)
    assert sync.suspect == (0, 0)
    assert start("boot2", 120).suspect == (0, 0) and logged_errors.flush("An earlier write to the disk failed")
    assert start("boot3", 120).suspect == (20, 120), "what was written since may be lost"


def test_what_is_verified_is_suspect_no_longer_on_a_disk_that_takes_nothing(
    start: Start, disk: BadDisk, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """Not even the mark.  What is suspect is verified at each connection."""
    start("boot1", 1).advance(20)
    sync = start("boot2", 100)

    def fails(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("lcc.storage.disk.content_sync.write_durably", fails)
        disk.broken = True
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                sync.intact(100)
        assert sync.suspect == (0, 0)
        with pytest.raises(OSError, match="Input/output"):
            sync.advance(100)
    assert start("boot2", 100).suspect == (20, 100), "it is not on the disk"
    with pytest.raises(OSError, match="earlier write"):
        sync.advance(100)
    assert start("boot2", 100).suspect == (0, 0), "it is, as soon as the disk takes it"
    assert logged_errors.flush("An earlier write to the disk failed")


def test_that_a_write_has_failed_is_noted_as_soon_as_the_disk_takes_it(
    start: Start, disk: BadDisk, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """Or the next process would believe that nothing has."""
    sync = start("boot1", 1)
    sync.advance(20)

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    disk.broken = True
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr("lcc.storage.disk.content_sync.write_durably", fails)
        sync.advance(30)
    with pytest.raises(OSError, match="earlier write"):
        sync.advance(30)
    with pytest.raises(OSError, match="earlier write"):
        start("boot1", 40).advance(40)
    assert start("boot2", 40).suspect == (20, 40)
    assert logged_errors.flush("An earlier write to the disk failed")


def test_the_mark_moves_only_after_the_sync_and_durably(tmp_path: Path) -> None:
    steps: list[str] = []

    class Watched(Disk):
        def sync_all(self, folder: Any) -> None:
            steps.append("syncfs")

        def sync_file(self, path: Any) -> None:
            steps.append(f"fsync {path.name}")

        def rename(self, source: Any, target: Any) -> None:
            steps.append(f"rename to {target.name}: {source.read_text().split()[0]}")
            super().rename(source, target)

        def sync_folder(self, path: Any) -> None:
            steps.append("fsync the folder")

    sync = ContentSync(tmp_path, "boot1", Watched())
    sync.open(1)
    steps.clear()
    sync.advance(20)
    assert steps == ["syncfs", "fsync synced.new", "rename to synced: 20", "fsync the folder"]


states = st.sampled_from(["running", "clean", "suspect", "failed"])
boots = st.sampled_from(["", "boot1", "boot2"])


@given(st.integers(0, 50), states, boots, st.integers(0, 50), boots, st.integers(0, 50))
def test_nothing_that_may_be_lost_is_ever_called_safe(
    upto: int, state: str, boot: str, suspect_upto: int, now: str, names_upto: int
) -> None:
    before = SyncMark(upto, state, boot, suspect_upto if state == "suspect" else 0)
    assert read_mark(before.to_bytes()) == before
    mark = mark_at_start(before, now, names_upto)
    if state == "clean":
        assert mark.state == "running"
    elif now and boot == now:
        assert mark == before
    else:
        # Another boot: all from the mark on is suspect.
        assert mark.upto == upto and (mark.suspect_upto == names_upto or upto >= names_upto)


def test_the_real_file_system_and_boot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    Disk().sync_all(tmp_path)
    assert len(boot_id()) == 36
    with pytest.raises(OSError):
        Disk().sync_all(tmp_path / "nowhere")


def test_a_killed_process_needs_no_room_on_the_disk_to_start_again(
    tmp_path: Path, logged_errors: LoggedErrors
) -> None:
    ContentSync(tmp_path, "boot1", BadDisk()).open(1)

    class FullDisk(BadDisk):
        def create(self, path: Any) -> Any:
            raise OSError(28, "No space left on device")

    again = ContentSync(tmp_path, "boot1", FullDisk())
    again.open(5)
    with pytest.raises(OSError, match="No space"):
        again.advance(9)
    with pytest.raises(OSError, match="No space"):
        ContentSync(tmp_path, "boot2", FullDisk()).open(9)  # what may be lost must be noted first
