"""How the three commands start: closed standard handles, a password on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
STREAM = '<url c="a.html" m="text/html"/>\n<?lcc-end count="1"?>\n'
CLOSED = {0: "<&-", 1: ">&-", 2: "2>&-"}
COMMANDS = {
    "find": "file2url --find docroot",
    "names": "file2url",
    "state": "lcccpstate --statefile=state",
    "lcccp": "lcccp --uns=127.0.0.1:1 --pid=1 --pwd=x",
    "check": "lcccp --uns=127.0.0.1:1 --pid=1 --pwd=x --check",
}


@pytest.mark.parametrize(
    ("command", "handle", "code", "said"),
    [
        ("find", 0, 0, ""),
        ("find", 1, 1, "file2url: cannot write the output: Bad file descriptor"),
        ("find", 2, 0, ""),
        ("names", 0, 2, "file2url: standard input is closed"),
        ("names", 1, 1, "file2url: cannot write the output: Bad file descriptor"),
        ("names", 2, 0, ""),
        ("state", 0, 1, "lcccpstate: standard input is closed"),
        ("state", 1, 1, "lcccpstate: cannot write the output: Bad file descriptor"),
        ("state", 2, 0, ""),
        ("lcccp", 0, 2, "lcccp: standard input is closed"),
        ("lcccp", 1, 4, "lcccp: 127.0.0.1:1: cannot connect"),
        ("lcccp", 2, 4, ""),
        ("check", 0, 4, "lcccp: 127.0.0.1:1: cannot connect"),
        ("check", 1, 4, "lcccp: 127.0.0.1:1: cannot connect"),
        ("check", 2, 4, ""),
    ],
)
def test_a_closed_standard_handle(tmp_path: Path, command: str, handle: int, code: int, said: str) -> None:
    """As any other program has it: what cannot be read or written fails in words, what is for people may be lost."""
    (tmp_path / "docroot").mkdir()
    (tmp_path / "docroot" / "a.html").write_text("a")
    text = "docroot/a.html\n" if command == "names" else STREAM
    line = f"{BIN}/{COMMANDS[command]} {CLOSED[handle]}"
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=tmp_path, input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
    assert done.stderr.startswith(said) and bool(said) == bool(done.stderr), done.stderr
    if code == 0 and handle != 1:
        assert "<?lcc-end" in done.stdout
    assert (tmp_path / "state.pending").exists() == (command == "state" and code == 0)


_CLOSED_TWICE = (
    "exec <&- >&- 2>&-; {bin}/lcccpstate --statefile=state; exec {bin}/lcccp --uns=127.0.0.1:1 --pid=1 --pwd=x"
)


def test_all_three_are_closed(tmp_path: Path) -> None:
    """Nothing that a tool opens may get their numbers: its own messages would be written into it."""
    (tmp_path / "state").write_text("lcc-state 1 t\nend 0\n")
    done = subprocess.run(["/bin/bash", "-c", _CLOSED_TWICE.format(bin=BIN)], cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 2
    assert (tmp_path / "state").read_text() == "lcc-state 1 t\nend 0\n"
    assert (tmp_path / "state.lock").read_text() == "" if (tmp_path / "state.lock").exists() else True


_SEE = """
import os, sys
sys.argv = ["lcccp", "--help"]
from lcc.provider import start
loaded = sorted(name for name in sys.modules if name.startswith(("lcc.", "click", "twisted", "ctypes", "pathlib")))
print(*loaded)
"""


def test_the_password_is_hidden_before_anything_large_is_imported() -> None:
    """For as long as it takes to import them everybody could read it (test_canaries: that it is hidden)."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", _SEE], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [
        "lcc.commands", "lcc.commands.standard_streams", "lcc.provider", "lcc.provider.hidden", "lcc.provider.start",
    ]  # fmt: skip
    assert "lcc.provider.start" in (BIN / "lcccp").read_text()
