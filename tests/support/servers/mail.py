"""A mail server (SMTP submission) on loopback, that does as it is told."""

from __future__ import annotations

import ssl
from base64 import b64decode
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

import attrs


@attrs.define
class Taken:
    """A mail that was taken.

    :ivar secured: over TLS.
    :ivar user, password: of the login; empty: there was none.
    """

    sender: str
    recipients: list[str]
    message: bytes
    secured: bool
    user: str = ""
    password: str = ""


class _Server(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class MailServer:
    """
    :param files: key and certificate, to offer STARTTLS, or (``immediate``) to speak TLS from the first byte on.
    :param ways: of logging in.
    :param says: command -> what is answered instead; ``silence``: nothing.
    :ivar taken: the mails.
    :ivar heard: the commands, without what was secret in them.
    """

    def __init__(
        self,
        files: tuple[Path, Path] | None = None,
        *,
        immediate: bool = False,
        ways: str = "PLAIN LOGIN",
        says: dict[str, bytes] | None = None,
    ) -> None:
        self.taken: list[Taken] = []
        self.heard: list[str] = []
        self.release = Event()
        context: ssl.SSLContext | None = None
        if files is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files[1], files[0])
        server = self

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                talk = _Talk(server, self, context, immediate, ways, says or {})
                try:
                    talk.go()
                except (OSError, ssl.SSLError):
                    pass  # the client has gone
                talk.close()

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()
        self.port: int = self._server.server_address[1]

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Talk:
    def __init__(
        self,
        server: MailServer,
        handler: Any,
        context: ssl.SSLContext | None,
        secured: bool,
        ways: str,
        says: dict[str, bytes],
    ) -> None:
        self._server, self._context, self._ways, self._says = server, context, ways, says
        self._socket, self._file = handler.request, handler.rfile
        self._immediate = secured
        self._secured = secured
        self._mail = Taken("", [], b"", secured)

    def _wrap(self) -> None:
        assert self._context is not None
        self._file.close()
        self._socket = self._context.wrap_socket(self._socket, server_side=True)
        self._file = self._socket.makefile("rb")
        self._secured = self._mail.secured = True

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def go(self) -> None:
        if self._immediate:
            self._wrap()
        self._answer("CONNECT", b"220 mail.example ESMTP")
        while line := self._line():
            word = line.split(" ")[0].upper()
            self._server.heard.append(word)
            if word == "QUIT":
                self._answer(word, b"221 bye")
                return
            getattr(self, f"_on_{word.lower()}", self._unknown)(line)

    def _line(self) -> str:
        return self._file.readline().decode().rstrip("\r\n")  # type: ignore[no-any-return]

    def _answer(self, word: str, usual: bytes) -> bool:
        said = self._says.get(word, usual)
        if said == b"silence":
            self._server.release.wait(30)
            return False
        self._socket.sendall(said + b"\r\n")
        return said == usual

    def _unknown(self, _line: str) -> None:
        self._socket.sendall(b"500 what\r\n")

    def _on_ehlo(self, _line: str) -> None:
        offers = [b"mail.example", b"SIZE 100000"]
        if self._context is not None and not self._secured:
            offers.append(b"STARTTLS")
        else:
            offers.append(b"AUTH " + self._ways.encode())
        lines = [b"250-" + each for each in offers[:-1]] + [b"250 " + offers[-1]]
        self._answer("EHLO", b"\r\n".join(lines))

    def _on_starttls(self, _line: str) -> None:
        if self._context is None:
            self._unknown(_line)
        elif self._answer("STARTTLS", b"220 go on"):
            self._wrap()

    def _on_auth(self, line: str) -> None:
        _, way, *more = line.split(" ")
        if way == "PLAIN":
            _, self._mail.user, self._mail.password = b64decode(more[0]).decode().split("\0")
        else:
            self._socket.sendall(b"334 VXNlcm5hbWU6\r\n")
            self._mail.user = b64decode(self._line()).decode()
            self._socket.sendall(b"334 UGFzc3dvcmQ6\r\n")
            self._mail.password = b64decode(self._line()).decode()
        self._answer("AUTH", b"235 welcome")

    def _on_mail(self, line: str) -> None:
        self._mail.sender = line.partition("<")[2].partition(">")[0]
        self._answer("MAIL", b"250 ok")

    def _on_rcpt(self, line: str) -> None:
        self._mail.recipients.append(line.partition("<")[2].partition(">")[0])
        self._answer("RCPT", b"250 ok")

    def _on_data(self, _line: str) -> None:
        if not self._answer("DATA", b"354 go on"):
            return
        lines: list[bytes] = []
        while (line := self._file.readline()) != b".\r\n":
            lines.append(line.removeprefix(b"."))
        self._mail.message = b"".join(lines)
        usual = b"250 taken"
        if self._says.get("END", usual) == usual:
            self._server.taken.append(self._mail)  # before the answer: who hears that may look
        self._answer("END", usual)
