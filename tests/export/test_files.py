"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lcc.export.files import replacing


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (b"one", b"two"):
        with replacing(path) as file:
            file.write(data)
        assert path.read_bytes() == data
    with pytest.raises(KeyError), replacing(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"two" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "x"
    link.symlink_to(elsewhere / "y")
    for data in (b"one", b"two"):
        with replacing(link) as file:
            file.write(data)
        assert link.is_symlink() and (elsewhere / "y").read_bytes() == data


def test_what_is_no_plain_file_is_left_alone(tmp_path: Path) -> None:
    """Root, too, must not turn a device into a file; a FIFO stands for it here."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        before = path.stat().st_mode
        with pytest.raises(OSError, match="no plain file"), replacing(path) as file:
            file.write(b"x")
        assert path.stat().st_mode == before
    assert stat.S_ISFIFO(fifo.stat().st_mode) and list(tmp_path.iterdir()) == [fifo]
