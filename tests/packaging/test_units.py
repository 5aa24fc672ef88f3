"""The systemd units give the roles no more than they need."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "etc").glob("*.service"))
EXPOSURE_MAX = 30
"""Of ``systemd-analyze security``, in tenths: below 3 is what it calls OK."""


class _Unit(configparser.RawConfigParser):
    """A unit file: names keep their case, and may come again."""

    def __init__(self) -> None:
        super().__init__(strict=False, interpolation=None)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.mark.parametrize("path", UNITS, ids=[path.name for path in UNITS])
def test_privileges_are_dropped(path: Path) -> None:
    unit = _Unit()
    unit.read_string(path.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["User"] not in ("", "root", "0")
    assert service["UMask"] == "0077" and service["StateDirectoryMode"] == "0700"
    assert service["CapabilityBoundingSet"] == "" and service["AmbientCapabilities"] == ""
    assert service["ProtectSystem"] == "strict" and service["SystemCallFilter"]
    for name in (
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "RestrictSUIDSGID",
        "LockPersonality",
    ):
        assert service[name] == "true", name
    # The crash of a machine is noticed by the boot's id, below /proc/sys; TLS needs callbacks in memory.
    assert "ProcSubset" not in service and "MemoryDenyWriteExecute" not in service


@pytest.mark.parametrize("path", UNITS, ids=[path.name for path in UNITS])
def test_systemd_accepts_them(path: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd here")
    unit = tmp_path / path.name.replace("@", "@uns")
    # Its program must be there, and its user is none of this machine's business.
    text = path.read_text(encoding="utf-8").replace("/opt/lcc/bin/lcc-%i", sys.executable)
    unit.write_text(text.replace("/opt/lcc/bin/lcc", sys.executable))
    done = subprocess.run(
        [program, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and unit.name not in done.stderr, done.stderr
    command = [program, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-300:]
