"""Watched sites on private addresses: only an operator may say so."""

from __future__ import annotations

import attrs

from lcc.admin.context import Admin
from lcc.commands.errors import Failed
from lcc.config import WatchedConfig
from lcc.domain.urls import site_of
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import change_provider, get_provider
from lcc.storage.providers.watched import TooManyWatched, find_or_make_watched


def allow_private_site(admin: Admin, url: str) -> None:
    """Let the site of this URL be on a private address.

    :raises Failed: it is that of a registered provider, whose owner an operator has to ask.
    """
    with admin.database() as database:
        try:
            pid, allowed = database.write(_allow, site_of(url), admin.config.watched)
        except TooManyWatched as error:
            raise Failed(str(error), "raise the limit in lcc.toml") from None
    if not allowed:
        raise Failed(
            f"{url} belongs to provider {pid}, which is not on private addresses",
            f"lcc-admin provider set {pid} --allow-private",
        )


def _allow(txn: Txn, root: str, settings: WatchedConfig) -> tuple[int, bool]:
    pid = find_or_make_watched(txn, root, settings)
    provider = get_provider(txn, pid)
    if provider is None or provider.allow_private:
        return pid, True
    if provider.watched:
        change_provider(txn, attrs.evolve(provider, allow_private=True))
    return pid, provider.watched
