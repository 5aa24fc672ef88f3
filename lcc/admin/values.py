"""Values on the command line and in the configuration: limits, hours, time zones, roots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import click
from click.shell_completion import CompletionItem

from lcc.admin.context import SEE_CHECK, SEE_PROVIDERS, Admin
from lcc.commands.errors import Failed
from lcc.domain.fetches.hours import parse_hours
from lcc.domain.passwords import password_in
from lcc.domain.registration.wishes import is_mail_address
from lcc.domain.timezones import timezone_fault
from lcc.domain.urls import normalise_root, scheme_of
from lcc.errors import ConfigError, UrlError
from lcc.fetchers.registry import schemes_fetched
from lcc.storage.providers.pid_range import PID_MAX
from lcc.storage.providers.providers import list_providers

IDS_SHOWN = 200


class ProviderId(click.IntRange):
    """A provider's id.  A shell that completes one is told which there are, if that is soon found out."""

    def __init__(self) -> None:
        super().__init__(1, PID_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Say what is wanted; click's words are about ranges."""
        if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdigit()):
            self.fail(f"{value!r} is no provider's id, which is a number; {SEE_PROVIDERS}", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so, each with its first root."""
        admin = Admin(ctx.find_root().params.get("config_path"))
        try:
            with admin.database(patient=False) as database:
                providers = database.interact(list_providers)
        except Failed:
            return []
        found = (each for each in providers if str(each.pid).startswith(incomplete) and not each.removed)
        return [CompletionItem(str(each.pid), help=" ".join(each.roots[:1])) for each in islice(found, IDS_SHOWN)]


PID = ProviderId()
NUMBER = click.IntRange(1, PID_MAX)
"""The number of something else."""

ROWS = click.IntRange(1, 2**63 - 1)
"""Maximum number of rows."""

SECONDS_MAX = 30 * 86400
"""The longest interval between fetches."""
_SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?", re.ASCII).fullmatch

NONE = "none"
"""Says "without limit"."""


def number_or_none(value: str) -> int | str:
    """A whole number from 0, or ``none``."""
    if value == NONE:
        return value
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise click.BadParameter(f"{value!r} is neither a whole number nor 'none'")
    return int(value)


def positive_or_none(value: str) -> int | str:
    """A whole number from 1, or ``none``."""
    number = number_or_none(value)
    if number == 0:
        raise click.BadParameter("must be at least 1, or 'none'")
    return number


def seconds_or_none(value: str) -> float | str:
    """A number of seconds above 0, or ``none``."""
    if value == NONE:
        return value
    if not _SECONDS(value) or not 0 < float(value) <= SECONDS_MAX:
        raise click.BadParameter(f"{value!r} is neither a number of seconds up to {SECONDS_MAX} nor 'none'")
    return float(value)


def roots_callback(context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Roots in their normal form, each once, of schemes that can be fetched."""
    try:
        roots = tuple(dict.fromkeys(normalise_root(value) for value in values))
    except UrlError as error:
        raise click.BadParameter(str(error)) from None
    admin = context.find_object(Admin)
    if roots and admin is not None:
        try:
            fault = scheme_fault(roots, schemes_fetched(admin.config.bot.fetchers))
        except ConfigError as error:
            raise Failed(str(error), SEE_CHECK) from None
        if fault:
            raise click.BadParameter(fault)
    return roots


def scheme_fault(roots: Iterable[str], schemes: Sequence[str]) -> str:
    """What is wrong with the schemes of these roots; empty: nothing.

    :param schemes: those that can be fetched.
    """
    for root in roots:
        scheme = scheme_of(root)
        if scheme not in schemes:
            return f"{root}: no fetcher that is installed here fetches {scheme}; there are {', '.join(schemes)}"
    return ""


def hours_callback(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Hours that can be understood, in the period that is configured."""
    admin = context.find_object(Admin)
    if value and admin is not None:
        try:
            parse_hours(value, admin.config.slots)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


def contact_callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A mail address, or none at all."""
    if value and not is_mail_address(value):
        raise click.BadParameter(f"{value!r} is no mail address, such as webmaster@example.org")
    return value


def timezone_callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The name of a time zone that this machine knows."""
    fault = timezone_fault(value or "")
    if fault:
        raise click.BadParameter(fault)
    return value


password_file_option = click.option(
    "--password-file",
    type=click.File("r", encoding="utf-8"),
    help="File whose first line is the password (-: standard input).  Default: generate one.",
)


def read_password(file: Any) -> str:
    """What :func:`password_file_option` names: a password that somebody chose (:func:`password_in`).

    :raises Failed: it is none.
    """
    try:
        password = password_in(str(file.readline()))
    except UnicodeDecodeError:
        raise Failed("the password file is not UTF-8", "write the password into it as UTF-8") from None
    if not password or not password.isprintable():
        raise Failed(
            "the first line of the password file is no password: it is empty, or has control characters",
            "write one there, or leave the file out, so that one is generated",
        )
    return password
