"""A robot's fetcher of http to whom the names of :mod:`tests.hostile.places` mean what their owners want.

All of it is the real one, but for what a name server would say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IHostnameResolver
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.fetchers.http import HttpFetcher
from lcc.fetchers.names import SystemNames
from lcc.interfaces import IFetcherPlugin

from .places import NO_ANSWER, PLACES

ANSWERS = {place.host: place.answers[0] for place in PLACES if place.answers}
MODULE = "from tests.hostile.names import NamedPlugin\n\nnamed = NamedPlugin()\n"


@implementer(IHostnameResolver)
class HostileNames:
    """Hostile names, and those of the machine."""

    def __init__(self, reactor: Any) -> None:
        self._others = SystemNames(reactor, 8)

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *more: Any, **named: Any) -> Any:
        answer = ANSWERS.get(hostName)
        if answer is None:
            return self._others.resolveHostName(resolutionReceiver, hostName, *more, **named)
        resolutionReceiver.resolutionBegan(None)
        if answer != NO_ANSWER:
            for address in answer:
                kind = IPv6Address if ":" in address else IPv4Address
                resolutionReceiver.addressResolved(kind("TCP", address, 0))
            resolutionReceiver.resolutionComplete()
        return None


@implementer(IPlugin, IFetcherPlugin)
class NamedPlugin:
    """The plugin."""

    name = "http-hostile-names"
    schemes = HttpFetcher.schemes

    def build(self, reactor: Any, settings: BotConfig) -> HttpFetcher:
        return HttpFetcher(reactor, settings, HostileNames(reactor))


def write_plugin(folder: Path) -> None:
    """Lay it out below this folder, to be named in PYTHONPATH."""
    plugins = folder / "lcc" / "fetchers" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "hostile_names.py").write_text(MODULE, "utf-8")
