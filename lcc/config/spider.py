"""Settings of spiders, which follow links."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class SpiderConfig:
    """The spider: follows the links of cached pages, within the crawls of lcc-admin spider."""

    name: str = setting("spider", "name of this spider at the UNS, unique in the LCC: 1 to 40 of A-Z a-z 0-9 . _ @ -")
    listen: str = setting("", "endpoint of the HTTP interface of crawls; empty: off")
    listen_token_file: str = setting(
        "spider-http-token", "file whose first line is the token that its clients must have, relative to home"
    )
    connect: str = setting(
        "unix:{home}/notify-spider.sock", "endpoint of the UNS's port of notifiers; empty: nothing is told"
    )
    cache: str = setting(
        "unix:{home}/cu.sock", "lcc-cu, to read pages from: https://host:port, http://host:port or unix:PATH"
    )
    token_file: str = setting(
        "", "file whose first line is the token for lcc-cu, relative to home; empty: without a token"
    )
    folder: str = setting("spider", "folder of what the stores keep, relative to home")
    filters: tuple[str, ...] = setting(
        (
            "length",
            "scheme",
            "scope",
            "known-paths",
            "nofollow",
            "depth",
            "hosts",
            "robots",
            "traps",
            "visited",
        ),
        "filters that each link passes, in this order",
    )
    extractors: tuple[str, ...] = setting(
        (), "link extractors to use, for each type the first that reads it; empty: all that are installed"
    )
    stores: tuple[str, ...] = setting(
        (), "stores that keep what is read, such as links (a log of all links), warc or text"
    )
    segment_bytes: int = setting(
        50_000_000, "size from which on a store begins its next file", unit="bytes", minimum=1 << 16
    )
    window: int = setting(100, "URLs of one provider that are told and not answered yet", minimum=1, maximum=100_000)
    pages_at_once: int = setting(500, "pages that are read from lcc-cu at once, at most", minimum=1, maximum=100_000)
    page_bytes: int = setting(
        8 << 20, "what is read of a page at most; links behind that are not found", unit="bytes", minimum=1024
    )
    batch_bytes: int = setting(
        16 << 20, "content of pages that is held in memory at once", unit="bytes", minimum=1 << 20
    )
    workers: int = setting(
        0, "processes that extract links; 0: one for each processor, but at most 4", minimum=0, maximum=256
    )
    worker_memory_bytes: int = setting(1 << 30, "address space of each of them", unit="bytes", minimum=1 << 28)
    page_seconds: float = setting(
        20.0, "time to extract the links of one page", unit="seconds", minimum=0.1, maximum=3600
    )
    links_max: int = setting(10_000, "links of one page; further ones are left out", minimum=1, maximum=10_000_000)
    url_chars: int = setting(4096, "longest URL that is followed", unit="characters", minimum=1, maximum=65536)
    known_paths: tuple[str, ...] = setting(
        (), "expressions; URLs that one of them matches anywhere are dropped, as the filter known-paths does"
    )
    trap_segments: int = setting(32, "traps: segments of a path at most; 0: any number", minimum=0)
    trap_repeats: int = setting(
        2, "traps: how often the same one to five segments may follow each other; 0: as often as they do", minimum=0
    )
    trap_parameters: int = setting(12, "traps: parameters of a query at most; 0: any number", minimum=0)
    trap_years_ahead: int = setting(
        2, "traps: how far ahead a date may be with which a path ends, or in a query; 0: any date", minimum=0
    )
    trap_calendar: int = setting(
        10_000, "traps: URLs with dates that differ in digits only, of one host; 0: any number", minimum=0
    )
    trap_sessions: int = setting(1, "traps: URLs that differ in their session ids only; 0: any number", minimum=0)
    trap_facets: int = setting(
        200,
        "traps: URLs of one path with the same value of a parameter; what combines three or more such values is"
        " dropped then; 0: any number",
        minimum=0,
    )
    trap_copies: int = setting(
        10, "traps: pages of a host with the same content, the links of which are followed; 0: any number", minimum=0
    )
    hosts_per_domain: int = setting(
        1000, "hosts of one registered domain that a crawl follows links to; 0: no limit", minimum=0
    )
    hosts_per_hour: int = setting(
        10_000, "new hosts that become watched providers within an hour; 0: no limit", minimum=0
    )
    told_wait: float = setting(
        30.0,
        "how long after a URL was told the cache is asked what became of it, and how often then",
        unit="seconds",
        minimum=0.1,
        maximum=86400,
    )
    failures_max: int = setting(5, "failures of a host in succession after which it is parked", minimum=1)
    parked: float = setting(
        3600.0, "how long a host is parked for the first time; each time twice as long", unit="seconds", minimum=1
    )
    parked_max: float = setting(30 * 86400.0, "how long a host is parked at most", unit="seconds", minimum=1)
    lease: float = setting(
        60.0,
        "how long a spider may be silent before others take over its hosts",
        unit="seconds",
        minimum=10,
        maximum=86400,
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
