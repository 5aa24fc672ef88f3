"""The stores that are installed."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.interfaces import IPageStore
from lcc.plugins import chosen, installed
from lcc.spider.stores import plugins


def installed_stores() -> dict[str, IPageStore]:
    """Every store, by name.

    :raises ConfigError: two have one name.
    """
    return installed(IPageStore, plugins, "store")


def stores_named(names: Sequence[str]) -> list[IPageStore]:
    """The stores of ``[spider] stores``, in this order.

    :raises ConfigError: there is none of a name.
    """
    return chosen(list(dict.fromkeys(names)), installed_stores(), "spider.stores", "store")
