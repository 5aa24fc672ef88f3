"""What ``make bench`` runs, and the rows that each benchmark is to give."""

from __future__ import annotations

import attrs


@attrs.frozen
class Step:
    """One run of one benchmark.

    :ivar name: of the step, unlike the others.
    :ivar script: in this folder's parent, without ``.py``.
    :ivar rows: the names of the rows that it must give.
    :ivar full: arguments of ``make bench``; ``--runs`` and ``--json`` come besides.
    :ivar quick: arguments of ``make bench-quick``.
    :ivar quick_runs: how often ``make bench-quick`` runs it.
    """

    name: str
    script: str
    rows: tuple[str, ...]
    full: str = ""
    quick: str = ""
    quick_runs: int = 1


STEPS = (
    Step(
        "fetching",
        "fetch_speed",
        ("robot alone, against curl", "robot alone, against aiohttp", "robot alone, against Scrapy"),
        quick="--files 4000",
    ),
    Step(
        "whole chain, MariaDB",
        "whole_chain",
        (
            "whole chain on MariaDB, against curl",
            "whole chain on MariaDB, against Scrapy",
            "CPU of all roles for a page, MariaDB",
            "CPU of the database for a page, MariaDB",
            "peak memory of the BOT-M",
            "peak memory of the BOT",
        ),
        quick="--pages 3200",
    ),
    Step(
        "whole chain, SQLite",
        "whole_chain",
        ("whole chain on SQLite, against Scrapy",),
        full="--sqlite",
        quick="--sqlite --pages 3200",
    ),
    Step(
        "all in one, SQLite",
        "whole_chain",
        ("whole chain on SQLite, all in one process, against Scrapy",),
        full="--sqlite --one",
        quick="--sqlite --one --pages 3200",
    ),
    Step(
        "intake",
        "uns_intake",
        ("UNS: parse, check, spool",),
        quick="--urls 100000",
    ),
    Step(
        "intake, one in five not plain",
        "uns_intake",
        ("UNS: parse, check, spool, 20% not plain",),
        full="--odd 0.2 --urls 300000",
        quick="--odd 0.2 --urls 50000",
    ),
    Step(
        "a set of a million",
        "intake_size",
        ("provider to set_accepted", "peak memory of the UNS, taking in"),
        full="--urls 1000000",
        quick="--urls 100000",
    ),
    Step(
        "durable intake",
        "durable_intake",
        ("durable intake, provider to set_accepted", "durable intake, provider to the queue"),
        quick="--urls 50000",
    ),
    Step("queue insert", "queue_insert", ("queue insert, against LOAD DATA",), quick="--rows 50000"),
    Step(
        "queue depth",
        "queue_scale",
        ("CPU for a page, huge queue against small", "peak memory of the QM, huge queue"),
        quick="--large 20000x400000 --pages-large 20000",
    ),
    Step(
        "many providers",
        "drain",
        ("pages, queue to cache", "CPU for a page, queue to cache"),
        full="--providers 10000 --pages 20000",
        quick="--providers 10000 --pages 10000",
    ),
    Step(
        "one provider",
        "drain",
        ("pages of one provider, queue to cache", "pages of one provider, against curl"),
        full="--alone --pages 10000",
        quick="--alone --pages 4000",
    ),
    Step(
        "small sets, MariaDB",
        "small_sets",
        (
            "sessions of one page, MariaDB",
            "CPU of UNS and QM, sessions of one page, MariaDB",
            "sets of one page, open connections, MariaDB",
            "CPU of UNS and QM, sets of one page, open connections, MariaDB",
        ),
        quick="--sessions 2000 --sets 6000",
    ),
    Step(
        "small sets, SQLite",
        "small_sets",
        (
            "sessions of one page, SQLite",
            "CPU of UNS and QM, sessions of one page, SQLite",
            "sets of one page, open connections, SQLite",
            "CPU of UNS and QM, sets of one page, open connections, SQLite",
        ),
        full="--sqlite",
        quick="--sqlite --sessions 2000 --sets 6000",
    ),
    Step(
        "a notifier's sets",
        "notifier_sets",
        ("sets of one page of a notifier, MariaDB", "CPU of UNS and QM, sets of one page of a notifier, MariaDB"),
        quick="--sets 10000",
    ),
    Step(
        "front end",
        "front_end",
        (
            "a set through the front end",
            "CPU of the proxy for a set",
            "a session of one page through the front end, p50",
            "memory of an idle connection at the proxy",
        ),
        quick="--urls 100000 --sessions 300 --idle 1000",
    ),
    Step(
        "content users of a front end",
        "front_content_users",
        (
            "everything of 4 sub-LCCs",
            "all changes of 4 sub-LCCs",
            "nothing new over 16 sub-LCCs",
            "CPU for nothing new over 16 sub-LCCs",
            "CPU for nothing new after a move",
        ),
        quick="--rows 40000 --questions 100 --arrived 20000",
    ),
    Step(
        "moves",
        "move",
        (
            "CPU of a row that moves",
            "time of rows that move",
            "CPU of a page that moves",
            "time of pages that move",
            "pages of other providers while one moves",
            "a provider with few rows stands still, longest",
            "a provider with many rows stands still, longest",
        ),
        quick="--rows 20000 --pages 1000 --others 1000 --freezes 2",
    ),
    Step(
        "IndexNow",
        "push_speed",
        ("pushed URLs in lists of 100, MariaDB", "pushed URLs one by one, MariaDB"),
        quick="--seconds 2",
    ),
    Step(
        "IndexNow, SQLite",
        "push_speed",
        ("pushed URLs in lists of 100, SQLite", "pushed URLs one by one, SQLite"),
        full="--sqlite",
        quick="--sqlite --seconds 2",
    ),
    Step(
        "sets by HTTP",
        "set_posts",
        (
            "sets of one page by HTTP, SQLite",
            "CPU of all roles, sets of one page by HTTP",
            "memory that the push server takes for a long set by HTTP",
        ),
        quick="--posts 3000 --urls 100000",
    ),
    Step("sitemaps", "sitemap_speed", ("CPU of a changed sitemap",)),
    Step(
        "subscribers of the hub",
        "hub_subscribers",
        ("memory of hub subscribers", "peak memory of lcc-cu with its hub", "deliveries of the hub"),
        quick="--subscribers 1000",
    ),
    Step(
        "latency",
        "latency",
        ("notification to cached, p50", "notification to cached, p99"),
        full="--urls 200",
        quick="--urls 100",
    ),
    Step(
        "search latency",
        "search_latency",
        ("notification to found, p50", "notification to found, p90"),
        quick="--pages 10",
    ),
    Step(
        "TLS",
        "tls_sessions",
        (
            "TLS session, public port, resumed against new",
            "TLS session, robot, resumed against new",
        ),
        quick="--connections 100",
    ),
    Step(
        "feeds without news, MariaDB",
        "feed_polls",
        (
            "CPU of an unchanged poll, MariaDB, against told",
            "CPU of an unchanged poll, MariaDB, against reader",
            "CPU of an unchanged poll, MariaDB, against sfeed",
        ),
        quick="--feeds 200 --items 2",
    ),
    Step(
        "feeds without news, SQLite",
        "feed_polls",
        (
            "CPU of an unchanged poll, SQLite, against told",
            "CPU of an unchanged poll, SQLite, against reader",
            "CPU of an unchanged poll, SQLite, against sfeed",
        ),
        full="--sqlite",
        quick="--sqlite --feeds 200 --items 2",
    ),
    Step(
        "crawl, MariaDB",
        "crawl",
        (
            "crawl on MariaDB, against Scrapy",
            "CPU of all roles and the database for a crawled page, MariaDB",
            "CPU of extraction for a crawled page, MariaDB",
        ),
        quick="--pages 3200",
    ),
    Step(
        "100,000 tasks",
        "tasks",
        ("CPU of the scheduler for a poll", "peak memory of the scheduler"),
        quick="--tasks 5000 --seconds 10",
    ),
    Step("packages", "package_speed", ("tar.gz of the cache, against tar and gzip",), quick="--files 2000"),
)
