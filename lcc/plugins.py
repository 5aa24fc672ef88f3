"""Plugins by name: found by Twisted in a package, and in folders of the same path elsewhere on Python's path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar, cast

from twisted.plugin import getPlugins

from lcc.errors import ConfigError

Plugin = TypeVar("Plugin")


def installed(interface: type[Plugin], package: ModuleType, kind: str) -> dict[str, Plugin]:
    """Every plugin of this kind that can be imported, by name.  One that cannot is logged by Twisted.

    :param kind: what one is called, such as ``feed plugin``.
    :raises ConfigError: two have one name.
    """
    found: Iterable[Plugin] = getPlugins(cast(Any, interface), package)
    named: dict[str, Plugin] = {}
    for plugin in found:
        name = _name(plugin)
        first = named.setdefault(name, plugin)
        if first is not plugin:
            where = " and ".join(type(each).__module__ for each in (first, plugin))
            raise ConfigError([f"two {kind}s are named {name!r}: {where}"])
    return dict(sorted(named.items()))


def chosen(names: Sequence[str], found: Mapping[str, Plugin], setting: str, kind: str) -> list[Plugin]:
    """The plugins of these names, in this order.

    :param setting: where the names stand, such as ``spider.stores``.
    :raises ConfigError: there is none of a name.
    """
    faults = [
        f"{setting}: there is no {kind} {name[:80]!r}; there are {', '.join(found) or 'none'}"
        for name in names
        if name not in found
    ]
    if faults:
        raise ConfigError(faults)
    return [found[name] for name in names]


def _name(plugin: object) -> str:
    name: str = plugin.name  # type: ignore[attr-defined]  # every interface of plugins has it
    return name
