"""The roles of one process with their metrics and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from platform import python_version
from typing import Any

import attrs
from twisted.internet.interfaces import IReactorTime

from lcc.interfaces import IRoleMetrics
from lcc.metrics.pulse import Pulse
from lcc.model.metrics import Condition, Kind, Metric, Reading, counter, gauge, histogram
from lcc.transport.links import PortService
from lcc.transport.ports.limited import LimitedFactory

BUILD = Metric(Kind.INFO, "lcc_build", "Version information", ("version", "python", "twisted"))
READY = gauge("lcc_ready", "1: the role is ready (/readyz)", "role")
CONDITION = gauge("lcc_condition_met", "1: the condition holds (if not, see /readyz)", "role", "condition")
REACTOR_LAG = histogram("lcc_reactor_lag_seconds", "Latency of the reactor, measured twice a second")
REACTOR_CALLS = gauge("lcc_reactor_delayed_calls", "Pending timers")
PORT_OPEN = gauge("lcc_port_open", "1: the port is listening", "port")
PORT_CONNECTIONS = gauge("lcc_port_connections", "Open connections", "port")
PORT_REFUSED = counter("lcc_port_connections_refused", "Connections refused: too many", "port")
HTTP_ANSWERS = counter("lcc_http_answers", "Responses by class of status", "port", "status")
HTTP_SENT_BYTES = counter("lcc_http_sent_bytes", "Size of response bodies", "port")


@attrs.frozen
class Watched:
    """One role.

    :ivar ports: those that have a setting's name.
    """

    name: str
    metrics: IRoleMetrics
    ports: Sequence[PortService]


class Process:
    """The roles of a process.

    :param reactor: of this process.
    """

    def __init__(self, roles: Sequence[Watched], reactor: Any) -> None:
        self.roles = roles
        clock: IReactorTime = reactor
        self.pulse = Pulse(clock)
        self._reactor = reactor
        self._background = [part for role in roles for part in role.metrics.background]

    def start(self) -> None:
        """Start background checks."""
        for part in (self.pulse, *self._background):
            part.start()

    def stop(self) -> None:
        """Stop them."""
        for part in (self.pulse, *self._background):
            part.stop()

    def conditions(self) -> Mapping[str, Sequence[Condition]]:
        """Role -> its conditions."""
        return {role.name: [*role.metrics.conditions(), *_ports_open(role)] for role in self.roles}

    def readings(self) -> Iterator[Reading]:
        """Of all roles and the process.  A metric may occur more than once, each time with other series."""
        conditions = self.conditions()
        yield BUILD.by({(version("lcc"), python_version(), version("Twisted")): 1})
        yield READY.by({role: all(each.holds for each in found) for role, found in conditions.items()})
        yield CONDITION.by(((role, each.name), each.holds) for role, found in conditions.items() for each in found)
        yield REACTOR_LAG(self.pulse.lags.shown())
        yield REACTOR_CALLS(len(self._reactor.getDelayedCalls()))
        for role in self.roles:
            yield from role.metrics.readings()
        yield from _port_metrics([port for role in self.roles for port in role.ports])


def _ports_open(role: Watched) -> Iterator[Condition]:
    closed = [port.setting for port in role.ports if not port.is_open and not port.is_closed_for_now]
    yield Condition(
        "ports",
        f"not listening: {', '.join(closed)}" if closed else "",
        "see the log; check for another process on that port, and the setting",
    )


def _port_metrics(ports: Sequence[PortService]) -> Iterator[Reading]:
    yield PORT_OPEN.by((port.setting, port.is_open) for port in ports)
    limited = [(port.setting, port.factory) for port in ports if isinstance(port.factory, LimitedFactory)]
    yield PORT_CONNECTIONS.by((name, factory.connections) for name, factory in limited)
    yield PORT_REFUSED.by((name, factory.refused) for name, factory in limited)
    # Those of GuardedSite, which is not imported here: a process without any HTTP port does without twisted.web.
    inner = [(name, factory.wrappedFactory) for name, factory in limited]
    sites = [(name, factory.counts) for name, factory in inner if hasattr(factory, "counts")]
    yield HTTP_ANSWERS.by(
        ((name, status), count) for name, counts in sites for status, count in counts.by_status.items()
    )
    yield HTTP_SENT_BYTES.by((name, counts.sent_bytes) for name, counts in sites)
