"""The former name of :mod:`lcc.client.cache`, with the errors that it raises."""

from __future__ import annotations

from lcc.client.blocking import CacheError, CutOff
from lcc.client.cache import CacheClient, RemoteContent, RowStream

__all__ = ["CacheClient", "CacheError", "CutOff", "RemoteContent", "RowStream"]
