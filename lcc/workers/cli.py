"""``lcc-job``: what workers that are shell scripts say to their manager (doc/workers.md)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from lcc.commands.errors import Failed, ToolGroup
from lcc.commands.examples import add_examples
from lcc.commands.standard_streams import reopen_closed_streams
from lcc.numbers import parse_number
from lcc.workers.api import Job, JobError
from lcc.workers.connection import Connection

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_duration = re.compile(r"([0-9]{1,12})([smhd]?)", re.ASCII).fullmatch
_LEVELS = ("debug", "info", "warn", "error")
_SOURCES = ("link", "feed", "listed")
_OPERATIONS = ("update", "delete", "recheck", "retract")
_FIELDS = (*("id", "task", "kind", "attempt", "command", "args", "resource", "data", "input", "seconds", "manager"),)
_NEXT = {
    "no-manager": "run it in a worker: a program in a folder of [manager] workers that a job has started",
    "invalid": "see lcc-job --help",
    "too-much": "store less, or raise the limit in [manager]",
    "not-yours": "leave LCC_JOB_ID as it is",
    "failed": "end with exit code 1, so that the job is tried again",
}

_Ask = TypeVar("_Ask", bound=Callable[..., Any])


class _Seconds(click.ParamType[int]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int:
        found = _duration(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration: seconds, or a number with s, m, h or d such as 12h", param, context)
        return parse_number(found[1], 10**12) * _UNITS[found[2]]


_SECONDS = _Seconds()


def _job() -> Job:
    return Job(Connection(named_in_environment=True))


def _failed(error: JobError) -> NoReturn:
    raise Failed(str(error), _NEXT.get(error.code, _NEXT["failed"])) from None


def _said(ask: _Ask, *arguments: Any, **more: Any) -> None:
    try:
        ask(*arguments, **more)
    except JobError as error:
        _failed(error)


def _text(words: tuple[str, ...]) -> str:
    """Words as a line; a single hyphen: standard input."""
    return sys.stdin.read().rstrip("\n") if words == ("-",) else " ".join(words)


@click.group(cls=ToolGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lcc", prog_name="lcc-job")
def command() -> None:
    """Talk with the manager, from a worker.

    Effects (period, add, notify, store) take effect all together when the worker exits with 0, or at commit; if it
    fails they never happened. Exit codes: 0 success; 1 failure, or the manager refused it; 2 usage error.
    """


@command.command()
@click.argument("field", type=click.Choice(_FIELDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def show(field: str | None, as_json: bool) -> None:
    """Show the job: everything, or only FIELD, for scripts. Arguments are printed one per line."""
    try:
        info = _job().show()
    except JobError as error:
        _failed(error)
    if as_json:
        click.echo(json.dumps(info._asdict(), ensure_ascii=False))
        return
    for name in [field] if field else _FIELDS:
        value = getattr(info, name)
        if name == "args":
            value = "\n".join(value) if field else " ".join(value)
        elif name == "input":
            value = json.dumps(value, ensure_ascii=False)
        click.echo(value if field else f"{name + ':':<10}{value}")


@command.command()
@click.argument("text", nargs=-1, required=True)
def status(text: tuple[str, ...]) -> None:
    """Say how far it is, for people."""
    _said(_job().status, _text(text))


@command.command()
@click.option("--level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.argument("text", nargs=-1, required=True)
def log(text: tuple[str, ...], level: str) -> None:
    """Write TEXT (-: standard input) into the log of the job, which is kept however the job ends."""
    _said(_job().log, _text(text), level)


@command.command()
@click.argument("seconds", type=_SECONDS)
def period(seconds: int) -> None:
    """Effect: change the period of the task. SECONDS may have a unit: 30m, 12h, 2d."""
    _said(_job().set_period, seconds)


@command.command()
@click.argument("seconds", type=_SECONDS)
def retry(seconds: int) -> None:
    """Before exit code 1: ask to be tried again after SECONDS."""
    _said(_job().retry_after, seconds)


@command.command()
@click.option("--after", type=_SECONDS, default=0, help="Run it after this time: seconds, or 30m, 12h, 2d.")
@click.option("--at", "at_time", type=click.IntRange(0), help="Run it at this time, in seconds since 1970.")
@click.option(
    "--key", default="", help="Name: added once, however often jobs of this task add it. Default: all its options."
)
@click.option("--kind", default="command", show_default=True, help="Kind of job: the limits that it has.")
@click.option("--resource", help="Resource that it needs; '' for none. Default: that of this job.")
@click.option("--on", multiple=True, metavar="allow:HOST|deny:HOST", help="Where it may run.")
@click.option("--data", default="", help="Text that it is given.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def add(
    after: int,
    at_time: int | None,
    key: str,
    kind: str,
    resource: str | None,
    on: tuple[str, ...],
    data: str,
    words: tuple[str, ...],
) -> None:
    """Effect: add a job that runs COMMAND later."""
    _said(
        _job().add,
        *(words or ("",)),
        key=key,
        after_seconds=after,
        at_time=at_time,
        kind=kind,
        resource=resource,
        on=on,
        data=data,
    )


@command.command()
@click.option("--source", type=click.Choice(_SOURCES), default="link", show_default=True, help="Who names it.")
@click.option(
    "--op", type=click.Choice(_OPERATIONS), default="update", show_default=True, help="What happened to it."
)
@click.option("--mimetype", default="", help="Default: not known.")
@click.argument("url")
def notify(url: str, source: str, op: str, mimetype: str) -> None:
    """Effect: notify the LCC of URL, which is then fetched."""
    _said(_job().notify, url, source, op, mimetype)


@command.command()
@click.option("--data", "is_data", is_flag=True, help="Keep TEXT for the next job of the task: lcc-job show data.")
@click.argument("text")
def store(text: str, is_data: bool) -> None:
    """Effect: store an item, a JSON object. TEXT - is standard input."""
    text = _text((text,))
    if is_data:
        _said(_job().store_data, text)
        return
    try:
        item = json.loads(text)
        if not isinstance(item, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"an item must be a JSON object: {error}", param_hint="TEXT") from None
    _said(_job().store, item)


@command.command()
def commit() -> None:
    """Have all effects so far take effect now, and wait until they have."""
    _said(_job().commit)


add_examples(command, "lcc-job")


def main() -> None:
    """The console script."""
    reopen_closed_streams()
    command(prog_name="lcc-job")
