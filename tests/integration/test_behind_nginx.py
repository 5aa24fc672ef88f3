"""What doc/ports.md says of nginx, with a real one: its servers, and its settings of the LCC."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lcc.client.blocking import Cache
from tests.support.certificates import Authority
from tests.support.documents import ROOT, blocks_of
from tests.support.ports import free_port, listens
from tests.support.processes.system import OriginServer, System
from tests.support.servers.nginx import Nginx
from tests.support.waiting import wait_for

PAGE = ROOT / "doc" / "ports.md"
NAMES = [f"{name}.example.org" for name in ("cache", "register", "monitor")]
PASSWORD = "correct horse battery"


class Visitor:
    """curl, which takes nginx for these hosts.

    :param port: of nginx.
    """

    def __init__(self, folder: Path, authority: Path, port: int) -> None:
        self._words = [
            "curl",
            "-sS",
            "--cacert",
            str(authority),
            "-c",
            "cookies",
            "-b",
            "cookies",
            "--max-time",
            "60",
        ]
        for name in NAMES:
            self._words += ["--connect-to", f"{name}:443:127.0.0.1:{port}"]
        self._folder = folder

    def ask(self, url: str, *more: str, code: int = 0) -> str:
        """The answer, and its status in a line behind it."""
        words = [*self._words, "-w", "\n%{http_code}", *more, url]
        done = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout


def test_behind_nginx(tmp_path: Path, origin: OriginServer, lay_out: Callable[[str, int], Path]) -> None:
    (settings,) = [block.text for block in blocks_of(PAGE, "toml") if block.more == "nginx"]
    (servers,) = [block.text for block in blocks_of(PAGE, "nginx")]
    for port in ("9400", "9540", "9600"):
        assert port in settings and port in servers
        free = str(free_port())
        settings, servers = settings.replace(port, free), servers.replace(port, free)
    front = free_port()
    key, certificate, authority = Authority().write(tmp_path, *NAMES)
    secure = f"ssl_certificate {certificate}; ssl_certificate_key {key};"
    servers = servers.replace("listen 443 ssl;", f"listen 127.0.0.1:{front} ssl; {secure}")
    (tmp_path / "lcc").mkdir()
    system = System(tmp_path / "lcc", origin, None, extra=settings)
    nginx = Nginx(tmp_path, tmp_path / "nginx", servers=servers)
    try:
        system.start("all")
        for port in re.findall(r"127\.0\.0\.1:(\d+);", servers):
            wait_for("all ports are open", lambda port=port: listens(int(port)))
        visitor = Visitor(tmp_path, authority, front)
        lay_out("docs", 5)
        site = system.add_site("docs")
        system.publish_when_up(site)
        system.wait_cached(site)
        content_users(system, visitor)
        registration(visitor)
        monitor(system, visitor)
    finally:
        nginx.stop()
        system.stop_all()


def content_users(system: System, visitor: Visitor) -> None:
    cache = "https://cache.example.org"
    assert visitor.ask(f"{cache}/urls").endswith("\n401"), "the proxy does not lead to the socket"
    token = system.admin("user", "add", "nginx").split()[-1]
    given = ("-H", f"Authorization: Bearer {token}")
    answer = visitor.ask(f"{cache}/changes?since=0", *given)
    assert answer.endswith("\n200")
    following = re.findall(r'"next": ?"(.*?)"', answer)[-1]
    began = time.monotonic()
    assert visitor.ask(f"{cache}/changes?since={following}&wait=2", *given).endswith("\n200")
    assert time.monotonic() - began >= 2, "it has waited for a change"
    assert "https://cache.example.org/content/" in visitor.ask(f"{cache}/resourcesync/1/resourcelist.xml", *given)
    with Cache(f"unix:{system.folder}/home/cu.sock") as local:
        assert len(list(local.urls())) == 5, "who is here needs no token"


def registration(visitor: Visitor) -> None:
    page = visitor.ask("https://register.example.org/")
    assert page.endswith("\n200") and "Register" in page
    # It knows that browsers come by https.
    assert "strict-transport-security" in visitor.ask("https://register.example.org/", "-D", "-").lower()


def monitor(system: System, visitor: Visitor) -> None:
    password = system.folder / "web-password"
    password.write_text(f"{PASSWORD}\n")
    system.admin("web-user", "add", "ann", "--password-file", str(password))
    url = "https://monitor.example.org"
    page = visitor.ask(f"{url}/login")
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    assert fields, page
    fields |= {"name": "ann", "password": PASSWORD}
    sent = [word for name, value in fields.items() for word in ("--data-urlencode", f"{name}={value}")]
    assert visitor.ask(f"{url}/login", *sent, "-H", f"Origin: {url}").endswith("\n303")
    assert "Overview" in visitor.ask(f"{url}/")
    # The stream is not held back: its first event is there long before it ends.
    wait_for("an event", lambda: "event: look" in visitor.ask(f"{url}/live", "-N", "--max-time", "5", code=28))
