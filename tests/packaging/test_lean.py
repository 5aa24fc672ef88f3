"""Roles whose wires are all within this machine do without OpenSSL, which Twisted would load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lcc.config import load_config
from lcc.services.lean import _needs_tls

ROLES = ["uns", "qm", "scheduler"]
MADE = """
import sys
from twisted.scripts.twistd import ServerOptions
options = ServerOptions()
options.parseOptions(["--nodaemon", "--pidfile=", *sys.argv[1:]])
options.loadedPlugins[options.subCommand].makeService(options.subOptions)
print(*(name for name in ("OpenSSL", "cryptography", "twisted.internet.tcp") if sys.modules.get(name)))
"""


def loaded_by(folder: Path, role: str, config: str) -> list[str]:
    (folder / "lcc.toml").write_text(config)
    command = [sys.executable, "-c", MADE, f"lcc-{role}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("role", ROLES)
def test_without_a_wire_over_tls(role: str, tmp_path: Path) -> None:
    assert loaded_by(tmp_path, role, "") == ["twisted.internet.tcp"]


def test_with_one(tmp_path: Path) -> None:
    config = '[scheduler]\nlisten = "tls:9300:interface=127.0.0.1"\n'
    assert loaded_by(tmp_path, "scheduler", config) == ["OpenSSL", "cryptography", "twisted.internet.tcp"]


@pytest.mark.parametrize(
    ("role", "setting", "value", "needs"),
    [
        ("uns", "listen", "tls:9000", True),
        ("uns", "listen", "tcp:9000:interface=127.0.0.1", False),
        ("uns", "listen", "haproxy:tls:9000", True),
        ("uns", "connect", "tls:10.0.0.1:9100", True),
        ("uns", "listen_notifiers", "unix:{home}/{role}.sock", False),
        ("qm", "listen_botm", "tls:9101:interface=10.0.0.1", True),
        ("qm", "metrics", "tls:9110", True),
        ("qm", "manhole", "unix:{home}/console.sock", True),
        ("scheduler", "connect", "ssl:10.0.0.1:9100", True),
        ("scheduler", "metrics", "", False),
    ],
)
def test_what_needs_it(role: str, setting: str, value: str, needs: bool, tmp_path: Path) -> None:
    path = tmp_path / "lcc.toml"
    path.write_text(f"[{role}]\n{setting} = {value!r}\n")
    assert _needs_tls(load_config(path), role) is needs
