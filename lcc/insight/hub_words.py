"""What is known of the hubs of feeds, and of subscribers of our own, for commands and the monitor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lcc.domain.wording import duration
from lcc.model.push.hub import HubSubscriber
from lcc.model.push.websub import HubState, HubSubscription


def hub_record(found: HubSubscription) -> dict[str, Any]:
    """A subscription for JSON, without what is secret: its callback and its key."""
    return {
        "task": found.task,
        "hub": found.hub,
        "topic": found.topic,
        "state": found.state.value,
        "lease_seconds": found.lease_seconds or None,
        "expires_time": found.expires_time or None,
        "pushes": found.pushes,
        "pushed_time": found.pushed_time or None,
        "missed": found.missed,
        "due_time": found.due_time,
        "reason": found.why,
    }


def subscriber_record(found: HubSubscriber) -> dict[str, Any]:
    """A subscriber of our hub for JSON, without what is secret: its key, and all but the site of its callback."""
    state = "dropped" if found.dropped else "failing" if found.failures else "owed" if found.due_time else "current"
    return {
        "site": found.site,
        "topic": found.topic,
        "user": found.cuid or None,
        "state": state,
        "since_time": found.since_time or None,
        "deliveries": found.deliveries,
        "delivered_time": found.delivered_time or None,
        "expires_time": found.expires_time,
        "reason": found.why,
    }


def say_hubs(records: Sequence[Mapping[str, Any]], now: int) -> Iterator[str]:
    """The same for people, a line for each."""
    for each in records:
        yield f"hub {each['hub']}: {_said(each, now)}"


def _said(record: Mapping[str, Any], now: int) -> str:
    reason = f": {record['reason']}" if record["reason"] else ""
    if record["state"] == HubState.DROPPED.value:
        return f"DROPPED{reason}; asked again in {duration(max(0, record['due_time'] - now))}"
    if record["state"] == HubState.LEAVING.value:
        return "its subscription is being ended"
    if record["state"] == HubState.ASKING.value:
        return f"asked to push, it has not confirmed{reason}"
    pushed = record["pushed_time"]
    last = f"last push {duration(max(0, now - pushed))} ago" if pushed else "no push yet"
    lease = f"lease of {duration(record['lease_seconds'] or 0)}, over in {duration(record['expires_time'] - now)}"
    return f"pushes; {last}, {record['pushes']:,} in all; {lease}{reason}"
