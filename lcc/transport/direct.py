"""Writing to a socket at once, as far as it takes it.

By way of the reactor a write costs two changes of the poll set and a turn.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.tcp import Connection

from lcc.transport.pipes import PipeEnd
from lcc.transport.ports.limited import Limited


def direct_transport(transport: Any) -> Any:
    """The transport of a socket or pipe itself; None: something is done to the bytes in between (TLS), or it is
    something else."""
    while isinstance(transport, Limited):
        transport = transport.transport
    return transport if isinstance(transport, (Connection, PipeEnd)) else None


def write_at_once(transport: Any, direct: Any, data: bytes) -> None:
    """Write, without the reactor where that is possible.

    :param direct: of this transport, as :func:`direct_transport` says.
    """
    # At once only where nothing waits in its buffers: the order of the bytes has to stay.
    if direct is not None and not (direct.dataBuffer or direct._tempDataBuffer):
        sent = direct.writeSomeData(data)
        if sent == len(data):
            return
        # An exception instead of a number: the ordinary way meets it again, and ends the connection properly.
        if isinstance(sent, int):
            data = data[sent:]
    transport.write(data)
