"""All console scripts as click commands: what completion and manual pages are made of.

The roles' options are Twisted's; they are read off and put into a click command that nobody runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import click
from twisted.python import usage
from twisted.python.reflect import accumulateClassList

ROLES = {
    "lcc": "all_roles",
    "lcc-uns": "uns",
    "lcc-qm": "qm",
    "lcc-botm": "botm",
    "lcc-bot": "bot",
    "lcc-cu": "cu",
    "lcc-web": "web",
    "lcc-scheduler": "scheduler",
    "lcc-spider": "spider",
    "lcc-push": "push",
    "lcc-search": "search",
    "lcc-rs": "rs",
    "lcc-manager": "manager",
    "lcc-fe-uns": "fe_uns",
    "lcc-fe-rs": "fe_rs",
    "lcc-fe-cu": "fe_cu",
}
"""Role -> its module in ``lcc.services``."""

TOOLS = {
    "lcc-admin": "lcc.admin.cli:main",
    "lcc-export": "lcc.export.cli:main",
    "lcc-job": "lcc.workers.cli:command",
    "file2url": "lcc.provider.file2url:command",
    "lcccpstate": "lcc.provider.lcccpstate:command",
    "lcccp": "lcc.provider.lcccp:command",
    "lccwatch": "lcc.provider.lccwatch:command",
}
"""Tool -> its click command."""

PROGRAMS = (*TOOLS, *ROLES)


def program(name: str) -> click.Command:
    """One of them.

    :raises KeyError: there is no such program.
    """
    if name in ROLES:
        return _role(name)
    module, _, attribute = TOOLS[name].partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


def commands_of(group: click.Group, context: click.Context | None = None) -> Iterator[tuple[str, click.Command]]:
    """The commands in a group, in its order, with their names."""
    context = context or click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command


def _role(name: str) -> click.Command:
    options: Any = import_module(f"lcc.services.{ROLES[name]}").Options
    found: list[click.Parameter] = []
    for long, short, default, help_text, *_ in _gathered(options, "optParameters"):
        kind = click.Path(dir_okay=False) if long == "config" else None
        found.append(click.Option(_spelling(long, short), type=kind, default=default, help=_sentence(help_text)))
    for long, short, help_text in _gathered(options, "optFlags"):
        found.append(click.Option(_spelling(long, short), is_flag=True, help=_sentence(help_text)))
    found.append(click.Option(["--version"], is_flag=True, help="Show the version and exit."))
    return click.Command(name, params=found, help=f"{options.summary}\n\n{' '.join(options.notes(name))}")


def _gathered(options: type[usage.Options], kind: str) -> list[list[str | None]]:
    gathered: list[list[str | None]] = []
    gather: Callable[..., None] = accumulateClassList
    gather(options, kind, gathered)
    return gathered


def _spelling(long: str | None, short: str | None) -> list[str]:
    return [f"--{long}", *([f"-{short}"] if short else [])]


def _sentence(text: str | None) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
