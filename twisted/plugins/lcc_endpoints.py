"""Endpoint strings of the LCC (``lcc.transport.tls.endpoints``, imported when one is used)."""

from twisted.internet.interfaces import (
    IStreamClientEndpointStringParserWithReactor,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import IPlugin
from twisted.python.reflect import namedAny
from zope.interface import implementer


@implementer(IPlugin, IStreamServerEndpointStringParser)
class _Server:
    prefix = "lcctls"

    def parseStreamServer(self, reactor, *args, **kwargs):  # type: ignore[no-untyped-def]  # the plugins' interface
        return namedAny("lcc.transport.tls.endpoints.parse_server")(reactor, *args, **kwargs)


@implementer(IPlugin, IStreamClientEndpointStringParserWithReactor)
class _Client:
    prefix = "lcctls"

    def parseStreamClient(self, reactor, *args, **kwargs):  # type: ignore[no-untyped-def]  # the plugins' interface
        return namedAny("lcc.transport.tls.endpoints.parse_client")(reactor, *args, **kwargs)


tls_server = _Server()
tls_client = _Client()
