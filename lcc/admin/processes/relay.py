"""``python -m lcc.admin.processes.relay SOCKET``: standard input and output to a UNIX socket and back, for ssh, which
knows of TCP only (``ProxyCommand``)."""

from __future__ import annotations

import os
import socket
import sys
import threading

PIECE_BYTES = 65536


def main() -> None:
    """Relay until both ends are done."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(sys.argv[1])
        except OSError as error:
            sys.exit(f"{sys.argv[1]}: {error.strerror}: is the role running?")
        threading.Thread(target=_send, args=(connection,), daemon=True).start()
        while data := connection.recv(PIECE_BYTES):
            _write(data)


def _send(connection: socket.socket) -> None:
    try:
        while data := os.read(0, PIECE_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other thread sees the end


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
