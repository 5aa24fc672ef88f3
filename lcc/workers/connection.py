"""A worker's side of descriptor 3: requests and answers, blocking."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import threading
from xml.parsers import expat

from lcc.protocols.xmltext import escape

DESCRIPTOR = 3
"""Where a worker talks with its manager."""
_ANSWER_BYTES_MAX = 1 << 20
_PIECE_BYTES = 65536


class JobError(Exception):
    """The manager refuses a request, or there is no manager.

    :ivar code: ``invalid``: the request makes no sense; ``too-much``: a limit is reached; ``not-yours``: it names
        another job; ``failed``: it could not be done now; ``no-manager``: this process was not started by one, or it
        is gone.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """Descriptor 3 of this process, which all processes of a job may use, also at the same time.

    :param descriptor: a stream socket.
    :param named_in_environment: each request says for which job it is: that of ``LCC_JOB_ID``.
    :raises JobError: it is none.
    """

    def __init__(self, descriptor: int = DESCRIPTOR, *, named_in_environment: bool = False) -> None:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                raise OSError
            self._socket = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            text = f"descriptor {descriptor} is no socket: this process was not started by lcc-manager"
            raise JobError("no-manager", text) from None
        self._socket.setblocking(True)
        self._lock = threading.Lock()
        self._job = os.environ.get("LCC_JOB_ID", "") if named_in_environment else ""

    def ask(self, tag: str, attributes: dict[str, str]) -> dict[str, str]:
        """Send a request; gives the attributes of its answer.

        :raises JobError: it is refused, or the manager is gone.
        """
        if self._job:
            attributes = {**attributes, "job": self._job}
        written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
        request = f"<{tag}{written}/>\n".encode("utf-8", "replace")
        with self._lock:
            # Of the processes of this job one at a time, so that each gets its own answer.
            fcntl.lockf(self._socket, fcntl.LOCK_EX)
            try:
                self._socket.sendall(request)
                answer = self._line()
            except OSError:
                answer = b""
            finally:
                fcntl.lockf(self._socket, fcntl.LOCK_UN)
        if not answer:
            raise JobError("no-manager", "the manager has closed descriptor 3")
        name, said = _parsed(answer)
        if name == "error":
            raise JobError(said.get("code", "failed"), said.get("text", ""))
        return said

    def _line(self) -> bytes:
        data = b""
        while not data.endswith(b"\n"):
            piece = self._socket.recv(_PIECE_BYTES)
            if not piece or len(data) > _ANSWER_BYTES_MAX:
                return b""
            data += piece
        return data


def _parsed(line: bytes) -> tuple[str, dict[str, str]]:
    found: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = lambda name, attributes: found.append((name, attributes))
    try:
        parser.Parse(line, True)
        return found[0]
    except (expat.ExpatError, IndexError):
        raise JobError("failed", f"the manager's answer makes no sense: {line[:80]!r}") from None
