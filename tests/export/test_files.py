"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lcc.export.files import replacing
from lcc.export.leftovers import hold, temporary_folder


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
        with pytest.raises(OSError, match="not a regular file"), replacing(path) as file:
            file.write(b"x")
        assert path.stat().st_mode == before
    assert stat.S_ISFIFO(fifo.stat().st_mode) and list(tmp_path.iterdir()) == [fifo]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """But not what somebody uses, nor what is somebody else's, nor what has only just been made."""
    path = tmp_path / "x[1]"
    for name in (".x[1].old.part", ".x[1].used.part", ".x[1].new.part", ".x1.other.part", "x[1].part"):
        (tmp_path / name).write_bytes(b"half")
        if "new" not in name:
            os.utime(tmp_path / name, (0, 0))
    with (tmp_path / ".x[1].used.part").open("rb") as used:
        hold(used.fileno())
        with replacing(path) as file:
            file.write(b"whole")
            names = {each.name for each in tmp_path.iterdir()}
            assert ".x[1].old.part" not in names and len(names) == 5
    assert path.read_bytes() == b"whole"


def test_a_folder_of_a_killed_process_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = "import time; from lcc.export.leftovers import temporary_folder as f\nwith f('lcc-t-') as p:\n"
    program += " (p / 's').touch(); print(p, flush=True); time.sleep(100)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().decode().strip())
        os.utime(left, (0, 0))
        with temporary_folder("lcc-t-") as mine:
            assert left.is_dir() and mine.is_dir()  # it is in use
        process.kill()
        process.wait()
    assert (left / "s").exists()
    with temporary_folder("lcc-t-") as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert not list(tmp_path.iterdir())
