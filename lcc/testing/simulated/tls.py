"""TLS on the simulated network: the LCC's own endpoints, and Twisted's own protocol, over connections of OpenSSL that
have all of its states and no cryptography.

What differs for those who speak over it: a server counts as connected before the handshake has begun, and what it
writes waits for its end; a server that refuses a client does so when this one has begun to speak; a connection is
closed in order when both ends have said so, so that whoever closes waits for the other end; one that just ends was
cut; no direction can be closed alone.  A public port sends a ticket, which a client may leave unread: its closing is
a reset then.
"""

from __future__ import annotations

from typing import Any

from OpenSSL.SSL import Error, SysCallError, WantReadError, ZeroReturnError

from lcc.testing.simulated.timeline import Timeline
from lcc.transport.tls.contexts import ClientTls, ServerTls

_HEAD_BYTES = 4
_CLIENT_HELLO, _SERVER_HELLO, _FINISHED, _TICKET, _DATA, _CLOSE_NOTIFY, _ALERT = range(1, 8)
RECORD_OVERHEAD_BYTES = _HEAD_BYTES
_HELLO_BYTES = 300
_CERTIFICATE_BYTES = 1500


class TlsTroubles:
    """How handshakes go at the moment.

    :ivar until: they fail, with :attr:`refuse` and :attr:`hang`, before this time.
    :ivar refuse: how likely one end does not believe the other one.
    :ivar hang: how likely a server never goes on with one.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._chance = timeline.random("tls handshakes")
        self.until = 0.0
        self.refuse = self.hang = 0.0

    def begin(self, refuse: float, hang: float, seconds: float) -> None:
        """They fail for so long."""
        self.refuse, self.hang = refuse, hang
        self.until = self._timeline.now + seconds

    def next(self) -> tuple[bool, bool]:
        """Of a new connection: whether this end refuses the other one, whether it hangs."""
        if self._timeline.now >= self.until:
            return False, False
        luck = self._chance.random()
        return luck < self.refuse, self.refuse <= luck < self.refuse + self.hang


class TlsConnection:
    """In place of :class:`OpenSSL.SSL.Connection`, as far as Twisted uses one.

    :param refuses: does not believe the other end's certificate.
    :param hangs: as a server: reads a hello, and never answers it.
    :param has_tickets: as a server: sends one after the handshake.
    """

    def __init__(
        self, is_client: bool, refuses: bool = False, hangs: bool = False, has_tickets: bool = False
    ) -> None:
        self._is_client = is_client
        self._refuses = refuses
        self._hangs = hangs and not is_client
        self._has_tickets = has_tickets
        self._in = bytearray()
        self._out = bytearray()
        self._data = bytearray()
        self._begun = self._done = False
        self._ended = False
        """Nothing will come any more: the connection below has ended."""
        self._close_received = self._close_sent = False
        self._failed = ""

    # The wire.

    def bio_write(self, data: bytes) -> int:
        """Bytes have come."""
        self._in += data
        return len(data)

    def bio_read(self, size: int) -> bytes:
        """What is to be sent."""
        if not self._out:
            raise WantReadError
        data = bytes(self._out[:size])
        del self._out[:size]
        return data

    def bio_shutdown(self) -> None:
        """No more bytes will come."""
        self._ended = True

    def _send(self, kind: int, data: bytes = b"") -> None:
        self._out += bytes((kind,)) + len(data).to_bytes(_HEAD_BYTES - 1, "big") + data

    def _record(self) -> tuple[int, bytes] | None:
        """The next one that is there as a whole."""
        if len(self._in) < _HEAD_BYTES:
            return None
        end = _HEAD_BYTES + int.from_bytes(self._in[1:_HEAD_BYTES], "big")
        if len(self._in) < end:
            return None
        kind, data = self._in[0], bytes(self._in[_HEAD_BYTES:end])
        del self._in[:end]
        return kind, data

    def _fail(self, reason: str) -> Error:
        self._failed = reason
        return Error([("SSL routines", "", reason)])

    # The handshake.

    def do_handshake(self) -> None:
        """Go on with it; returns when it is done."""
        if self._done:
            return
        if self._failed:
            raise self._fail(self._failed)
        if self._is_client and not self._begun:
            self._begun = True
            self._send(_CLIENT_HELLO, bytes(_HELLO_BYTES))
        while not self._done and not self._hangs and (record := self._record()) is not None:
            self._heard(record[0])
        if not self._done:
            raise SysCallError(-1, "Unexpected EOF") if self._ended else WantReadError()

    def _heard(self, kind: int) -> None:
        expected = _SERVER_HELLO if self._is_client else _FINISHED if self._begun else _CLIENT_HELLO
        if kind == _ALERT:
            raise self._fail("tlsv1 alert unknown ca")
        if kind == _CLOSE_NOTIFY:
            self._close_received = self._ended = True
            return
        if kind != expected:
            raise self._fail("unexpected message")
        if kind == _CLIENT_HELLO:
            self._begun = True
            self._send(_SERVER_HELLO, bytes(_CERTIFICATE_BYTES))
            return
        if self._refuses:
            self._send(_ALERT)
            raise self._fail("certificate verify failed")
        self._done = True
        if self._is_client:
            self._send(_FINISHED, bytes(_CERTIFICATE_BYTES))
        elif self._has_tickets:
            self._send(_TICKET, bytes(_HELLO_BYTES))

    # Speaking.

    def send(self, data: bytes) -> int:
        """Send application data."""
        if not self._done:
            raise WantReadError
        if self._close_sent:
            raise self._fail("protocol is shutdown")
        self._send(_DATA, bytes(data))
        return len(data)

    def recv(self, size: int) -> bytes:
        """Application data that has come."""
        while not self._data and not self._close_received and not self._failed:
            record = self._record()
            if record is None:
                if self._ended:
                    raise SysCallError(-1, "Unexpected EOF")
                raise WantReadError
            kind, data = record
            if kind == _DATA:
                self._data += data
            elif kind == _CLOSE_NOTIFY:
                self._close_received = True
            elif kind == _ALERT:
                self._failed = "tlsv1 alert unknown ca"
        if self._data:
            data = bytes(self._data[:size])
            del self._data[:size]
            return data
        if self._failed:
            raise self._fail(self._failed)
        raise ZeroReturnError

    def shutdown(self) -> bool:
        """Say that nothing more is sent.

        :returns: the other end has said so, too.
        """
        if not self._begun:
            return True
        if not self._done:
            raise self._fail("shutdown while in init")
        if not self._close_sent:
            self._close_sent = True
            self._send(_CLOSE_NOTIFY)
        return self._close_received

    def set_connect_state(self) -> None:
        """It knows."""

    def set_accept_state(self) -> None:
        """It knows."""

    def set_app_data(self, data: Any) -> None:
        """Nobody asks for it."""

    def get_alpn_proto_negotiated(self) -> bytes:
        """None was asked for."""
        return b""


class SimulatedTls:
    """Connections of this kind in place of OpenSSL's, for all processes, until :meth:`end`; no certificate is read.

    :ivar troubles: how handshakes go.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.troubles = troubles = TlsTroubles(timeline)
        self._before = (
            *(ServerTls.load, ServerTls.serverConnectionForTLS),
            *(ClientTls.load, ClientTls.connection),
        )

        def server(tls: ServerTls, _: Any) -> Any:
            return TlsConnection(False, *troubles.next(), has_tickets=tls.is_public)

        self._put(lambda _: None, server, lambda _: None, lambda *_: TlsConnection(True, *troubles.next()))

    def end(self) -> None:
        """OpenSSL's again."""
        self._put(*self._before)

    def _put(self, *methods: Any) -> None:
        tls: tuple[Any, Any] = (ServerTls, ClientTls)
        tls[0].load, tls[0].serverConnectionForTLS, tls[1].load, tls[1].connection = methods
