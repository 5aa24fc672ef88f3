"""Which sets are taken for cut off."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport

from .cutting import CutEndpoint, _CutFactory

PIECES = (b"<init/>", b"<set><url/>", b"</set>\n")
WHOLE = b"".join(PIECES)


class _Transport(StringTransport):
    def loseConnection(self, *_: Any) -> None:
        self.disconnecting = True

    abortConnection = loseConnection


@pytest.mark.parametrize("at", range(len(WHOLE) + 2))
def test_a_set_without_its_last_newline_is_complete(at: int) -> None:
    owner = CutEndpoint(None, at)  # type: ignore[arg-type]
    protocol = _CutFactory(Factory.forProtocol(Protocol), owner).buildProtocol(None)  # type: ignore[arg-type]
    transport = _Transport()
    protocol.makeConnection(transport)
    for data in PIECES:
        protocol.write(data)
    assert transport.value() == WHOLE[:at]
    assert transport.disconnecting == (at < len(WHOLE))
    assert owner.done == (at < len(WHOLE.rstrip()))
