"""Which fetcher fetches which URL scheme: the plugins that are installed, and those of them that are to be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from twisted.plugin import getPlugins

from lcc.config import BotConfig
from lcc.errors import ConfigError
from lcc.fetchers import plugins
from lcc.interfaces import IFetcher, IFetcherPlugin


def installed_plugins() -> list[IFetcherPlugin]:
    """Every fetcher plugin that can be imported, by name.  One that cannot is logged by Twisted."""
    found: Iterable[IFetcherPlugin] = getPlugins(IFetcherPlugin, plugins)
    return sorted(found, key=lambda plugin: plugin.name)


def choose_plugins(
    names: Sequence[str], installed: Sequence[IFetcherPlugin] | None = None
) -> dict[str, IFetcherPlugin]:
    """URL scheme -> the plugin that fetches it.

    :param names: ``[bot] fetchers``; empty: all there are.
    :param installed: None: :func:`installed_plugins`.
    :raises ConfigError: a name that no plugin has, or that two have; a scheme that two plugins fetch while no names
        say which goes first.
    """
    every = installed_plugins() if installed is None else list(installed)
    faults = []
    by_name: dict[str, IFetcherPlugin] = {}
    for plugin in every:
        if by_name.setdefault(plugin.name, plugin) is not plugin:
            faults.append(f"two fetcher plugins are named {plugin.name!r}: {_where(by_name[plugin.name], plugin)}")
    for name in names:
        if name not in by_name:
            faults.append(f"bot.fetchers: there is no fetcher {name!r}; there are {', '.join(by_name) or 'none'}")
    if faults:
        raise ConfigError(faults)
    chosen: dict[str, IFetcherPlugin] = {}
    for plugin in [by_name[name] for name in names] or every:
        for scheme in plugin.schemes:
            first = chosen.setdefault(scheme, plugin)
            if first is not plugin and not names:
                faults.append(
                    f"{scheme} is fetched by {first.name!r} and by {plugin.name!r} ({_where(first, plugin)}); "
                    "name those to use in bot.fetchers, the preferred one first"
                )
    if faults:
        raise ConfigError(faults)
    return chosen


def schemes_fetched(names: Sequence[str]) -> list[str]:
    """The URL schemes that can be fetched, in order.

    :raises ConfigError: as :func:`choose_plugins`.
    """
    return sorted(choose_plugins(names))


def build_fetchers(reactor: Any, settings: BotConfig) -> dict[str, IFetcher]:
    """URL scheme -> fetcher; schemes may share one.  Nothing is opened yet; close each fetcher once.

    :raises ConfigError: as :func:`choose_plugins`.
    """
    built: dict[str, IFetcher] = {}
    fetchers: dict[str, IFetcher] = {}
    for scheme, plugin in choose_plugins(settings.fetchers).items():
        if plugin.name not in built:
            built[plugin.name] = plugin.build(reactor, settings)
        fetchers[scheme] = built[plugin.name]
    return fetchers


def _where(*plugins: IFetcherPlugin) -> str:
    return " and ".join(type(plugin).__module__ for plugin in plugins)
