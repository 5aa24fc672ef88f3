"""``lcc-admin search``: searches the index of the search server on this machine, of all providers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import json_option
from lcc.admin.search.index import rebuild_command
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.wording import number, utc
from lcc.search.interfaces import INDEX, IndexDamaged
from lcc.search.json_answer import hit_json
from lcc.search.query import QueryError, parse_query
from lcc.search.values import Hit, Order

_MARKED = "\x1b[1m", "\x1b[0m"
_PREFIXED = re.compile(r"(-?(?:[A-Za-z]+:)?)(.*)", re.DOTALL)


class SearchGroup(click.Group):
    """A group in which whatever is no command is what to search for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["find", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        find = self.commands["find"]
        records = (each.get_help_record(ctx) for each in find.params if isinstance(each, click.Option))
        with formatter.section("Options of a search"):
            formatter.write_dl([each for each in records if each is not None])
        super().format_options(ctx, formatter)


@click.group("search", cls=SearchGroup, subcommand_metavar="WORD... | COMMAND")
def search_group() -> None:
    """Search the pages of the cache.

    As in the search page: words, "phrases", -not, title:, site:, host:, type:, lang:, since:.
    """


@search_group.command("find", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="WORD...")
@click.option(
    "--order", type=click.Choice([each.value for each in Order]), default="rank", help="Best, or newest, first."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, help="Maximum number of hits.  Default: 10.")
@json_option
@pass_admin
def find_command(admin: Admin, words: tuple[str, ...], order: str, limit: int, as_json: bool) -> None:
    """Search for words (the usual command: "find" may be left out)."""
    settings = admin.config.search
    try:
        query = parse_query(as_query(words), order, admin.now())
    except QueryError as error:
        raise click.UsageError(error.text) from None
    if find_spec("tantivy") is None:
        raise Failed("search needs tantivy", "install it: pip install 'dist/lcc-….whl[search]'")
    from lcc.search.index import TextIndex

    folder: Path = admin.config.under_home(settings.folder) / INDEX
    if not (folder / "meta.json").exists():
        raise Failed(f"{folder}: there is no index", "start the search: [search] listen, twistd lcc or lcc-search")
    try:
        results = TextIndex(folder).search(query, None, limit)
    except IndexDamaged as error:
        raise Failed(str(error), "build it anew: lcc-admin search rebuild") from None
    except OSError as error:
        raise Failed(str(error), "run this as the user of lcc-search, and see the limit of open files") from None
    if as_json:
        for hit in results.hits:
            click.echo(json.dumps(hit_json(hit)))
        return
    for hit in results.hits:
        _show(hit)
    click.echo(f"{number(results.total, 'page')}, {len(results.hits)} shown" if results.total else "no page")
    if results.suggestion:
        click.echo(clean(f"Did you mean: {results.suggestion}"))


def as_query(words: Sequence[str]) -> str:
    """The query that the words of a command line are.

    One alone is the whole query; of several, one with white space in it is a phrase: the shell has taken its quotes.
    """
    if len(words) == 1:
        return words[0]
    return " ".join(_quoted(word) if len(word.split()) > 1 and '"' not in word else word for word in words)


def _quoted(word: str) -> str:
    match = _PREFIXED.fullmatch(word)
    assert match is not None
    return f'{match[1]}"{match[2]}"'


def _show(hit: Hit) -> None:
    begin, end = _MARKED if sys.stdout.isatty() else ("", "")
    click.secho(clean(hit.title or hit.url), bold=True)
    click.echo(clean(f"  {hit.url}"))
    click.echo(clean(f"  {utc(hit.date)[:10]} {hit.type} {hit.language}").rstrip())
    pieces = ((" ".join(f"|{text}|".split())[1:-1], marked) for text, marked in hit.snippet.pieces())
    text = "".join(f"{begin}{clean(piece)}{end}" if marked else clean(piece) for piece, marked in pieces)
    if text.strip():
        click.echo(f"  {text.strip()}")


search_group.add_command(rebuild_command)
