"""The reactor of one simulated process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import (
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
    IResolutionReceiver,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.testing.simulated.network import Network
from lcc.testing.simulated.timeline import Event, Owner, Timeline


@implementer(IHostResolution)
class _Answered:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """It was answered at once."""


@implementer(IHostnameResolver)
class NamesOfNetwork:
    """Knows the addresses of all hosts of the network, at once."""

    def __init__(self, network: Network, process: Owner) -> None:
        self._network = network
        self._process = process

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """As the interface says."""
        question = _Answered(hostName)
        resolutionReceiver.resolutionBegan(question)

        def answer() -> None:
            for address in self._network.addresses_of(hostName):
                resolutionReceiver.addressResolved(IPv4Address("TCP", address, portNumber))
            resolutionReceiver.resolutionComplete()

        delay = self._network.lookup_seconds(hostName)
        if delay is None:
            return question  # a name server that does not answer
        self._network.timeline.call_later(delay, self._process, answer)
        return question

    def close(self) -> None:
        """Nothing is open."""


class _Threads:
    """In place of a pool of threads: what is called happens later, as a whole, at one time."""

    def __init__(self, timeline: Timeline, process: Owner) -> None:
        self._timeline = timeline
        self._process = process
        self._chance = timeline.random(f"threads {process.name} {timeline.now}")

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], Any] | None, func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        delay = self._chance.expovariate(1 / 0.003)
        self._timeline.call_later(delay, self._process, self._run, onResult, func, args, kw)

    def callInThread(self, func: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.callInThreadWithCallback(None, func, *args, **kw)

    def _run(self, on_result: Any, func: Callable[..., Any], args: tuple[Any, ...], kw: dict[str, Any]) -> None:
        try:
            success, value = True, func(*args, **kw)
        except BaseException:
            success, value = False, Failure()
        if on_result is not None:
            on_result(success, value)


@implementer(IReactorTime, IReactorTCP, IReactorPluggableNameResolver)
class SimulatedReactor:
    """As far as the LCC needs one.

    :param booted: when its machine was: its clock counts from there.
    :param stop: ends the process in order.
    """

    def __init__(self, network: Network, process: Owner, booted: float, stop: Callable[[], None]) -> None:
        self.running = False
        self._network = network
        self._process = process
        self._timeline = network.timeline
        self._booted = booted
        self._stop = stop
        self._threads: _Threads | None = None
        self._at_start: list[Callable[[], Any]] = []
        self.nameResolver = NamesOfNetwork(network, process)

    # IReactorTime.

    def seconds(self) -> float:
        return self._timeline.now - self._booted

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kw: object) -> Event:
        assert delay >= 0, f"{delay} is not greater than or equal to 0 seconds"
        event = self._timeline.call_later(delay, self._process, callable, *args, **kw)
        event.zero = self._booted
        return event

    def getDelayedCalls(self) -> list[Any]:
        return []

    # Of IReactorCore, what is used.

    def begin(self) -> None:
        """The reactor runs."""
        self.running = True
        for call in self._at_start:
            self.callLater(0, call)
        self._at_start.clear()

    def callWhenRunning(self, function: Callable[..., Any], *args: Any, **kw: Any) -> None:
        if self.running:
            function(*args, **kw)
        else:
            self._at_start.append(lambda: function(*args, **kw))

    def addSystemEventTrigger(self, phase: str, eventType: str, function: Callable[..., Any], *args: Any) -> Any:
        return (phase, eventType, function, args)

    def removeSystemEventTrigger(self, triggerID: Any) -> None:
        """None of them is ever called: a process that stops in order stops its service."""

    def stop(self) -> None:
        self._stop()

    # Of IReactorThreads.

    def callFromThread(self, function: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self._timeline.call_later(0, self._process, function, *args, **kw)

    def getThreadPool(self) -> Any:
        if self._threads is None:
            self._threads = _Threads(self._timeline, self._process)
        return self._threads

    def callInThread(self, function: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.getThreadPool().callInThread(function, *args, **kw)

    # IReactorPluggableNameResolver.

    def installNameResolver(self, resolver: Any) -> Any:
        before, self.nameResolver = self.nameResolver, resolver
        return before

    # IReactorTCP.

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        return self._network.listen(self._process, port, factory)

    # IReactorUNIX: nobody in a simulation connects to these.

    def listenUNIX(self, address: str, factory: Any, *_: Any, **__: Any) -> Any:
        return self._network.listen(self._process, 0, factory)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None) -> Any:
        return self._network.connect(self._process, host, port, factory, timeout)
