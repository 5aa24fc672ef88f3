"""What a BOT-M says of the orders that are being fetched, for ``lcc-admin top`` and the web monitor."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

from lcc.interfaces import IContentFolder
from lcc.roles.botm.orders import HeldOrder

FETCHING_SHOWN = 200


def is_fetched(order: HeldOrder) -> bool:
    """A robot has it, and carries it out: it is the first one of its run."""
    return order.robot is not None and order.run.first is order


def fetching(orders: Iterable[HeldOrder], content: IContentFolder, now: float) -> list[dict[str, Any]]:
    """The orders that robots have had for longest, for JSON.

    :param now: of the clock of leases.
    """
    oldest = nsmallest(FETCHING_SHOWN, filter(is_fetched, orders), key=lambda each: each.given_at)
    return [
        {
            "pid": order.fetch.pid,
            "url": order.fetch.url,
            "robot": order.robot.name,
            "seconds": round(now - order.given_at, 1),
            "bytes": content.attempt_bytes(order.attempt),
            "attempt": order.attempts,
        }
        for order in oldest
    ]
