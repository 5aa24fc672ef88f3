"""A proxy over real sockets that cuts a connection after some of its bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from select import select
from threading import Lock, Thread

import attrs

Connect = Callable[[], socket.socket]


@attrs.frozen
class _Plan:
    """See :meth:`Cutter.cut_next`."""

    up: bool
    after_bytes: int
    reset: bool


class Cutter:
    """Passes on what comes in; :meth:`cut_next` has the next connection cut.

    :param listener: bound, where connections come in.
    :param connect: makes the connection onwards.
    :ivar cuts: connections that were cut.
    """

    def __init__(self, listener: socket.socket, connect: Connect) -> None:
        self.cuts = 0
        self._listener = listener
        self._connect = connect
        self._plan: _Plan | None = None
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._closed = False
        listener.listen(50)
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut_next(self, up: bool, after_bytes: int, reset: bool) -> None:
        """Cut the next connection.

        :param up: what the connecting end says is cut; False: what the other one says.
        :param reset: both ends lose all that is on its way; False: who was to read on reads the end.
        """
        with self._lock:
            self._plan = _Plan(up, after_bytes, reset)

    def drop_all(self) -> None:
        """End all connections."""
        with self._lock:
            open_now = list(self._open)
        for one in open_now:
            _end(one)

    def close(self) -> None:
        """Stop."""
        self._closed = True
        _end(self._listener)
        self._listener.close()
        self.drop_all()
        self._thread.join(10)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = self._connect()
            except OSError:
                near.close()
                continue
            with self._lock:
                plan, self._plan = self._plan, None
                self._open |= {near, far}
            Thread(target=self._serve, args=(near, far, plan), daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket, plan: _Plan | None) -> None:
        with suppress(OSError):
            self._pass_on(near, far, plan)
        with self._lock:
            self._open -= {near, far}
        for one in (near, far):
            one.close()

    def _pass_on(self, near: socket.socket, far: socket.socket, plan: _Plan | None) -> None:
        """Until both ends have ended, or it is to be cut."""
        others = {near: far, far: near}
        cut_source = None if plan is None else near if plan.up else far
        left = plan.after_bytes if plan is not None else 0
        swallowed: socket.socket | None = None
        reading = [near, far]
        while reading:
            if cut_source is not None and not left:
                self.cuts += 1
                if plan is not None and plan.reset:
                    for one in (near, far):
                        _reset(one)
                    return
                others[cut_source].shutdown(socket.SHUT_WR)
                swallowed, cut_source = cut_source, None
            for source in select(reading, [], [])[0]:
                data = source.recv(min(left, 65536) if source is cut_source else 65536)
                if not data:
                    reading.remove(source)
                    if source is not swallowed:
                        others[source].shutdown(socket.SHUT_WR)
                elif source is not swallowed:
                    others[source].sendall(data)
                    if source is cut_source:
                        left -= len(data)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    """When it is closed, its peer reads an error and nothing more; a UNIX socket only ends at once."""
    if one.family != socket.AF_UNIX:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
