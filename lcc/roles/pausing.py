"""What the console commands of all roles that can be paused share (:mod:`lcc.console.commands`)."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from lcc.domain.wording import Lines


class Pausing(Protocol):
    """An engine that can take on nothing new for a while."""

    def pause(self) -> None:
        """Take on nothing new."""

    def resume(self) -> None:
        """As before."""


EngineT = TypeVar("EngineT", bound=Pausing)


class PausingCommands(Generic[EngineT]):
    """Has its engine paused and resumed.

    :cvar PAUSED: what is said then: what does not go on, and what does.
    :cvar RESUMED: what is said when it goes on.
    """

    PAUSED: str
    RESUMED: str

    def __init__(self, engine: EngineT) -> None:
        self.engine = engine

    def pause(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        self.engine.pause()
        return [("paused", self.PAUSED)]

    def resume(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        self.engine.resume()
        return [("resumed", self.RESUMED)]
