"""What a benchmark has written is removed: at once, or when all are over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from common import TRASH, scratch, trash

from lcc.storage.disk.file_system import Disk, Space


def _used() -> Path:
    with scratch() as folder:
        (folder / "file").write_text("something")
        assert folder.is_dir()
    return folder


def test_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRASH, raising=False)
    assert not _used().exists()


def test_when_all_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRASH, raising=False)
    with trash():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Disk, "space", lambda *_: Space(1 << 40, None, True))
            kept = [_used() for _ in range(2)]
            found = [path.name for path in _trash().iterdir()]
        assert not any(folder.exists() for folder in kept)
        assert sorted(found) == sorted(folder.name for folder in kept)
        removed = _trash()
    assert not removed.exists()


def test_at_once_where_the_disk_has_little_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TRASH, str(tmp_path))
    monkeypatch.setattr(Disk, "space", lambda *_: Space(1 << 30, None, True))
    with trash():
        assert not _used().exists()
    assert not list(tmp_path.iterdir())


def _trash() -> Path:
    return Path(os.environ[TRASH])
