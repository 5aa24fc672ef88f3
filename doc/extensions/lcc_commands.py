"""What is made of the code itself, so that it is always as the code is: all commands, and all errors.

* ``{commands}`` describes all console scripts and their commands, made of what their ``--help`` and manual pages are.
* ``{errors}`` is a table of all errors, from what ``lcc-admin explain`` tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lcc.admin.help.explain import QUEUE
from lcc.admin.help.programs import PROGRAMS, commands_of, program
from lcc.commands.examples import examples_of, wrapped
from lcc.domain.advice import advice
from lcc.errors import ERRORS

_VERBATIM = "\b"
_EXAMPLES = re.compile(r"\x08?\n?Examples:\n.*", re.DOTALL)


class CommandsDirective(SphinxDirective):
    """Sections, one for each command."""

    def run(self) -> list[nodes.Node]:
        return [
            section
            for name in PROGRAMS
            for section in _sections(program(name), click.Context(program(name), info_name=name))
        ]


def _sections(command: click.Command, context: click.Context) -> Iterator[nodes.Node]:
    path = context.command_path
    section = nodes.section(ids=[f"command-{path.replace(' ', '-')}"], names=[path])
    section += nodes.title("", "", nodes.literal(text=path))
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    section += nodes.literal_block(usage, usage, language="text")
    for text in (command.help or "", _EXAMPLES.sub("", command.epilog or "")):
        section += list(_paragraphs(text))
    options = [record for each in command.params if (record := each.get_help_record(context)) is not None]
    if options:
        section += _definitions(options)
    if isinstance(command, click.Group):
        commands = commands_of(command, context)
        section += _definitions([(f"{path} {name}", each.get_short_help_str(200)) for name, each in commands])
    examples = examples_of(path)
    if examples:
        text = "\n".join(f"# {each.meaning}\n{wrapped(each.command)}" for each in examples)
        section += nodes.literal_block(text, text, language="sh")
    yield section
    if isinstance(command, click.Group):
        for name, inner in commands_of(command, context):
            section += list(_sections(inner, click.Context(inner, info_name=name, parent=context)))


def _paragraphs(text: str) -> Iterator[nodes.Node]:
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip())):
        if paragraph.startswith(_VERBATIM):
            kept = paragraph.removeprefix(_VERBATIM).strip("\n")
            yield nodes.literal_block(kept, kept, language="text")
        else:
            yield nodes.paragraph(text=" ".join(paragraph.split()))


def _definitions(pairs: list[tuple[str, str]]) -> nodes.Node:
    found = nodes.definition_list()
    for term, meaning in pairs:
        item = nodes.definition_list_item()
        item += nodes.term("", "", nodes.literal(text=term))
        item += nodes.definition("", nodes.paragraph(text=meaning))
        found += item
    return found


class ErrorsDirective(SphinxDirective):
    """A table: number and name, text, what the queue does, what a person can do."""

    def run(self) -> list[nodes.Node]:
        group = nodes.tgroup(cols=4)
        group += [nodes.colspec(colwidth=width) for width in (12, 25, 33, 30)]
        group += nodes.thead("", _row("error", "what it says", "what the queue does", "what you can do"))
        body = nodes.tbody()
        for entry in ERRORS.values():
            body += _row(f"{entry.code} {entry.name}", entry.text, QUEUE[entry.remedy], advice(entry.code))
        group += body
        return [nodes.table("", group, classes=["lcc-errors"])]


def _row(*texts: str) -> nodes.Node:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("commands", CommandsDirective)
    app.add_directive("errors", ErrorsDirective)
    return {"parallel_read_safe": True}
