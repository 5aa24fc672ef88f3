"""``lcc-admin manual``: manual pages of all console scripts and their commands, for man(1).

Each is made of what the command's ``--help`` says, so that both tell the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from lcc.admin.help.programs import PROGRAMS, commands_of, program
from lcc.commands.errors import Failed
from lcc.commands.examples import examples_of, wrapped

SECTION = 1
_EXIT_CODES = re.compile(r"Exit codes?: (.*?)(?:\n\n|\Z)", re.DOTALL)
_VERBATIM = "\b"
"""A paragraph that begins with this is kept as it stands (click's convention)."""


@click.command("manual")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def manual_command(folder: Path) -> None:
    """Write manual pages into FOLDER, one for each command.

    To install them for all users, use /usr/local/share/man/man1.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages():
            (folder / f"{name}.{SECTION}").write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"cannot write the manual pages: {error}", "give a writable folder") from None


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text of each page."""
    for name in PROGRAMS:
        yield from _pages(program(name), click.Context(program(name), info_name=name))


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path.replace(" ", "-"), "\n".join(_page(command, context)) + "\n"
    if isinstance(command, click.Group):
        for name, inner in commands_of(command, context):
            yield from _pages(inner, click.Context(inner, info_name=name, parent=context))


def _page(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    name = path.replace(" ", "-")
    text = command.help or ""
    codes = _EXIT_CODES.search(text) or _EXIT_CODES.search(command.epilog or "")
    first, _, _ = text.partition("\n\n")
    yield f'.TH "{escape(name.upper())}" "{SECTION}" "" "LCC {version("lcc")}" "Local Content Cache"'
    yield ".ad l"
    yield from (".SH NAME", f"{escape(name)} \\- {escape(_brief(first))}")
    yield from (".SH SYNOPSIS", f".B {escape(path)}", escape(" ".join(command.collect_usage_pieces(context))))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(_EXIT_CODES.sub("", text))
    options = [record for each in command.params if (record := each.get_help_record(context)) is not None]
    if options:
        yield ".SH OPTIONS"
        for spelling, meaning in options:
            yield from (".TP", f".B {escape(spelling)}", escape(meaning) or "\\&")
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for inner, each in commands_of(command, context):
            yield from (".TP", f".BR {escape(f'{name}-{inner}')} ({SECTION})", escape(each.get_short_help_str(200)))
    examples = examples_of(path)
    if examples:
        yield ".SH EXAMPLES"
        for example in examples:
            yield from (".TP", escape(f"{example.meaning[0].upper()}{example.meaning[1:]}"), ".nf")
            yield from (escape(line) for line in wrapped(example.command).splitlines())
            yield ".fi"
    if codes:
        yield ".SH EXIT STATUS"
        for code in re.split(r";\s+", " ".join(codes[1].replace(_VERBATIM, "").split())):
            number, _, meaning = code.rstrip(".").partition(" ")
            yield from (".TP", f".B {escape(number.rstrip(':'))}", escape(meaning))
    related = (
        [context.parent.command_path] if context.parent is not None else [each for each in PROGRAMS if each != path]
    )
    yield ".SH SEE ALSO"
    yield ",\n".join(f".BR {escape(each.replace(' ', '-'))} ({SECTION})" for each in related).replace("),", ") ,")


def _brief(text: str) -> str:
    """The first sentence, on a line."""
    line = " ".join(text.replace(_VERBATIM, "").split())
    return re.split(r"(?<=[a-z)])[.:;] ", line.rstrip("."))[0]


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip())):
        yield ".PP"
        if paragraph.startswith(_VERBATIM):
            yield from (".nf", *map(escape, paragraph.removeprefix(_VERBATIM).strip("\n").splitlines()), ".fi")
        else:
            yield escape(" ".join(paragraph.split()))


def escape(text: str) -> str:
    """Text that roff shows as it is."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("…", "...").replace("|", "|\\:")
    )
    return f"\\&{text}" if text.startswith(".") else text
