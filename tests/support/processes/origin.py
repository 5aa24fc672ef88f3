"""A web server as a content provider has one, that writes down what a polite robot must never do to it.

Run as a program: ``origin.py ROOT LOG DELAY_MS ADDRESS``.  It serves the files below ROOT on a port of the kernel's
choice, prints that port, and answers each request DELAY_MS after it came.  The first segment of a path names the
provider.  LOG gets a line of JSON for each request: path, provider, the client's port (which names the connection),
when it came, and how many requests of the same provider were being answered then, itself included.  A request whose
client has closed its connection is over, also when that was not noticed yet: its socket is asked.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.web.http import CACHED
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from twisted.web.static import File, getTypeAndEncoding


class WatchfulOrigin(Resource):
    """Answers later, and knows how many requests of a provider are being answered.

    Override :meth:`asked` and :meth:`answer`.
    """

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self._active: dict[str, set[Request]] = defaultdict(set)

    def asked(self, request: Request, path: str, provider: str, active: int) -> float:
        """A request has come; gives the seconds after which it is to be answered.

        :param active: requests of this provider that are being answered, this one included.
        """
        raise NotImplementedError

    def answer(self, request: Request, path: str) -> None:
        """Answer it, as a whole and at once."""
        raise NotImplementedError

    def render_GET(self, request: Request) -> int | bytes:
        path = request.path.decode()
        provider = path.strip("/").split("/")[0]
        active = 1 + sum(not _is_closed(each) for each in self._active[provider])
        self._active[provider].add(request)
        delay_seconds = self.asked(request, path, provider, active)
        finished = request.notifyFinish()
        finished.addBoth(self._ended, provider, request)
        call = reactor.callLater(delay_seconds, self.answer, request, path)  # type: ignore[attr-defined]
        finished.addErrback(lambda _lost: call.cancel() if call.active() else None)
        return NOT_DONE_YET

    def _ended(self, result: Any, provider: str, request: Request) -> Any:
        self._active[provider].discard(request)
        return result


class Origin(WatchfulOrigin):
    """Serves files, slowly."""

    def __init__(self, root: Path, log: Path, delay_seconds: float) -> None:
        super().__init__()
        self._root = root
        self._log = log.open("a", buffering=1)
        self._delay_seconds = delay_seconds

    def asked(self, request: Request, path: str, provider: str, active: int) -> float:
        port = request.getClientAddress().port  # type: ignore[attr-defined]
        row = {"path": path, "provider": provider, "port": port, "active": active, "time": round(time.time(), 3)}
        self._log.write(json.dumps(row) + "\n")
        return self._delay_seconds

    def answer(self, request: Request, path: str) -> None:
        file = self._root.joinpath(*path.strip("/").split("/"))
        if not file.is_file():
            request.setResponseCode(404)
        elif request.setLastModified(file.stat().st_mtime) is not CACHED:
            content = file.read_bytes()
            kind, _encoding = getTypeAndEncoding(file.name, File.contentTypes, File.contentEncodings, "text/html")
            request.setHeader("content-type", kind)
            request.setHeader("content-length", str(len(content)))
            # At once, not piece by piece: the client must not have everything before this request is over here.
            request.write(content)
        request.finish()


def _is_closed(request: Request) -> bool:
    """Whether the client has closed the connection of this request."""
    try:
        return not request.channel.transport.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    """Serve until killed."""
    root, log, delay_ms = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    site = Site(Origin(root, log, delay_ms / 1000))
    port = reactor.listenTCP(0, site, interface=sys.argv[4])  # type: ignore[attr-defined]
    print(port.getHost().port, flush=True)
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
