"""The former name of :mod:`lcc.client.cache`."""

from __future__ import annotations

from lcc.client.cache import CacheClient, RemoteContent, RowStream

__all__ = ["CacheClient", "RemoteContent", "RowStream"]
