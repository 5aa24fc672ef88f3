"""What people give for tasks, jobs and feeds, checked alike by commands and the monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.domain.tasks.due import EVERY_SECONDS_MAX, check_when
from lcc.domain.tasks.kinds import ANY
from lcc.domain.urls import normalise, scheme_of
from lcc.errors import UrlError
from lcc.model.feed_options import FeedOptions
from lcc.model.tasks import ARGUMENTS_BYTES_MAX, NAME_CHARS_MAX, POLLED_KINDS, When
from lcc.storage.tasks.rows import write_list

FIRST_SECONDS = 3600
"""The period of a new feed, until its polls say what is right."""
LEAST_SECONDS, MOST_SECONDS = 900, 86400
"""Bounds of the period, where it follows from the polls."""
FEED_EVERY_MIN = 10
EVERY_MAX = INTERVAL_MAX = EVERY_SECONDS_MAX


class InputError(ValueError):
    """What was given cannot be; in words.

    :ivar remedy: what to give instead.
    """

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(text)
        self.remedy = remedy


def check_name(value: str) -> str:
    """The name of a kind, a resource or an executable.

    :raises ValueError: it is too long, or cannot be printed.
    """
    if not value.strip() or not value.isprintable() or len(value) > NAME_CHARS_MAX:
        raise ValueError(f"{value[:40]!r} is not 1 to {NAME_CHARS_MAX} printable characters")
    return value


def check_kind(value: str) -> str:
    """The name of a kind, as ``[manager] kinds`` can have it.

    :raises ValueError: it cannot.
    """
    check_name(value)
    if value == ANY or "=" in value or len(value.split()) != 1 or value != value.strip():
        raise ValueError(
            f"{value!r} is no kind that [manager] kinds could name: it has a space or '=', or is {ANY!r}"
        )
    return value


def checked_when(when: When, now: float) -> When:
    """When something is due.

    :raises InputError: never, or that makes no sense.
    """
    try:
        check_when(when, now)
    except ValueError as error:
        raise InputError(str(error), "give one of a period in seconds, a time HH:MM[:SS] and a cron line") from None
    return when


def checked_command(kind: str, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Command and arguments.

    :param words: the command, and its arguments; of a polled kind its URL and options.
    :raises InputError: that cannot be one.
    """
    how = "give the name of an executable of the managers' worker folders"
    if kind in POLLED_KINDS:
        command, args = "", tuple(words)
        if not words:
            raise InputError(f"a task of the kind {kind} needs a URL", "give it as its first argument")
        _check_polled_url(args[0])
    else:
        if not words:
            raise InputError("no command was given", how)
        command, args = words[0], tuple(words[1:])
        hidden = any(not name or name.startswith(".") for name in command.split("/"))
        if hidden or command.startswith("-") or not command.isprintable():
            raise InputError(f"{command[:80]!r} is no name of an executable", how)
        try:
            check_name(command)
        except ValueError as error:
            raise InputError(str(error), how) from None
    try:
        size = len(write_list(args).encode())
    except UnicodeEncodeError:
        raise InputError("an argument is not UTF-8", "encode it") from None
    if size > ARGUMENTS_BYTES_MAX:
        text = f"the arguments take {size} bytes"
        raise InputError(text, f"{ARGUMENTS_BYTES_MAX} are allowed; pass a file instead")
    if any("\0" in each for each in args):
        raise InputError("an argument has a NUL character", "no program can be given one: leave it out")
    return command, args


def _check_polled_url(text: str) -> None:
    try:
        normalise(text)
    except UrlError as error:
        raise InputError(f"{text[:200]!r} is no URL: {error}", "give the whole URL, as http://host/path") from None


def feed_url(text: str) -> str:
    """A feed's URL, normalised.

    :raises InputError: it is none.
    """
    remedy = "give the whole URL, as https://host/feed.xml"
    try:
        url = normalise(text.strip()).partition("#")[0]
    except UrlError as error:
        raise InputError(f"{text[:200]}: {error}", remedy) from None
    if scheme_of(url) not in ("http", "https"):
        raise InputError(f"{text[:200]}: a feed's URL begins with http:// or https://", remedy)
    return url


def checked_options(options: FeedOptions) -> FeedOptions:
    """Options of a feed.

    :raises InputError: they do not go together.
    """
    if options.listed and not options.full_content:
        raise InputError("a listed feed needs the pages of its items", "have these fetched, too")
    return options


def feed_period(every_seconds: int | None) -> dict[str, Any]:
    """The period of a feed, as fields of a task; None: it follows from what its polls find."""
    if every_seconds is None:
        return {
            "when": When(every_seconds=FIRST_SECONDS),
            "auto": True,
            "least_seconds": LEAST_SECONDS,
            "most_seconds": MOST_SECONDS,
        }
    return {"when": When(every_seconds=every_seconds), "auto": False, "least_seconds": 0, "most_seconds": 0}
