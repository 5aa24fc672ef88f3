"""The feed plugins that are installed."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.plugin import getPlugins

from lcc.errors import ConfigError
from lcc.feeds import plugins
from lcc.interfaces import IFeedPlugin


def installed_plugins() -> dict[str, IFeedPlugin]:
    """Every feed plugin that can be imported, by name.  One that cannot is logged by Twisted.

    :raises ConfigError: two have one name.
    """
    found: Iterable[IFeedPlugin] = getPlugins(IFeedPlugin, plugins)
    named: dict[str, IFeedPlugin] = {}
    for plugin in found:
        first = named.setdefault(plugin.name, plugin)
        if first is not plugin:
            where = " and ".join(type(each).__module__ for each in (first, plugin))
            raise ConfigError([f"two feed plugins are named {plugin.name!r}: {where}"])
    return dict(sorted(named.items()))


def plugin_named(name: str) -> IFeedPlugin:
    """The plugin of this name.

    :raises ConfigError: there is none.
    """
    found = installed_plugins()
    if name not in found:
        raise ConfigError([f"there is no feed plugin {name[:80]!r}; there are {', '.join(found)}"])
    return found[name]
