"""``lcc-htdig PROTOCOL URL CONFIG``: what ht://Dig's ``external_protocols`` call for each page.

It hands the question to the ``lcc-export htdig`` that runs htdig.  It imports next to nothing: it starts once a page.
"""

from __future__ import annotations

import os
import socket
import sys

SOCKET_VARIABLE = "LCC_HTDIG_SOCKET"
"""Where lcc-export listens."""


def main() -> None:
    """Answer htdig."""
    path = os.environ.get(SOCKET_VARIABLE)
    if sys.argv[1:] in (["-h"], ["--help"]):
        sys.stdout.write("lcc-htdig is called by htdig, which is called by lcc-export htdig\n")
        return
    if len(sys.argv) < 3 or not path:
        sys.exit("lcc-htdig is called by htdig, which is called by lcc-export htdig")
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            connection.sendall(sys.argv[2].encode("utf-8", "surrogateescape") + b"\n")
            while piece := connection.recv(1 << 16):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        except OSError as error:
            sys.exit(f"lcc-htdig: {error}")
