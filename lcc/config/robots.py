"""Settings of the robots and of what hands them their work."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class BotmConfig:
    """The robot multiplexer."""

    name: str = setting("botm", "names this BOT-M in logs")
    serves: str = setting(
        "bots",
        "bots: the BOT-M of a machine, which robots connect to; botms: a central one, which other BOT-Ms connect to",
    )
    listen: str = setting("unix:{home}/botm.sock:mode=600:lockfile=0", "endpoint for robots, or for BOT-Ms")
    connect: str = setting("unix:{home}/qm-botm.sock", "endpoint of the queue manager")
    parent: str = setting(
        "", "endpoint of the central BOT-M above this one; empty: this one serves the queue manager"
    )
    machine: int = setting(1, "the id of this machine; unique in the LCC", minimum=1, maximum=2**31 - 1)
    content: str = setting("content", "folder of the content files, relative to home")
    content_reserve: int = setting(
        128 << 20,
        "of the disk with that folder are kept free: below it nothing is fetched to this machine until there is room",
        unit="bytes",
        minimum=0,
    )
    names_block: int = setting(10_000, "file names reserved at once", minimum=1, maximum=10_000_000)
    robots_max: int = setting(64, "robots, or BOT-Ms, connected at once", minimum=1, maximum=10_000)
    robots_per_address: int = setting(
        16, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    orders_max: int = setting(
        10_000, "orders and results that are not yet recorded, held at once", minimum=10, maximum=1_000_000
    )
    content_listen: str = setting(
        "unix:{home}/content.sock:mode=600:lockfile=0",
        "endpoint of the content port (HTTP), for lcc-cu, lcc-admin and central BOT-Ms; whoever else reaches it "
        "where it is not tls:… can read all content, too; empty: none",
    )
    content_url: str = setting(
        "",
        "where others reach that port: https://host:port (where content_listen is tls:…), http://host:port, or "
        "unix:PATH; empty: its UNIX socket, for this host only",
    )
    content_connections_max: int = setting(200, "connections to the content port at once", minimum=1, maximum=10_000)
    content_connections_per_address: int = setting(
        40, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    content_idle_timeout: float = setting(
        60.0, "a connection to the content port on which nothing moves for this long", unit="seconds", minimum=1
    )
    sync_interval: float = setting(
        30.0,
        "content files are synced to the disk so often; what is younger is verified after the machine has crashed",
        unit="seconds",
        minimum=1,
        maximum=86400,
    )
    verify_bytes: int = setting(
        50_000_000, "read for that verification, at most", unit="bytes per second", minimum=10_000
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class BotConfig:
    """The robot."""

    name: str = setting("bot", "names this robot in logs")
    connect: str = setting("unix:{home}/botm.sock", "endpoint of the BOT-M")
    listen: str = setting(
        "tcp:9190:interface=127.0.0.1",
        "endpoint of the listening robot (lcc-bot --listen); whoever reaches it has URLs fetched, without a password",
    )
    listen_files: str = setting(
        "fetched", "folder for the files that are named to the listening robot, relative to home"
    )
    concurrency: int = setting(32, "fetches at once", minimum=1, maximum=4096)
    content: str = setting("content", "folder of the content files (the BOT-M's), relative to home")
    user_agent: str = setting("LCC/0.1", "the User-Agent; contact is added to it")
    contact: str = setting("", "mail address or URL where web masters reach you; stands in User-Agent and From")
    connect_timeout: float = setting(10.0, "for a connection", unit="seconds", minimum=0.1, maximum=300)
    idle_timeout: float = setting(30.0, "a server that sends nothing for this long", unit="seconds", minimum=0.1)
    deadline: float = setting(120.0, "for a whole fetch, redirects included", unit="seconds", minimum=0.1)
    header_bytes_max: int = setting(65536, "response header, trailers and chunk framing", unit="bytes", minimum=1024)
    body_bytes_max: int = setting(64 << 20, "content of one URL, as it travels and decoded", unit="bytes", minimum=1)
    compression: bool = setting(True, "ask for compressed content; it is stored decoded")
    decoded_ratio_max: int = setting(
        200, "decoded content beyond the first MiB, as a multiple of what travelled", minimum=2, maximum=100_000
    )
    headers_kept_bytes: int = setting(
        8192, "of the response header that are stored", unit="bytes", minimum=0, maximum=32768
    )
    redirects_max: int = setting(5, "redirects of one fetch", minimum=0, maximum=20)
    keepalive: float = setting(15.0, "an idle connection to a site is kept this long", unit="seconds", minimum=0)
    dns_cache: float = setting(
        60.0, "an address is used again without asking for this long", unit="seconds", minimum=0
    )
    extra_roots: str = setting("", "a PEM file with further certificate authorities to trust, relative to home")
    fetchers: tuple[str, ...] = setting(
        (), "the fetchers to use, by their names, where two fetch a scheme the first of them; empty: all there are"
    )
    file_folders: tuple[str, ...] = setting(
        (), "folders from which file: URLs may be fetched, with what is below them; relative to home; empty: none"
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
