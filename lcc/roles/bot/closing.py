"""Closing fetchers at a robot's stop, also those that do not know how to end."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.interfaces import IFetcher

_log = Logger()

CLOSE_SECONDS = 5.0
"""The time that a fetcher (which may be a plugin) has to close its connections."""


def close_all(fetchers: Mapping[str, IFetcher], clock: IReactorTime) -> Deferred[None]:
    """Close all connections to web servers.

    :param fetchers: by URL scheme; one may serve several.
    :return: never fails; fires after :data:`CLOSE_SECONDS` at the latest.
    """
    each = list({id(fetcher): fetcher for fetcher in fetchers.values()}.values())

    def closed(results: list[tuple[bool, object]]) -> None:
        for fetcher, (ok, failure) in zip(each, results, strict=True):
            if not ok:
                _log.error(
                    "Cannot close the fetcher for {schemes}: {failure}",
                    schemes=", ".join(fetcher.schemes),
                    failure=failure,
                )

    closing: Deferred[list[tuple[bool, object]]] = DeferredList(
        [maybeDeferred(fetcher.close) for fetcher in each], consumeErrors=True
    )
    return closing.addTimeout(CLOSE_SECONDS, clock).addCallback(closed)
