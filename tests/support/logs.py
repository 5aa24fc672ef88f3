"""Observers of the log that keep errors."""

from __future__ import annotations

from twisted.logger import LogEvent, LogLevel, formatEvent


class LoggedErrors:
    """Errors that a test has logged.  What is not flushed by the test's end makes it fail."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        if is_error(event):
            self.events.append(event)

    def flush(self, text: str = "") -> list[str]:
        """Take out the errors whose message or failure contains this text.

        :returns: their texts.
        """
        taken = [event for event in self.events if text in describe(event)]
        self.events = [event for event in self.events if event not in taken]
        return [describe(event) for event in taken]


def is_error(event: LogEvent) -> bool:
    """Whether it should not have happened."""
    level = event.get("log_level")
    return bool((level is not None and level >= LogLevel.error) or event.get("isError"))


def describe(event: LogEvent) -> str:
    """The event's message with its failure."""
    failure = event.get("log_failure")
    return f"{formatEvent(event)}\n{failure.getTraceback() if failure is not None else ''}".strip()
