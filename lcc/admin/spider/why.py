"""``lcc-admin spider why``: what became of a URL in each crawl."""

from __future__ import annotations

import json

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import json_option, say_facts
from lcc.admin.spider.values import CRAWL, TABLES, existing_crawl, unread_of
from lcc.admin.tasks.orders import scheduler_knows
from lcc.commands.errors import Failed
from lcc.errors import ConfigError
from lcc.insight.crawl_words import state_words
from lcc.model.shellwords import shell_word
from lcc.model.states import SiteRobots
from lcc.roles.spider.why import UrlInCrawl, url_in_crawl
from lcc.spider.crawl_inputs import SCHEMES
from lcc.spider.names.start_list import start_url
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.spider.views import crawl_status, crawl_statuses
from lcc.storage.tasks.polling.robots import robots_rules


@click.command("why")
@click.argument("given", nargs=-1, type=CRAWL, metavar="[NAME] URL")
@json_option
@pass_admin
def why_command(admin: Admin, given: tuple[str, ...], as_json: bool) -> None:
    """Explain what became of a URL in each crawl, or in this one: found, told, cached, or which filter drops it."""
    if not 1 <= len(given) <= 2:
        raise click.UsageError("There must be a URL, after the name of a crawl if only that one matters.")
    name = given[0] if len(given) == 2 else None
    with TABLES.database(admin) as database:
        furl = _url(database, given[-1])
        statuses = [existing_crawl(database, name)] if name else database.interact(crawl_statuses)
        if not statuses:
            raise Failed("there are no crawls", "lcc-admin spider add NAME --start URL --restrict-to REGEX")
        for status in statuses:
            try:
                found = database.interact(url_in_crawl, status, furl, admin.config.spider, admin.now())
            except ConfigError as error:
                raise Failed(
                    f"crawl {status.crawl.name}: {error}", "lcc-admin config shows [spider] filters"
                ) from None
            robots = _robots(admin, found)
            if as_json:
                click.echo(json.dumps(found.record(robots)))
                continue
            facts = found.facts(robots, unread_of(admin, [found.root]).get(found.root), admin.now())
            say_facts([("crawl", f"{status.crawl.name} ({state_words(status)})"), *facts])


def _url(database: BlockingDatabase, url: str) -> str:
    try:
        return start_url(url, SCHEMES)
    except ConfigError as error:
        if database.interact(crawl_status, url) is not None:
            then = f"lcc-admin spider why {shell_word(url)} URL"
            raise Failed(f"{url} is a crawl, and no URL", then) from None
        raise Failed(str(error), "give a whole URL, such as http://www.example.org/") from None


def _robots(admin: Admin, found: UrlInCrawl) -> SiteRobots:
    known: tuple[str, str] | None = scheduler_knows(admin, robots_rules, found.root)
    rules, allow = known or ("", "")
    return SiteRobots(found.root, allow, rules)
