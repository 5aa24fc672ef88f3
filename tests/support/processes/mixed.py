"""An LCC some of whose processes are of version 0.1.0, whose code is in the history of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.system import BIN, OriginServer, Site, System

ROOT = Path(__file__).resolve().parents[3]
FORMER = "bdcb837"
"""Version 0.1.0."""


def code_of_0_1_0(place: Path) -> Path:
    """Unpack the code of version 0.1.0; the test is skipped where there is no history (an archive of the source, a
    shallow clone).

    :param place: an empty folder, which is given back.
    """
    archive = subprocess.run(["git", "archive", FORMER, "lcc", "twisted"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"there is no history here: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "x", "-C", place], input=archive.stdout, check=True)
    return place


class Mixed(System):
    """An LCC some of whose processes are of version 0.1.0.

    :param code: of that version.
    :ivar former: their names; ``tools``: those of providers.
    """

    def __init__(self, folder: Path, origin: OriginServer, code: Path, database_url: str | None = None) -> None:
        self.code = code
        self.former: set[str] = {"admin"}
        super().__init__(folder, origin, database_url)
        self._now = dict(self.environment)
        self._then = dict(self.environment, PYTHONPATH=str(code))
        self._tools = folder / "tools"
        self._tools.mkdir()
        for name in ("file2url", "lcccpstate", "lcccp"):
            tool = self._tools / name
            tool.write_text(
                f"#!/bin/sh\nPYTHONPATH={code} exec {sys.executable} -P"
                f" -c 'from lcc.provider.{name} import main; main()' \"$@\"\n"
            )
            tool.chmod(0o755)

    def admin(self, *arguments: str) -> str:
        if "admin" not in self.former:
            return super().admin(*arguments)
        command = ["-c", "from lcc.admin.cli import main; main()", "--config", str(self.admin_config), *arguments]
        environment = dict(os.environ, PYTHONPATH=str(self.code))
        done = subprocess.run(
            [sys.executable, "-P", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"lcc-admin {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *names: str) -> None:
        for name in names:
            self.environment = self._then if name in self.former else self._now
            super().start(name)

    def as_provider(self, site: Site, command: str) -> subprocess.CompletedProcess[str]:
        if "tools" in self.former:
            command = command.replace(f"{BIN}/", f"{self._tools}/")
        self.environment = self._now
        return super().as_provider(site, command)
