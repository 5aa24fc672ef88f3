"""The fetchers that come with the LCC."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.interfaces import IFetcher, IFetcherPlugin


@implementer(IPlugin, IFetcherPlugin)
@attrs.frozen
class _Ours:
    """Names a class; its module is imported only when a fetcher is built."""

    name: str
    schemes: tuple[str, ...]
    module: str
    kind: str

    def build(self, reactor: Any, settings: BotConfig) -> IFetcher:
        """As :meth:`lcc.interfaces.IFetcherPlugin.build`."""
        fetcher: IFetcher = getattr(import_module(self.module), self.kind)(reactor, settings)
        return fetcher


http = _Ours("http", ("http", "https"), "lcc.fetchers.http", "HttpFetcher")
ftp = _Ours("ftp", ("ftp",), "lcc.fetchers.ftp", "FtpFetcher")
file = _Ours("file", ("file",), "lcc.fetchers.file", "FileFetcher")
