"""The feed plugins that are installed."""

from __future__ import annotations

from lcc.errors import ConfigError
from lcc.feeds import plugins
from lcc.interfaces import IFeedPlugin
from lcc.plugins import installed


def installed_plugins() -> dict[str, IFeedPlugin]:
    """Every feed plugin, by name.

    :raises ConfigError: two have one name.
    """
    return installed(IFeedPlugin, plugins, "feed plugin")


def plugin_named(name: str) -> IFeedPlugin:
    """The plugin of this name.

    :raises ConfigError: there is none.
    """
    found = installed_plugins()
    if name not in found:
        raise ConfigError([f"there is no feed plugin {name[:80]!r}; there are {', '.join(found) or 'none'}"])
    return found[name]
