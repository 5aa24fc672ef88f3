"""Settings of BOT-M and robot."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class BotmConfig:
    """The robot multiplexer."""

    name: str = setting("botm", "name of this BOT-M in logs")
    serves: str = setting(
        "bots",
        "bots: BOT-M of a machine, serves robots; botms: central BOT-M, serves other BOT-Ms",
    )
    listen: str = setting("unix:{home}/botm.sock:mode=600:lockfile=0", "endpoint for robots, or for BOT-Ms")
    connect: str = setting("unix:{home}/qm-botm.sock", "endpoint of the queue manager")
    parent: str = setting("", "endpoint of the central BOT-M to connect to; empty: connect to the queue manager")
    machine: int = setting(1, "id of this machine, unique in the LCC", minimum=1, maximum=2**31 - 1)
    content: str = setting("content", "folder of the content files, relative to home")
    content_reserve: int = setting(
        128 << 20,
        "space kept free on the disk of the content folder; with less, nothing is fetched to this machine",
        unit="bytes",
        minimum=0,
    )
    names_block: int = setting(10_000, "file names reserved at a time", minimum=1, maximum=10_000_000)
    robots_max: int = setting(64, "maximum number of connected robots or BOT-Ms", minimum=1, maximum=10_000)
    robots_per_address: int = setting(
        16, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    orders_max: int = setting(
        20_000, "maximum number of orders and unrecorded results held", minimum=10, maximum=1_000_000
    )
    content_listen: str = setting(
        "unix:{home}/content.sock:mode=600:lockfile=0",
        "endpoint of the content port (HTTP), for lcc-cu, lcc-admin and central BOT-Ms; without tls: anyone who "
        "reaches it can read all content; empty: off",
    )
    content_url: str = setting(
        "",
        "address of the content port for others: https://host:port (if content_listen is tls:), http://host:port, "
        "or unix:PATH; empty: its UNIX socket, for this host only",
    )
    content_connections_max: int = setting(
        200, "maximum number of connections to the content port", minimum=1, maximum=10_000
    )
    content_connections_per_address: int = setting(
        40, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    content_idle_timeout: float = setting(
        60.0, "close content port connections that are idle for this long", unit="seconds", minimum=1
    )
    sync_interval: float = setting(
        30.0,
        "interval between syncs of content files to disk; after a crash of the machine, younger files are verified",
        unit="seconds",
        minimum=1,
        maximum=86400,
    )
    verify_bytes: int = setting(
        50_000_000, "maximum read rate of that verification", unit="bytes per second", minimum=10_000
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class BotConfig:
    """The robot."""

    name: str = setting("bot", "name of this robot in logs")
    connect: str = setting("unix:{home}/botm.sock", "endpoint of the BOT-M")
    listen: str = setting(
        "tcp:9190:interface=127.0.0.1",
        "endpoint of the interactive robot (lcc-bot --listen); anyone who reaches it can have URLs fetched, "
        "without a password",
    )
    listen_files: str = setting("fetched", "folder for files named to the interactive robot, relative to home")
    concurrency: int = setting(32, "concurrent fetches", minimum=1, maximum=4096)
    content: str = setting("content", "folder of the content files (that of the BOT-M), relative to home")
    user_agent: str = setting("LCC/0.1", "User-Agent; contact is appended")
    contact: str = setting("", "mail address or URL for webmasters, sent in User-Agent and From")
    connect_timeout: float = setting(10.0, "timeout for connecting", unit="seconds", minimum=0.1, maximum=300)
    idle_timeout: float = setting(30.0, "timeout for a server that sends nothing", unit="seconds", minimum=0.1)
    deadline: float = setting(120.0, "timeout for a whole fetch, redirects included", unit="seconds", minimum=0.1)
    header_bytes_max: int = setting(
        65536, "maximum size of response header, trailers and chunk framing", unit="bytes", minimum=1024
    )
    body_bytes_max: int = setting(
        64 << 20, "maximum size of a URL's content, both as transferred and decoded", unit="bytes", minimum=1
    )
    compression: bool = setting(True, "request compressed content; it is stored decoded")
    decoded_ratio_max: int = setting(
        200,
        "maximum size of decoded content beyond the first MiB, as a multiple of the bytes transferred",
        minimum=2,
        maximum=100_000,
    )
    headers_kept_bytes: int = setting(
        8192, "maximum size of a stored response header", unit="bytes", minimum=0, maximum=32768
    )
    redirects_max: int = setting(5, "maximum number of redirects of a fetch", minimum=0, maximum=20)
    keepalive: float = setting(15.0, "how long idle connections to sites are kept open", unit="seconds", minimum=0)
    dns_cache: float = setting(60.0, "how long resolved addresses are cached", unit="seconds", minimum=0)
    extra_roots: str = setting("", "PEM file with additional CAs to trust, relative to home")
    fetchers: tuple[str, ...] = setting(
        (), "names of the fetchers to use; of several for a scheme the first is used; empty: all that are installed"
    )
    file_folders: tuple[str, ...] = setting(
        (), "folders below which file: URLs may be fetched, relative to home; empty: none"
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
