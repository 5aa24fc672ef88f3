"""Fetchers, and the plugins that bring them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from lcc.config import BotConfig
from lcc.interfaces.content import IContentSink
from lcc.model import Fetched, FetchOrder, FetchStep


class IFetcher(Interface):
    """Fetches URLs of some schemes.  One instance serves one robot."""

    schemes: Sequence[str] = Attribute("The URL schemes it fetches, lower case.")

    def fetch(order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        """Fetch one URL.  Fails with FetchError; cancelling it ends the fetch and closes its connection at once.
        ``wire_bytes`` of either exception tells what had travelled until then: it is paid for, too.

        :param follow: ``follow(url, location)`` gives the URL that a redirect leads to, or raises FetchError when
            it leads out of the provider's roots."""

    def close() -> Deferred[None]:
        """Close all idle connections; fires when nothing is left in the reactor."""


class IWatchedFetcher(IFetcher):
    """A fetcher that reports its steps."""

    def watch(watcher: Callable[[FetchStep], None]) -> None:
        """Report each step of all fetches to the watcher from now on."""


class IFetcherPlugin(Interface):
    """Brings a fetcher: a ``twisted.plugin`` in ``lcc/fetchers/plugins`` (doc/fetchers.md).

    It must not import what it does not need before :meth:`build` is called: the schemes are asked for by
    ``lcc-admin``, too.
    """

    name: str = Attribute("Names it among all plugins; ``[bot] fetchers`` may name it.")
    schemes: Sequence[str] = Attribute("The URL schemes that its fetcher fetches, lower case.")

    def build(reactor: Any, settings: BotConfig) -> IFetcher:
        """The fetcher for one robot.  Nothing is opened yet."""
