"""What a site needs, from what one page costs.  Formulas only; doc/growth.md explains them with the same names."""

from __future__ import annotations

import math

import attrs

from growth.world import changes_per_day

DAY = 86400.0


@attrs.frozen
class Assumptions:
    """Of the web that is cached, and of the machines; a reader has other ones.

    :ivar urls: pages in the cache.
    :ivar changes_per_day: of a page, on average; each is told once and fetched once.
    :ivar full_set_days: each provider names all its pages once in so many days; most of them are unchanged then.
    :ivar page_bytes: of a content, as it is kept.
    :ivar wire_bytes: of a fetch, as it travels from the web server.
    :ivar notice_bytes: of an element of a set, as it travels.
    :ivar reads_per_page: how often a content user takes each version of a page.
    :ivar peak: the busiest hour, as a multiple of the mean.
    :ivar busy: of a core, that is planned for at the peak.
    :ivar cores: of a machine.
    :ivar disk_bytes: of a machine with content.
    :ivar database_bytes: that one database server is to hold.
    :ivar fetch_seconds: of a fetch over the internet, on average.
    :ivar robot_fetches: at once, in one robot.
    """

    urls: float = 10e9
    changes_per_day: float = changes_per_day()
    full_set_days: float = 90.0
    page_bytes: float = 30e3
    wire_bytes: float = 12e3
    notice_bytes: float = 120.0
    reads_per_page: float = 1.0
    peak: float = 2.0
    busy: float = 0.5
    cores: int = 16
    disk_bytes: float = 60e12
    database_bytes: float = 1e12
    fetch_seconds: float = 0.5
    robot_fetches: int = 200


@attrs.frozen
class Costs:
    """What was measured, on the machine of doc/performance.md.

    :ivar uns_us: CPU of the UNS for an element.
    :ivar qm_unchanged_us: CPU of the QM for an element that tells nothing new.
    :ivar database_unchanged_us: of the database, for the same.
    :ivar qm_us: CPU of the QM for a page, from the notification to the record; ``database_us``: of the database.
    :ivar botm_us, bot_us: CPU of the BOT-M and of the robot for a page.
    :ivar row_bytes: of the database for a cached page, with its indexes.
    """

    uns_us: float = 15.0
    qm_unchanged_us: float = 20.0
    database_unchanged_us: float = 10.0
    qm_us: float = 200.0
    database_us: float = 250.0
    botm_us: float = 75.0
    bot_us: float = 230.0
    row_bytes: float = 900.0


@attrs.frozen
class Need:
    """One line: what, how much, and by which formula."""

    what: str
    amount: float
    unit: str
    formula: str

    def cells(self) -> list[str]:
        """For a table."""
        return [self.what, f"{_rounded(self.amount)} {self.unit}".strip(), f"`{self.formula}`"]


def _rounded(value: float) -> str:
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def needs(a: Assumptions, c: Costs) -> list[Need]:
    """Everything, in the order in which it is reckoned."""
    changes = a.urls * a.changes_per_day / DAY
    unchanged = a.urls / a.full_set_days / DAY
    pages = changes * a.peak
    elements = (changes + unchanged) * a.peak
    uns = elements * c.uns_us / 1e6 / a.busy
    qm = (pages * c.qm_us + unchanged * a.peak * c.qm_unchanged_us) / 1e6
    database = (pages * c.database_us + unchanged * a.peak * c.database_unchanged_us) / 1e6
    botm = pages * c.botm_us / 1e6 / a.busy
    bot = pages * c.bot_us / 1e6 / a.busy
    rows = a.urls * c.row_bytes
    content = a.urls * a.page_bytes
    lccs = max(math.ceil(qm / a.busy), math.ceil(rows / a.database_bytes))
    machines = max(math.ceil(content / a.disk_bytes), math.ceil((botm + bot) / a.cores))
    flights = pages * a.fetch_seconds
    robots = max(math.ceil(bot), math.ceil(flights / a.robot_fetches))
    return [
        Need("changed pages, mean", changes, "a second", "urls x changes_per_day / 86400"),
        Need("changed pages, busiest hour", pages, "a second", "mean x peak"),
        Need("elements of sets, busiest hour", elements, "a second", "(mean + urls / full_set_days / 86400) x peak"),
        Need("UNS", uns, "cores", "elements x uns_us / busy"),
        Need("QM, all together", qm / a.busy, "cores", "(pages x qm_us + unchanged x qm_unchanged_us) / busy"),
        Need("database, all together", database / a.busy, "cores", "(pages x database_us + unchanged x …) / busy"),
        Need("database on disk, all together", rows / 1e12, "TB", "urls x row_bytes"),
        Need("LCCs, each with a QM and a database", lccs, "", "max(QM cores, database bytes / database_bytes)"),
        Need("pages of one LCC, busiest hour", pages / lccs, "a second", "pages / LCCs"),
        Need("URLs of one LCC", a.urls / lccs / 1e6, "million", "urls / LCCs"),
        Need("BOT-M", botm, "cores", "pages x botm_us / busy"),
        Need("robots", bot, "cores", "pages x bot_us / busy"),
        Need("fetches at once", flights, "", "pages x fetch_seconds"),
        Need("robots, processes", robots, "", "max(robots' cores, fetches at once / robot_fetches)"),
        Need("content on disk", content / 1e12, "TB", "urls x page_bytes"),
        Need(
            "machines with BOT-M, robots and content",
            machines,
            "",
            "max(content / disk_bytes, (BOT-M + robots) / cores)",
        ),
        Need("content files of a machine", a.urls / machines / 1e6, "million", "urls / machines"),
        Need("files made (and removed) by a machine", pages / machines, "a second", "pages / machines"),
        Need("network, from the web", pages * a.wire_bytes * 8 / 1e9, "Gbit/s", "pages x wire_bytes x 8"),
        Need("network, notifications", elements * a.notice_bytes * 8 / 1e6, "Mbit/s", "elements x notice_bytes x 8"),
        Need(
            "network, to content users",
            pages * a.reads_per_page * a.page_bytes * 8 / 1e9,
            "Gbit/s",
            "pages x reads_per_page x page_bytes x 8",
        ),
    ]
