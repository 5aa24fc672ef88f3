"""An LCC some of whose processes are of version 0.1.0, whose code is in the history of this repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.support.ports import free_port
from tests.support.processes.system import BIN, OriginServer, Site, System
from tests.support.processes.tree import Tree
from tests.support.waiting import PATIENCE_SECONDS, wait_for

ROOT = Path(__file__).resolve().parents[3]
FORMER = "bdcb837"
"""Version 0.1.0."""
READER = """
import hashlib, json, sys
from lcc.users.blocking import Cache, CacheError, StartAgain

address, token, since = sys.argv[1:]
try:
    with Cache(address, token, timeout_seconds=60) as cache:
        changes = cache.changes(since)
        pages = {row["curl"]: row["state"] == "cached" and row["key"] for row in changes}
        contents = {curl: cache.content(key).read() if key else None for curl, key in pages.items()}
        md5s = {curl: "" if data is None else hashlib.md5(data).hexdigest() for curl, data in contents.items()}
        print(json.dumps({"pages": md5s, "token": changes.token}))
except StartAgain:
    print(json.dumps({"token": ""}))
except CacheError as error:
    sys.exit(f"later: {error}")
"""
"""A content user's program; each version has these names."""


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
    :param more: as of the class that this one is mixed with.
    :ivar former: their names; ``tools``: those of providers, ``user``: a content user's program.
    """

    def __init__(
        self, folder: Path, origin: OriginServer, code: Path, database_url: str | None = None, **more: Any
    ) -> None:
        self.code = code
        self.former: set[str] = {"admin"}
        super().__init__(folder, origin, database_url, **more)
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

    def read(self, address: str, key: str, since: str) -> Told:
        """What a content user is told, as soon as ``lcc-cu`` answers.

        :param key: from ``lcc-admin user add``.
        """
        environment = self._then if "user" in self.former else self._now
        command = [sys.executable, "-P", "-c", READER, address, key, since]

        def read() -> str:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
            )
            assert not done.stderr or done.stderr.startswith("later: "), done.stderr
            return done.stdout

        return Told(**json.loads(wait_for("the content user is answered", read)))

    def add_user(self) -> str:
        """Register a content user; gives what it shows to be let in."""
        return str(json.loads(self.admin("user", "add", "reader", "--json"))["token"])


@attrs.frozen
class Told:
    """What a content user was told.

    :ivar token: to come back with; empty: it has to start again.
    :ivar pages: curl -> md5 of the content; empty: deleted.
    """

    token: str
    pages: dict[str, str] = attrs.field(factory=dict)


class MixedTree(Mixed, Tree):
    """:class:`Mixed` with a central BOT-M, one machine, and two servers for content users, ``cu`` and ``cu2``.

    :ivar cu: name of a server -> its address.
    """

    def __init__(self, folder: Path, origin: OriginServer, code: Path) -> None:
        super().__init__(folder, origin, code, machines=1, robots=1)
        self.cu: dict[str, str] = {}
        for name in ("cu", "cu2"):
            port = free_port()
            self.cu[name] = f"http://127.0.0.1:{port}"
            self._configure(
                name,
                f'[cu]\nlisten = "tcp:{port}:interface=127.0.0.1"\ncontent = "unix:{folder}/central/content.sock"\n',
            )
