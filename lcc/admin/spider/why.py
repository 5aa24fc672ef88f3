"""``lcc-admin spider why``: what became of a URL in each crawl."""

from __future__ import annotations

import json
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import json_option, say_facts
from lcc.admin.spider.values import CRAWL, TABLES, existing_crawl, unread_of
from lcc.admin.tasks.orders import scheduler_knows
from lcc.commands.errors import Failed
from lcc.domain.spider.keys import host_key, host_of_root, url_key
from lcc.domain.urls import site_of
from lcc.errors import ConfigError
from lcc.insight.crawl_words import state_words, url_record, why_known
from lcc.model.candidates import Candidate, Facts, HostFacts, Names
from lcc.model.crawls import CrawlState, CrawlStatus
from lcc.spider.crawl_inputs import SCHEMES, filters_of, names_of
from lcc.spider.filters.chain import Step
from lcc.spider.filters.traps import trap_keys
from lcc.spider.names.start_list import start_url
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.spider.commit import trap_rows
from lcc.storage.spider.views import crawl_statuses, host_by_key, url_by_key, way_to
from lcc.storage.tasks.robots import robots_rules


@click.command("why")
@click.argument("url")
@click.option("--crawl", "name", type=CRAWL, help="Only in this crawl.")
@json_option
@pass_admin
def why_command(admin: Admin, url: str, name: str | None, as_json: bool) -> None:
    """Explain what became of a URL: found, told, cached, or which filter drops it."""
    try:
        furl = start_url(url, SCHEMES)
    except ConfigError as error:
        raise Failed(str(error), "give a whole URL, such as http://www.example.org/") from None
    with TABLES.database(admin) as database:
        statuses = [existing_crawl(database, name)] if name else database.interact(crawl_statuses)
        if not statuses:
            raise Failed("there are no crawls", "lcc-admin spider add NAME --start URL --restrict-to REGEX")
        for status in statuses:
            record, lines = _why(admin, database, status, furl)
            if as_json:
                click.echo(json.dumps(record))
            else:
                say_facts([("crawl", f"{status.crawl.name} ({state_words(status)})"), *lines])


def _why(
    admin: Admin, database: BlockingDatabase, status: CrawlStatus, furl: str
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """For programs, and for people."""
    crawl = status.crawl
    try:
        names = names_of(crawl.settings).names(furl)
        filters = filters_of(crawl.settings, admin.config.spider, admin.now())
    except ConfigError as error:
        raise Failed(f"crawl {crawl.name}: {error}", "lcc-admin config shows [spider] filters") from None
    record: dict[str, Any] = {"crawl": crawl.name, "curl": names.curl, "furl": furl, "known": False}
    lines: list[tuple[str, Any]] = [("compared as", names.curl)] if names.curl != furl else []
    root = site_of(furl)
    known = database.interact(url_by_key, crawl.id, url_key(names.curl))
    if known is not None:
        host = database.interact(host_by_key, crawl.id, host_key(known.root))
        way = database.interact(way_to, known)
        if known.furl != furl:
            lines.append(("fetched as", known.furl))
        record |= {**url_record(known), "known": True, "way": [page.furl for page in way]}
        said = why_known(status, known, host, unread_of(admin, [known.root]).get(known.root), way, admin.now())
        return record, [*lines, *(("state" if not index else "", line) for index, line in enumerate(said))]
    steps = filters.explain(Candidate(names, 0), _facts(admin, database, status, names, root))
    refused = [step for step in steps if step.reason is not None]
    record |= {"filters": [{"filter": step.filter, "reason": step.reason} for step in steps]}
    lines += [("dropped", f"{step.filter}: {step.reason}") for step in refused]
    if not refused:
        lines.append(("not known", _not_found(status, steps)))
    return record, lines


def _not_found(status: CrawlStatus, steps: list[Step]) -> str:
    if status.crawl.state is CrawlState.PAUSED:
        return "no page that was read links to it, and the crawl is paused"
    limits = "; or all links to it are too deep" if any(step.filter == "depth" for step in steps) else ""
    return f"it passes the filters, but no page that was read links to it{limits}"


def _facts(admin: Admin, database: BlockingDatabase, status: CrawlStatus, names: Names, root: str) -> Facts:
    """What the filters are told of a URL that is not known."""
    crawl = status.crawl
    wanted = [(crawl.id, host_key(root), key) for _, key in trap_keys(names.curl)]
    traps = {key: count for (_, _, key), count in database.interact(trap_rows, wanted)}
    known: tuple[str, str] | None = scheduler_knows(admin, robots_rules, root)
    rules, allow = known or ("", "")
    return Facts(False, HostFacts(host_of_root(root) in crawl.excluded, allow, rules), traps)
