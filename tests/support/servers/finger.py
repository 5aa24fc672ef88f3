"""The fetcher plugin of a third party that doc/fetchers.md shows, and a server for it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "doc" / "fetchers.md"

_SERVER = """
from twisted.internet import reactor
from twisted.internet.protocol import Factory
from twisted.protocols.finger import Finger

class Fingerd(Finger):
    def getUser(self, slash_w, user):
        self.transport.write(b"Login: " + user + b"\\r\\nPlan: to be cached\\r\\n" if user != b"nobody" else b"")
        self.transport.loseConnection()

port = reactor.listenTCP(0, Factory.forProtocol(Fingerd), interface="127.0.0.1")
print(port.getHost().port, flush=True)
reactor.run()
"""


def _block(kind: str, beginning: str) -> str:
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return str(found)


def write_plugin(folder: Path) -> None:
    """Lay the plugin's files out below this folder, as the document says: the module, and what makes it a package."""
    plugins = folder / "lcc" / "fetchers" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "finger.py").write_text(_block("python", '"""lcc/fetchers/plugins/finger.py"""'), "utf-8")
    (folder / "pyproject.toml").write_text(_block("ini", "[build-system]"), "utf-8")


def answer_for(user: str) -> bytes:
    """What the server says of a user."""
    return f"Login: {user}\r\nPlan: to be cached\r\n".encode()


@contextmanager
def finger_server() -> Iterator[int]:
    """A finger server, Twisted's, on loopback; gives its port."""
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
