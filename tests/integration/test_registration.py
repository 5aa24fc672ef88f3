"""A newcomer's whole way with real processes: register, put the file, have it looked at, publish; it is cached.

Through the web pages, the HTTP API and the shell; to roles of their own and to all of them in one process.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.browser import Visitor
from tests.support.ports import free_port
from tests.support.processes.system import BIN, ROLES, Site, System
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .databases import by_turns

LayOut = Callable[[str, int], Path]
FILE = re.compile(r"lcc-[0-9a-f]{16}\.txt")


class Newcomer:
    """Somebody with a site, whom nobody knows yet."""

    def __init__(self, system: System, folder: Path, port: int) -> None:
        self.system, self.folder = system, folder
        self.visitor = Visitor(port)
        self.url = system.origin.url(folder.name)

    def put(self, file: str, secret: str) -> None:
        (self.folder / file).write_text(f"{secret}\n")

    def by_pages(self) -> tuple[int, str]:
        """Number and password, through the forms."""
        form = self.visitor.get("/register")
        given = self.visitor.submit(form, contact="me@example.org", site=self.url, bandwidth="100000000")
        early = self.visitor.submit(given)
        assert early.status == 409 and early.text("failure") == "Not Found"
        found = FILE.search(given.page.text_content())
        assert found is not None
        self.put(found[0], given.text("secret"))
        done = self.visitor.submit(early)
        assert done.status == 200, done.body
        # What the page says to do next is what is done below.
        (pre,) = done.page.xpath("//pre")
        assert f"--pid={done.text('pid')}" in pre.text_content() and f"--urlprefix={self.url}" in pre.text_content()
        return int(done.text("pid")), given.text("password")

    def by_api(self) -> tuple[int, str]:
        given = self.visitor.api("", {"contact": "me@example.org", "site": self.url}).json()
        self.put(given["file"], given["secret"])
        done = self.visitor.api(f"/{given['ticket']}/check", {}).json()
        return int(done["pid"]), str(given["password"])

    def by_shell(self) -> tuple[int, str]:
        """The operator does it, on the telephone with the owner."""
        given = self._shell("ask", "--contact", "me@example.org", "--site", self.url)
        self.put(given["file"], given["secret"])
        done = self._shell("check", str(given["number"]))
        return int(done["pid"]), str(given["password"])

    def _shell(self, *arguments: str) -> Any:
        # A process of its own: it runs a reactor, and the tests' one runs already.
        command = [BIN / "lcc-admin", "--config", self.system.config, "register", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@by_turns("shape", "separate", "all-in-one")
def test_a_newcomers_whole_way(system: System, lay_out: LayOut, shape: str) -> None:
    port = free_port()
    with system.config.open("a") as file:
        file.write(
            f'[rs]\nlisten = "tcp:{port}:interface=127.0.0.1"\nallow_private = true\nany_port = true\n'
            f'uns = "127.0.0.1:{system.port}"\n'
        )
    folders = {way: lay_out(way, 3) for way in ("pages", "api", "shell")}
    names = (*ROLES, "rs") if shape == "separate" else ("all",)
    system.start(*names)
    visitor = Visitor(port)
    wait_for("the registration server answers", lambda: _answers(visitor))
    passwords = []
    for way, folder in folders.items():
        newcomer = Newcomer(system, folder, port)
        pid, password = getattr(newcomer, f"by_{way}")()
        passwords.append(password)
        for file in folder.glob("lcc-*.txt"):
            file.unlink()  # it is not needed any longer
        site = Site(pid, password, way, folder, newcomer.url, system.folder / f"{way}.state")
        # It can publish at once: nothing has to be restarted.
        system.publish_when_up(site)
        assert len(system.wait_cached(site)) == 3
    assert [row["state"] for row in system.rows("register", "list")] == ["done"] * 3
    for name in names:
        system.stop(name)
        assert not [password for password in passwords if password in system.log(name)]


def _answers(visitor: Visitor) -> bool:
    try:
        return visitor.get("/").status == 200
    except OSError:
        return False
