"""``lcc-admin feed discover``: which feeds a web page has."""

from __future__ import annotations

import io

import click

from lcc.admin.cache.fetch import Account, fetched_once
from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.values import feed_url
from lcc.admin.output import Column, Listing, json_option
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.urls import site_of
from lcc.feeds.discovery import FoundFeed, feeds_named
from lcc.feeds.faults import FeedFault
from lcc.feeds.feed import FeedPlugin
from lcc.feeds.run import FeedRun
from lcc.model import FetchOrder
from lcc.model.feeds import ParsedFeed
from lcc.model.shellwords import shell_command, shell_word

PAGE_BYTES_MAX = 10_000_000
_COLUMNS = (Column("kind", 10), Column("url"), Column("title"))


class _Ignored:
    """Effects of a look at a feed."""

    def log(self, text: str) -> None:
        """Nothing."""

    store = notify = None  # never called: nothing is stored


@click.command("discover")
@click.argument("url")
@click.option("--allow-private", is_flag=True, help="Allow private and loopback addresses.")
@json_option
@pass_admin
def discover_command(admin: Admin, url: str, allow_private: bool, as_json: bool) -> None:
    """Fetch a page once, and list the feeds that it names; a feed names itself."""
    url = feed_url(url)
    kept = io.BytesIO()
    account = fetched_once(admin.config.bot, FetchOrder(0, url, private=allow_private), site_of(url), kept)
    if account.error is not None:
        error = account.error
        then = f"lcc-admin fetch {shell_word(url)}"
        if error.entry.name == "address-forbidden" and not allow_private:
            then = f"if the site is on your own network: lcc-admin feed discover --allow-private {shell_word(url)}"
        raise Failed(f"{url}: {error.code} {error.entry.name}: {error.text}", then)
    found = _feeds(account, kept.getvalue()[:PAGE_BYTES_MAX])
    listing = Listing(_COLUMNS, as_json)
    for each in found:
        listing.row(each._asdict())
    listing.end("the page names no feed")
    if found and not as_json:
        words = (found[0].url, *(["--allow-private"] if allow_private else []))
        click.echo(clean(f"Next: {shell_command('lcc-admin', 'feed', 'add', *words)}"), err=True)


def _feeds(account: Account, data: bytes) -> list[FoundFeed]:
    fetched = account.fetched
    assert fetched is not None
    content_type = f"{fetched.mimetype}; charset={fetched.charset}" if fetched.charset else fetched.mimetype
    try:
        itself = _parsed(fetched.url, data, content_type)
    except FeedFault:
        return feeds_named(data, content_type, fetched.url)
    return [FoundFeed(fetched.url, itself.info.kind or "feed", itself.info.title)]


def _parsed(url: str, data: bytes, content_type: str) -> ParsedFeed:
    plugin = FeedPlugin()
    run = FeedRun(url, None, _Ignored(), now=0, content_type=content_type)  # type: ignore[arg-type]
    return plugin.parsed(run, plugin.fetchclean(run, data))
