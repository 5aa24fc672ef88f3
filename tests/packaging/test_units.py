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
ROLES = [path for path in UNITS if path.name != "lccwatch@.service"]
SOCKET = ROOT / "etc" / "lcc-uns.socket"
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


@pytest.mark.parametrize("path", ROLES, ids=[path.name for path in ROLES])
def test_systemd_hears_how_they_are(path: Path) -> None:
    unit = _Unit()
    unit.read_string(path.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["Type"] == "notify" and service["NotifyAccess"] == "main"
    # A role waits for ever for what it needs: ending it meanwhile would help nobody.
    assert service["TimeoutStartSec"] == "infinity" and int(service["WatchdogSec"]) >= 60
    assert service["Restart"] == "always"


@pytest.fixture(scope="module")
def analyze() -> str:
    program = shutil.which("systemd-analyze")
    assert program is not None, "there is no systemd-analyze: make system"
    return program


def installed(path: Path, folder: Path) -> Path:
    """A unit as it would be installed; its program must be there."""
    unit = folder / path.name.replace("@", "@uns")
    text = path.read_text(encoding="utf-8").replace("/opt/lcc/bin/lcc-%i", sys.executable)
    text = text.replace("/opt/lcc/bin/lccwatch", sys.executable)
    unit.write_text(text.replace("/opt/lcc/bin/lcc", sys.executable))
    return unit


def test_systemd_accepts_them(analyze: str, tmp_path: Path) -> None:
    units = [installed(path, tmp_path) for path in (*UNITS, SOCKET)]
    done = subprocess.run(
        [analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    # Their user is none of this machine's business.
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if any(unit.name in line for unit in units)], done.stderr


@pytest.mark.parametrize("path", UNITS, ids=[path.name for path in UNITS])
def test_systemd_counts_them_as_little_exposed(path: Path, analyze: str, tmp_path: Path) -> None:
    command = [analyze, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", installed(path, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-300:]
    # What is said is not what it always says.
    open_unit = tmp_path / "open.service"
    open_unit.write_text(f"[Service]\nExecStart={sys.executable}\n")
    done = subprocess.run([*command[:-1], open_unit], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
