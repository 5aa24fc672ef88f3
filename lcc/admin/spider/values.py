"""What the commands for crawls share: their tables, names and start URLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lcc.admin.context import Admin
from lcc.admin.role_tables import RoleTables
from lcc.admin.tasks.orders import scheduler_knows
from lcc.commands.errors import Failed
from lcc.errors import ConfigError
from lcc.insight.crawl_words import state_words
from lcc.model.spider.crawls import CrawlStatus
from lcc.model.states import UnreadRobots
from lcc.spider.crawl_inputs import SCHEMES, check_crawl_name, check_host
from lcc.spider.names.host_resolver import FILE_BYTES_MAX, read_host_resolver
from lcc.spider.names.start_list import read_start_list, start_url
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import SPIDER
from lcc.storage.spider.orders import ORDERS
from lcc.storage.spider.views import crawl_status, crawl_statuses
from lcc.storage.tasks.polling.robots import unread_robots

SEE_CRAWLS = "lcc-admin spider list shows all crawls"
SPIDER_AWAY = (
    "no spider has answered yet: one does this as soon as it runs\n"
    "Next: lcc-admin status shows whether one runs; systemctl start lcc-role@spider starts it"
)
TABLES = RoleTables(SPIDER, ORDERS, SPIDER_AWAY)
_SHOWN = 100

T = TypeVar("T")


class CrawlName(click.ParamType[str]):
    """The name of a crawl that there is; a shell that completes one is told which."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that begin so."""
        found = TABLES.offered(ctx, lambda database: database.interact(crawl_statuses))
        named = (each for each in found if each.crawl.name.startswith(incomplete))
        return [CompletionItem(each.crawl.name, help=state_words(each)) for each in islice(named, _SHOWN)]


CRAWL = CrawlName()


def existing_crawl(database: BlockingDatabase, name: str) -> CrawlStatus:
    """The crawl of this name.

    :raises Failed: there is none.
    """
    status = database.interact(crawl_status, name)
    if status is None:
        raise Failed(f"there is no crawl {name[:80]!r}", SEE_CRAWLS)
    return status


def unread_of(admin: Admin, roots: Sequence[str]) -> dict[str, UnreadRobots]:
    """Those of these hosts of which nothing is told, as their robots.txt is not known."""
    return scheduler_knows(admin, unread_robots, roots) or {}


def new_name_callback(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The name of a new crawl."""
    try:
        return check_crawl_name(value)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


def starts_callback(_context: click.Context, _parameter: click.Parameter, values: Iterable[str]) -> tuple[str, ...]:
    """URLs, and files of URLs (``@FILE``), each URL once.

    :raises click.BadParameter: with each bad one.
    """
    urls: dict[str, None] = {}
    for value in values:
        try:
            if value.startswith("@"):
                with Path(value[1:]).open(encoding="utf-8", errors="surrogateescape") as file:
                    urls.update(dict.fromkeys(read_start_list(file, SCHEMES)))
            else:
                urls[start_url(value, SCHEMES)] = None
        except ConfigError as error:
            where = f"{value[1:]}: " if value.startswith("@") else ""
            raise click.BadParameter("\n".join(f"{where}{fault}" for fault in error.faults)) from None
        except OSError as error:
            raise click.BadParameter(f"{value[1:]}: {error.strerror}") from None
    return tuple(urls)


def resolver_callback(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> str:
    """The text of a HostResolver file.

    :raises click.BadParameter: with each bad line.
    """
    if value is None:
        return ""
    try:
        with value.open(encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_BYTES_MAX + 1)
        read_host_resolver(text)
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}") from None
    except ConfigError as error:
        raise click.BadParameter("\n".join(f"{value}: {fault}" for fault in error.faults)) from None
    return text


def hosts_callback(_context: click.Context, _parameter: click.Parameter, values: Iterable[str]) -> tuple[str, ...]:
    """Hosts as frontiers have them."""
    try:
        return tuple(dict.fromkeys(check_host(value) for value in values))
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


def say_done(as_json: bool, record: dict[str, Any], text: str, answer: dict[str, Any] | None) -> None:
    """Say what was ordered, and whether a spider has done it."""
    TABLES.say(as_json, record, text, answer is not None)
