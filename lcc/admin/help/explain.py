"""``lcc-admin explain``: what an error means, what the queue does about it, and what a person can do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from lcc.admin.output import json_option
from lcc.domain.advice import advice
from lcc.errors import CODES, ERRORS, Remedy, entry_for

QUEUE: dict[Remedy, str] = {
    Remedy.HOLD_PROVIDER: "all URLs of the provider wait, with growing delays, until its site is reachable",
    Remedy.RETRY: "the URL is retried a limited number of times; then the error is final, and content fetched "
    "earlier is kept",
    Remedy.KEEP: "the error is final; content fetched earlier is kept",
    Remedy.DELETE: "the error is final; content fetched earlier is deleted",
    Remedy.WAIT: "the URL waits again; no attempt is counted",
    Remedy.NONE: "not the outcome of a fetch: reported to the sender at once",
}


def _ranges(codes: Sequence[int]) -> Iterator[str]:
    first = codes[0]
    for code, following in zip(codes, [*codes[1:], 0], strict=True):
        if following != code + 1:
            yield f"{first} to {code}"
            first = following


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
            self.fail(f"{value!r} is neither an HTTP status nor an error code ({', '.join(_ranges(sorted(ERRORS)))})")
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
    """Explain an error, and what to do about it.

    CODE is an error code, an HTTP status, or a name such as dns-failed.
    """
    entry = entry_for(code)
    told = {"code": code, "name": entry.name, "text": entry.text, "queue": QUEUE[entry.remedy], "next": advice(code)}
    if as_json:
        click.echo(json.dumps(told))
        return
    click.echo(f"{code} {entry.name}: {entry.text}")
    click.echo(f"The queue: {told['queue']}.")
    click.echo(f"Next: {told['next']}.")
