"""The options that choose rows of the cache, the same for every command that has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lcc.roles.cu.query import FIELDS, MULTIPLE, Query, QueryError, parse_query

F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_METAVARS = {
    "since": "TOKEN",
    "provider": "N",
    "key": "KEY",
    "mimetype": "TYPE",
    "prefix": "URL",
    "subtype": "TEXT",
    "limit": "N",
    "source": "NAME",
    "buckets": "N",
}


def query_options(*names: str, complete: Mapping[str, Complete] | None = None) -> Callable[[F], F]:
    """Options for these fields of a question (all, if none is named); the command gets it as ``query``.

    :param complete: by field, what tells a shell which values there are.
    """

    def decorate(command: F) -> F:
        for name in reversed(names or tuple(FIELDS)):
            meaning = FIELDS[name]
            command = click.option(
                f"--{name.replace('_', '-')}",
                f"ask_{name}",
                multiple=name in MULTIPLE,
                metavar=_METAVARS.get(name, "TIME"),
                shell_complete=(complete or {}).get(name),
                help=f"{meaning[0].upper()}{meaning[1:]}.",
            )(command)
        return command

    return decorate


def asked_query(options: dict[str, Any]) -> Query:
    """Take what :func:`query_options` gave out of a command's arguments.

    :raises click.UsageError: naming everything that is wrong with it.
    """
    return _checked(_asked_pairs(options))


def asked_fields(options: dict[str, Any]) -> dict[str, str | list[str]]:
    """The same as the fields of :class:`lcc.client.blocking.Cache`, for a command that asks over HTTP.

    :raises click.UsageError: naming everything that is wrong with it.
    """
    pairs = _asked_pairs(options)
    _checked(pairs)
    fields: dict[str, str | list[str]] = {name: value for name, value in pairs if name not in MULTIPLE}
    for name in MULTIPLE:
        values = [value for asked, value in pairs if asked == name]
        if values:
            fields[name] = values
    return fields


def _asked_pairs(options: dict[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name in FIELDS:
        value = options.pop(f"ask_{name}", None)
        if value is not None:
            pairs += [(name, each) for each in (value if name in MULTIPLE else (value,))]
    return pairs


def _checked(pairs: list[tuple[str, str]]) -> Query:
    try:
        return parse_query(pairs)
    except QueryError as error:
        faults = [
            f"--{fault.replace('_', '-', 1)}" if fault.split(":")[0] in FIELDS else fault for fault in error.faults
        ]
        raise click.UsageError("\n".join(faults)) from None
