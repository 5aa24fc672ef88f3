"""``lcc-admin spider``: crawls, which follow links."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from lcc.admin.context import SEE_PROVIDERS, Admin, existing, pass_admin
from lcc.admin.frontend.places import database_of
from lcc.admin.output import Column, Listing, json_option, say_facts
from lcc.admin.spider.private_hosts import allow_private_hosts, refused_hosts
from lcc.admin.spider.values import (
    CRAWL,
    SEE_CRAWLS,
    TABLES,
    existing_crawl,
    hosts_callback,
    new_name_callback,
    resolver_callback,
    say_done,
    starts_callback,
    unread_of,
)
from lcc.admin.spider.why import why_command
from lcc.admin.values import NONE, PID, number_or_none
from lcc.commands.errors import Failed
from lcc.commands.watch import clean, interval_option
from lcc.domain.urls import site_of
from lcc.errors import ConfigError
from lcc.insight.crawl_words import (
    crawl_facts,
    crawl_record,
    parked_words,
    progress_line,
    spider_lines,
    spiders_record,
    state_words,
    store_words,
    unread_words,
)
from lcc.model.shellwords import shell_word
from lcc.model.spider.crawls import CrawlSettings, CrawlState, UrlOrder
from lcc.spider.crawl_inputs import check_crawl, check_settings
from lcc.spider.names.presets import PRESETS
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.providers.providers import get_provider
from lcc.storage.spider.claims import spiders
from lcc.storage.spider.orders import (
    CRAWL_ADD,
    CRAWL_EXCLUDE,
    CRAWL_INCLUDE,
    CRAWL_PAUSE,
    CRAWL_REMOVE,
    CRAWL_RESUME,
    CRAWL_SET,
    CRAWL_START,
    STARTS_MAX,
    add_body,
)
from lcc.storage.spider.views import HOSTS_SHOWN, crawl_status, crawl_statuses, see_spiders

_COLUMNS = (
    Column("name", 16),
    Column("state", 8),
    Column("known", 9, "number"),
    Column("waiting", 9, "number"),
    Column("told", 7, "number", title="told"),
    Column("cached", 9, "number"),
    Column("failed", 7, "number"),
    Column("hosts", 7, "number"),
    Column("follows"),
)
_SECONDS_MAX = 10 * 365 * 86400
_SECONDS = click.IntRange(1, _SECONDS_MAX)
_DEFAULTS = CrawlSettings()
_start_option = click.option(
    "--start",
    "starts",
    multiple=True,
    metavar="URL|@FILE",
    callback=starts_callback,
    help="Where it begins (repeatable); @FILE: a file with a URL in each line.",
)


@click.group("spider")
def spider_group() -> None:
    """Manage crawls: spiders follow the links of cached pages.

    A spider fetches nothing itself: it tells the LCC of the URLs that it finds, and reads them in the cache.
    """


spider_group.add_command(why_command)


def _limit(option: str, field: str, meaning: str) -> Any:
    return click.option(option, field, type=number_or_none, metavar="NUMBER|none", help=f"{meaning}.  Default: none.")


def _limits(command: Any) -> Any:
    """The options that ``add`` and ``set`` share."""
    for option in (
        click.option(
            "--revisit-most",
            "revisit_most_seconds",
            type=_SECONDS,
            metavar="SECONDS",
            help="Longest time between visits.  Default: 90 days.",
        ),
        click.option(
            "--revisit-least",
            "revisit_least_seconds",
            type=_SECONDS,
            metavar="SECONDS",
            help="Shortest time between visits.  Default: an hour.",
        ),
        click.option(
            "--revisit",
            "revisit_seconds",
            type=click.IntRange(0, _SECONDS_MAX),
            metavar="SECONDS",
            help="Visit pages again: first after this time, then as often as they change.  0: never, the default.",
        ),
        _limit("--hosts", "hosts_max", "Maximum number of hosts"),
        _limit("--urls", "urls_max", "Maximum number of URLs"),
        _limit("--depth", "depth_max", "Maximum number of links from a start"),
        click.option(
            "--restrict-to",
            metavar="REGEX|none",
            help="Perl-like expression with which normalised URLs begin; none: all within a provider's roots.",
        ),
    ):
        command = option(command)
    return command


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    return {name: getattr(_DEFAULTS, name) if value == NONE else value for name, value in given.items()}


@spider_group.command("add")
@click.argument("name", callback=new_name_callback)
@_start_option
@_limits
@click.option("--provider", "pid", type=PID, help="Complete what this provider told: follow links within its roots.")
@click.option(
    "--host-resolver",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=resolver_callback,
    help="Properties file of hosts that are one host.",
)
@click.option(
    "--names", type=click.Choice([*PRESETS]), default="safe", show_default=True, help="How URLs are compared."
)
@click.option(
    "--order",
    type=click.Choice([each.value for each in UrlOrder]),
    default=UrlOrder.DEPTH.value,
    show_default=True,
    help="Which URL of a host is fetched first.",
)
@click.option("--allow-private", is_flag=True, help="Its hosts may be on private addresses.")
@json_option
@pass_admin
def add_command(
    admin: Admin,
    /,
    name: str,
    starts: tuple[str, ...],
    pid: int | None,
    host_resolver: str,
    names: str,
    order: str,
    allow_private: bool,
    as_json: bool,
    **limits: Any,
) -> None:
    """Add a crawl.  It begins at once, where a spider runs."""
    settings = CrawlSettings(
        pid=pid or 0,
        roots=_roots(admin, pid),
        names=names,
        host_resolver=host_resolver,
        order=UrlOrder(order),
        allow_private=allow_private,
        **_given(limits),
    )
    try:
        check_crawl(settings, starts, admin.config.spider, admin.now())
    except ConfigError as error:
        raise Failed(str(error), "lcc-admin spider add --help explains the options") from None
    with TABLES.database(admin) as database:
        if database.interact(crawl_status, name) is not None:
            raise Failed(f"there is a crawl {name} already", f"lcc-admin spider show {shell_word(name)}")
        if allow_private:
            allow_private_hosts(admin, dict.fromkeys(map(site_of, starts)).keys())
        body = add_body(settings, starts[:STARTS_MAX])
        given = [TABLES.order(database, CRAWL_ADD, name, body, admin.now())]
        given += _order_starts(admin, database, name, starts[STARTS_MAX:])
        answers = [TABLES.answer(database, ordered) for ordered in given]
    say_done(as_json, {"name": name}, f"crawl {name}: {len(starts):,} to start from", answers[-1])


def _roots(admin: Admin, pid: int | None) -> tuple[str, ...]:
    if pid is None:
        return ()
    with database_of(admin, pid) as database:
        provider = existing(database.interact(get_provider, pid), pid)
    if provider.removed or provider.watched:
        kind = "removed" if provider.removed else "a watched site"
        raise Failed(f"provider {pid} is {kind}", f"give one that is registered: {SEE_PROVIDERS}")
    return provider.roots


def _order_starts(admin: Admin, database: BlockingDatabase, name: str, starts: tuple[str, ...]) -> list[int]:
    """Orders for further starts."""
    return [
        TABLES.order(database, CRAWL_START, name, {"starts": starts[index : index + STARTS_MAX]}, admin.now())
        for index in range(0, len(starts), STARTS_MAX)
    ]


@spider_group.command("start")
@click.argument("name", type=CRAWL)
@click.argument("starts", nargs=-1, required=True, metavar="URL|@FILE...", callback=starts_callback)
@json_option
@pass_admin
def start_command(admin: Admin, /, name: str, starts: tuple[str, ...], as_json: bool) -> None:
    """Give a crawl more URLs to start from."""
    with TABLES.database(admin) as database:
        settings = existing_crawl(database, name).crawl.settings
        try:
            check_crawl(settings, starts, admin.config.spider, admin.now())
        except ConfigError as error:
            raise Failed(str(error), f"lcc-admin spider show {shell_word(name)} shows what it follows") from None
        answers = [TABLES.answer(database, ordered) for ordered in _order_starts(admin, database, name, starts)]
    say_done(as_json, {"name": name}, f"crawl {name}: {len(starts):,} more to start from", answers[-1])


@spider_group.command("set")
@click.argument("name", type=CRAWL)
@_limits
@click.option(
    "--allow-private/--no-allow-private",
    default=None,
    help="Its hosts may be on private addresses; new ones may not.",
)
@json_option
@pass_admin
def set_command(admin: Admin, /, name: str, as_json: bool, **limits: Any) -> None:
    """Change what a crawl follows from now on.

    Links that were dropped before are found when their pages are read again (--revisit).
    """
    given = _given(limits)
    if not given:
        raise Failed("nothing to change was given", "lcc-admin spider set --help names the options")
    with TABLES.database(admin) as database:
        crawl = existing_crawl(database, name).crawl
        new = attrs.evolve(crawl.settings, **given)
        try:
            check_settings(new, admin.config.spider, admin.now())
        except ConfigError as error:
            raise Failed(str(error), "lcc-admin spider set --help explains the options") from None
        if new.allow_private:
            allow_private_hosts(admin, refused_hosts(admin, database, crawl.id))
        answer = TABLES.answer(database, TABLES.order(database, CRAWL_SET, name, {"settings": given}, admin.now()))
    say_done(as_json, {"name": name}, f"crawl {name} is changed", answer)


@spider_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List all crawls."""
    listing = Listing(_COLUMNS, as_json)
    with TABLES.database(admin) as database:
        for status in database.interact(crawl_statuses):
            record = crawl_record(status)
            follows = status.crawl.settings.restrict_to or f"provider {status.crawl.settings.pid}"
            shown = {**record, **record["counts"], "state": state_words(status), "follows": follows}
            listing.row(record if as_json else shown)
    listing.end("there are no crawls: lcc-admin spider add NAME --start URL --restrict-to REGEX")


@spider_group.command("show")
@click.argument("name", type=CRAWL)
@json_option
@pass_admin
def show_command(admin: Admin, name: str, as_json: bool) -> None:
    """Show what a crawl follows, how far it has come, and what was dropped."""
    with TABLES.database(admin) as database:
        status = existing_crawl(database, name)
    if as_json:
        click.echo(json.dumps(crawl_record(status)))
    else:
        say_facts(crawl_facts(status))


@spider_group.command("status")
@click.argument("name", type=CRAWL, required=False)
@json_option
@pass_admin
def status_command(admin: Admin, name: str | None, as_json: bool) -> None:
    """Show the spiders, their stores that lack pages, and of each crawl (or this one) its progress and its hosts."""
    with TABLES.database(admin) as database:
        if name:
            existing_crawl(database, name)
        seen = database.interact(see_spiders, name, HOSTS_SHOWN)
    if as_json:
        click.echo(json.dumps(spiders_record(seen)))
        return
    waiting = {host.root for crawl in seen.crawls for host in crawl.hosts if host.waiting}
    unread = unread_of(admin, sorted(waiting))
    facts: list[tuple[str, Any]] = [*spider_lines(seen.spiders, admin.now(), admin.config.spider.lease)]
    facts += [("store", store_words(each)) for each in seen.stores]
    for status, hosts, parked in seen.crawls:
        facts += [("crawl", f"{status.crawl.name} ({state_words(status)})"), ("progress", progress_line(status))]
        for host in hosts:
            facts.append(
                ("host", f"{host.host}: {host.known:,} known, {host.cached:,} cached, {host.waiting:,} waiting")
            )
            if host.waiting and host.root in unread:
                facts.append(("", f"waiting for its robots.txt: {unread_words(unread[host.root])}"))
        for host in parked:
            facts.append(("parked", f"{host.host} {parked_words(host)}"))
    say_facts(facts or [("spider", "none has run yet")])


def _simple(name: str, kind: str, text: str, doc: str) -> None:
    @spider_group.command(name, help=doc)
    @click.argument("names", type=CRAWL, metavar="NAME...", nargs=-1, required=True)
    @json_option
    @pass_admin
    def command(admin: Admin, /, names: tuple[str, ...], as_json: bool) -> None:
        with TABLES.database(admin) as database:
            for each in names:
                existing_crawl(database, each)
            given = [(each, TABLES.order(database, kind, each, {}, admin.now())) for each in names]
            for each, ordered in given:
                say_done(as_json, {"name": each}, f"crawl {each} {text}", TABLES.answer(database, ordered))


_simple("pause", CRAWL_PAUSE, "is paused", "Pause crawls: nothing more is fetched for them.")
_simple("resume", CRAWL_RESUME, "is resumed", "Resume paused crawls.")
_simple("remove", CRAWL_REMOVE, "is being removed", "Remove crawls with all that they know; cached pages stay.")


def _hosts(name: str, kind: str, text: str, doc: str) -> None:
    @spider_group.command(name, help=doc)
    @click.argument("crawl", type=CRAWL, metavar="NAME")
    @click.argument("hosts", nargs=-1, required=True, metavar="HOST...", callback=hosts_callback)
    @json_option
    @pass_admin
    def command(admin: Admin, /, crawl: str, hosts: tuple[str, ...], as_json: bool) -> None:
        with TABLES.database(admin) as database:
            existing_crawl(database, crawl)
            ordered = TABLES.order(database, kind, crawl, {"hosts": list(hosts)}, admin.now())
            answer = TABLES.answer(database, ordered)
        record = {"name": crawl, "hosts": list(hosts)}
        say_done(as_json, record, f"crawl {crawl}: {' '.join(hosts)} {text}", answer)


_hosts("exclude", CRAWL_EXCLUDE, "excluded", "Exclude hosts (HOST, HOST:PORT or a URL) from a crawl.")
_hosts("include", CRAWL_INCLUDE, "no longer excluded", "Take back what was excluded.")


@spider_group.command("run")
@click.argument("name", type=CRAWL)
@click.option("--until-done", is_flag=True, help="Wait until nothing is left, showing progress.")
@interval_option
@pass_admin
def run_command(admin: Admin, name: str, until_done: bool, every: float) -> None:
    """Let a crawl go on, and show its progress until nothing is left, or until Ctrl-C.

    It goes on without this command, too.
    """
    with TABLES.database(admin) as database:
        status = existing_crawl(database, name)
        if status.crawl.state is CrawlState.REMOVING:
            raise Failed(f"crawl {name} is being removed", SEE_CRAWLS)
        if status.crawl.state is CrawlState.PAUSED:
            answer = TABLES.answer(database, TABLES.order(database, CRAWL_RESUME, name, {}, admin.now()))
            if answer is None:
                click.echo(TABLES.away, err=True)
        elif not database.interact(spiders):
            click.echo(TABLES.away, err=True)
        if not until_done:
            click.echo(progress_line(existing_crawl(database, name)))
            return
        shown = _ProgressLine()
        try:
            while True:
                status = existing_crawl(database, name)
                if status.is_done and status.crawl.state is CrawlState.ACTIVE:
                    break
                shown.show(f"{name}: {progress_line(status)}")
                time.sleep(every)
        except KeyboardInterrupt:
            shown.end()
            raise click.Abort from None
        shown.end()
    click.echo(f"{name} is done: {progress_line(status)}")


class _ProgressLine:
    """A line on standard error: rewritten on a terminal, printed where it has changed elsewhere."""

    def __init__(self) -> None:
        self._shown = ""
        self._rewrites = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Show this."""
        if text == self._shown:
            return
        text, before = clean(text), len(self._shown)
        click.echo(f"\r{text.ljust(before)}" if self._rewrites else text, err=True, nl=not self._rewrites)
        self._shown = text

    def end(self) -> None:
        """Nothing follows."""
        if self._rewrites and self._shown:
            click.echo(err=True)
