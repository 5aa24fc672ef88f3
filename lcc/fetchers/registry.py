"""Which fetcher fetches which URL scheme."""

from __future__ import annotations

from typing import Any

from lcc.config import BotConfig
from lcc.fetchers.http import HttpFetcher
from lcc.interfaces import IFetcher


def build_fetchers(reactor: Any, settings: BotConfig) -> dict[str, IFetcher]:
    """URL scheme -> fetcher; schemes may share one.  Nothing is opened yet; close each fetcher once."""
    fetchers: list[IFetcher] = [HttpFetcher(reactor, settings)]
    return {scheme: fetcher for fetcher in fetchers for scheme in fetcher.schemes}
