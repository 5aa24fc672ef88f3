"""The web server of somebody who registers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class WebSite:
    """The web server of somebody who registers.

    :ivar files: path -> content, or what answers: status, header fields, content.
    :ivar asked: the paths that were asked for, in order.
    :ivar posted: path, header fields and body of each POST.
    """

    def __init__(self, key: Path | None = None, certificate: Path | None = None) -> None:
        """
        :param key, certificate: speak TLS with these (PEM).
        """
        self.files: dict[str, bytes | Answer | Callable[[str], Answer]] = {}
        self.asked: list[str] = []
        self.posted: list[tuple[str, dict[str, str], bytes]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append(self.path)
                found = site.files.get(self.path, site.files.get("*", (404, {}, b"no such page\n")))
                if callable(found):
                    found = found(self.path)
                status, headers, content = (200, {}, found) if isinstance(found, bytes) else found
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                site.posted.append((self.path, dict(self.headers.items()), body))
                self.do_GET()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if key is not None and certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            # Not while it accepts: a client that gives up would be waited for by all others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
