"""Which LCC ``lcc-export`` reads, and what it says if nothing answers there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lcc.export import source


def test_the_whole_command_for_an_lcc_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "lcc.toml").write_text('[cu]\nlisten = "tls:9443"\n')
    program = [sys.executable, "-c", "from lcc.export.cli import main; main()"]
    words = ["tar", "-o", "a b.tar", "--mimetype", "text/*"]
    done = subprocess.run([*program, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    socket = f"unix:{tmp_path}/lcc-home/cu.sock"
    assert done.stderr.startswith(f"Error: {socket} is unreachable: No such file or directory\n")
    assert done.stderr.endswith(
        "for an LCC elsewhere: lcc-export --from https://cache.example.org:9443 --token-file token "
        "tar -o 'a b.tar' --mimetype 'text/*'\n"
    )
    done = subprocess.run(
        [*program, "--token-file", "x", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "cannot read the token" in done.stderr


def test_whose_socket_it_is(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becomes another user")
    home = tmp_path / "home"
    home.mkdir()
    (home / "cu.sock").touch(0o600)
    assert source._user_needed(home / "cu.sock") == "" == source._user_needed(home / "none" / "cu.sock")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        assert source._user_needed(home / "cu.sock") == "root"
        os.seteuid(0)
        home.chmod(0o700)
        os.seteuid(65534)
        assert source._user_needed(home / "cu.sock") == "root"
    finally:
        os.seteuid(0)
