"""``lcc-admin explain``: what an error means, what the queue does about it, and what a person can do."""

from __future__ import annotations

import json
from typing import Any

import click
from click.shell_completion import CompletionItem

from lcc.admin.output import json_option
from lcc.domain.advice import advice
from lcc.errors import CODES, ERRORS, Remedy, entry_for

QUEUE: dict[Remedy, str] = {
    Remedy.HOLD_PROVIDER: "all of the provider's queue waits, with growing delays, until its site can be reached",
    Remedy.RETRY: "the URL is tried again, some times; then the error is kept, and what was fetched before stays",
    Remedy.KEEP: "it is final: the error is kept for the provider, and what was fetched before stays",
    Remedy.DELETE: "it is final: the error is kept for the provider, and what was fetched before is deleted",
    Remedy.WAIT: "the URL waits again, and no attempt is counted",
    Remedy.NONE: "it is no outcome of a fetch: who sent it is told at once",
}


class ErrorCode(click.ParamType[int]):
    """A code, or the name of one."""

    name = "code"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value in CODES:
            return CODES[value]
        is_number = value.isascii() and value.isdigit() and len(value) <= 9
        if not (is_number and (100 <= int(value) <= 599 or int(value) in ERRORS)):
            self.fail(f"{value!r} is neither an HTTP status nor a code; doc/queue.md and doc/protocol.md list them")
        return int(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(text, help=entry.text)
            for entry in ERRORS.values()
            for text in (str(entry.code), entry.name)
            if text.startswith(incomplete)
        ]


@click.command("explain")
@click.argument("code", type=ErrorCode())
@json_option
def explain_command(code: int, as_json: bool) -> None:
    """Tell what an error means, what the queue does about it, and what you can do.

    CODE is a number, an HTTP status, or a name such as dns-failed.
    """
    entry = entry_for(code)
    told = {"code": code, "name": entry.name, "text": entry.text, "queue": QUEUE[entry.remedy], "next": advice(code)}
    if as_json:
        click.echo(json.dumps(told))
        return
    click.echo(f"{code} {entry.name}: {entry.text}")
    click.echo(f"The queue: {told['queue']}.")
    click.echo(f"Next: {told['next']}.")
