"""Programs and commands of the pages while no LCC runs: a plain sentence, and no traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import PAGES, Block, blocks_of

from .worlds import BIN

PROGRAMS = [block for page in PAGES for block in blocks_of(page, "python") if "sys.argv" in block.text]
COMMANDS = (
    "lcc-admin urls",
    "lcc-admin show http://www.example.org/",
    "lcc-admin top",
    "lcc-admin why http://www.example.org/",
    "lcc-admin console uns",
    "lcc-export tar -o x.tar",
    "lcc-export swish-e",
    "lcccp --check --uns=127.0.0.1:1 --pid=1 --pwd-file=password",
    "file2url page.html | lcccp --uns=127.0.0.1:1 --pid=1 --pwd-file=password --urlprefix=http://a/",
)


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_programs(block: Block, tmp_path: Path) -> None:
    arguments = [f"unix:{tmp_path}/none", str(tmp_path), "1"]
    if "AF_UNIX" in block.text:
        arguments[0] = arguments[0].removeprefix("unix:")
    elif "machine, file" in block.text:
        arguments[1] = "1"
    words = [sys.executable, "-c", block.text, *arguments]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert re.fullmatch(r"cannot read .*\n", done.stderr), done.stderr


def test_there_are_some() -> None:
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>")
    (tmp_path / "password").write_text("x\n")
    (tmp_path / "password").chmod(0o600)
    if "admin" in command and "urls" not in command:
        subprocess.run([BIN / "lcc-admin", "init"], cwd=tmp_path, check=True, capture_output=True)
    words = ["bash", "-o", "pipefail", "-c", command]
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 0 or done.stderr.strip(), command
    assert "why" in command or "top" in command or done.returncode, (done.stdout, done.stderr)
