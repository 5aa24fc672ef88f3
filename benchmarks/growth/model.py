"""What a site needs, from what one page costs.  Formulas only; doc/growth.md explains them with the same names."""

from __future__ import annotations

import math

import attrs

from growth.figures import Assumptions, Costs

DAY = 86400.0
"""Seconds."""


@attrs.frozen
class Rates:
    """What happens in a second of the busiest hour.

    :ivar pages: that have changed: told of, fetched, recorded.
    :ivar unchanged: elements of full sets that tell nothing new.
    :ivar sessions: sets that come in a session of their own; ``kept``: over a connection that stays open.
    :ivar connections: with TLS that robots make.
    :ivar by_url, packed: contents that users take, one by one and in packages.
    """

    pages: float
    unchanged: float
    sessions: float
    kept: float
    connections: float
    by_url: float
    packed: float

    @classmethod
    def of(cls, a: Assumptions) -> Rates:
        """From the assumptions."""
        pages = a.urls * a.changes_per_day / DAY * a.peak
        unchanged = a.urls / a.full_set_days / DAY * a.peak
        sets = pages / a.pages_per_set + unchanged / a.provider_urls
        reads = pages * a.reads_per_page
        return cls(
            pages=pages,
            unchanged=unchanged,
            sessions=sets * (1 - a.kept_part),
            kept=sets * a.kept_part,
            connections=pages * a.https_part / a.pages_per_connection,
            by_url=reads * a.reads_by_url,
            packed=reads * (1 - a.reads_by_url),
        )

    @property
    def elements(self) -> float:
        """Of sets."""
        return self.pages + self.unchanged


@attrs.frozen
class Cores:
    """Of each role, over the whole site, in the busiest hour; busy to the part that is planned for."""

    front: float
    uns: float
    qm: float
    database: float
    botm: float
    central: float
    bot: float
    cu: float

    @classmethod
    def of(cls, r: Rates, a: Assumptions, c: Costs) -> Cores:
        """Events a second x µs of CPU / 1,000,000 are cores."""
        session_uns_us = c.session_uns_us + c.session_tls_us
        reads = r.by_url + r.packed
        # TLS with the provider, and with the UNS.
        front_session_us = c.front_session_us + 2 * c.session_tls_us
        micros = cls(
            front=r.sessions * front_session_us + r.elements * c.front_element_us,
            uns=r.sessions * session_uns_us + r.kept * c.set_uns_us + r.elements * c.uns_us,
            qm=r.sessions * c.session_qm_us
            + r.kept * c.set_qm_us
            + r.pages * c.qm_us
            + r.unchanged * c.qm_unchanged_us,
            database=r.sessions * c.session_database_us
            + r.kept * c.set_database_us
            + r.pages * c.database_us
            + r.unchanged * c.database_unchanged_us
            + reads * c.database_row_us,
            botm=r.pages * c.botm_us + r.by_url * c.botm_by_url_us + r.packed * c.botm_packed_us,
            central=r.pages * c.central_us,
            bot=r.pages * (c.bot_us + c.decode_us) + r.connections * c.tls_us,
            cu=r.by_url * (c.cu_by_url_us + c.cu_row_us) + r.packed * c.cu_packed_us,
        )
        return cls(*(each / 1e6 / a.busy for each in attrs.astuple(micros)))


@attrs.frozen
class Site:
    """Processes and machines.  All sub-LCCs are alike; a machine with content belongs to one of them.

    :ivar sub_lccs: each has a QM and a database, on one machine.
    :ivar content_machines: each with a BOT-M, robots and content.
    :ivar robots, front, uns, cu, central: processes; ``front``: ``lcc-fe-uns``, ``cu``: ``lcc-fe-cu``.
    :ivar front_machines: with these, but not robots and central BOT-Ms.
    """

    sub_lccs: int
    content_machines: int
    robots: int
    front: int
    uns: int
    cu: int
    central: int
    front_machines: int

    @classmethod
    def of(cls, r: Rates, cores: Cores, a: Assumptions, c: Costs) -> Site:
        """A process has one core; what is of one sub-LCC or one machine is rounded up for each."""
        subs = max(
            _up(cores.qm),
            _up((cores.qm + cores.database) / a.cores),
            _up(a.urls * c.row_bytes / (a.database_bytes * a.fill)),
        )
        each = max(
            _up(a.urls * a.page_bytes / subs / (a.disk_bytes * a.fill)),
            _up(cores.botm / subs),
            _up((cores.botm + cores.bot) / subs / a.cores),
        )
        machines = subs * each
        robots = machines * max(
            _up(cores.bot / machines), _up(r.pages * a.fetch_seconds / machines / a.robot_fetches)
        )
        uns = subs * _up(cores.uns / subs)
        return cls(
            sub_lccs=subs,
            content_machines=machines,
            robots=robots,
            front=_up(cores.front),
            uns=uns,
            cu=_up(cores.cu),
            central=subs * _up(cores.central / subs) if each > 1 else 0,
            # Those with little to do share cores.
            front_machines=_up((cores.front + cores.uns + cores.cu) / a.cores),
        )

    @property
    def machines(self) -> int:
        """Of all kinds."""
        return self.sub_lccs + self.content_machines + self.front_machines


def _up(value: float) -> int:
    """At least one."""
    return max(1, math.ceil(value))


@attrs.frozen
class Need:
    """One line: of what part of the site, what, how much, and by which formula."""

    part: str
    what: str
    amount: float
    unit: str
    formula: str

    def cells(self) -> list[str]:
        """For a table."""
        return [self.part, self.what, f"{_rounded(self.amount)} {self.unit}".strip(), f"`{self.formula}`"]


def _rounded(value: float) -> str:
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def needs(a: Assumptions, c: Costs) -> list[Need]:
    """Everything, in the order in which it is reckoned."""
    rates = Rates.of(a)
    cores = Cores.of(rates, a, c)
    site = Site.of(rates, cores, a, c)
    lines = [
        ("busiest hour", _events(rates, a)),
        ("CPU", _cores(cores)),
        ("disk", _disk(a, c)),
        ("site", _machines(site)),
        ("sub-LCC", _sub_lcc(rates, site, a, c)),
        ("content machine", _content_machine(rates, site, a)),
        ("network", _network(rates, a)),
    ]
    return [Need(part, *line) for part, some in lines for line in some]


Line = tuple[str, float, str, str]
"""A need without its part."""


def _events(r: Rates, a: Assumptions) -> list[Line]:
    each = "a second"
    return [
        ("changed pages", r.pages, each, "urls x changes_per_day / 86400 x peak"),
        ("unchanged elements of full sets", r.unchanged, each, "urls / full_set_days / 86400 x peak"),
        (
            "sets, each in a session of its own",
            r.sessions,
            each,
            "(pages / pages_per_set + unchanged / provider_urls) x (1 - kept_part)",
        ),
        ("sets over open connections", r.kept, each, "the same x kept_part"),
        ("fetches at once", r.pages * a.fetch_seconds, "", "pages x fetch_seconds"),
        ("new TLS connections of robots", r.connections, each, "pages x https_part / pages_per_connection"),
        ("contents read", r.by_url + r.packed, each, "pages x reads_per_page"),
    ]


def _cores(cores: Cores) -> list[Line]:
    return [
        (
            "lcc-fe-uns",
            cores.front,
            "cores",
            "sessions x (front_session_us + 2 x session_tls_us) + (pages + unchanged) x front_element_us",
        ),
        (
            "UNSes",
            cores.uns,
            "cores",
            "sessions x (session_uns_us + session_tls_us) + kept x set_uns_us + (pages + unchanged) x uns_us",
        ),
        (
            "QMs",
            cores.qm,
            "cores",
            "sessions x session_qm_us + kept x set_qm_us + pages x qm_us + unchanged x qm_unchanged_us",
        ),
        ("databases", cores.database, "cores", "likewise + contents read x database_row_us"),
        ("BOT-Ms", cores.botm, "cores", "pages x botm_us + by URL x botm_by_url_us + packed x botm_packed_us"),
        ("robots", cores.bot, "cores", "pages x (bot_us + decode_us) + connections x tls_us"),
        ("lcc-fe-cu", cores.cu, "cores", "by URL x (cu_by_url_us + cu_row_us) + packed x cu_packed_us"),
    ]


def _disk(a: Assumptions, c: Costs) -> list[Line]:
    return [
        ("databases", a.urls * c.row_bytes / 1e12, "TB", "urls x row_bytes"),
        ("content", a.urls * a.page_bytes / 1e12, "TB", "urls x page_bytes"),
    ]


def _machines(site: Site) -> list[Line]:
    return [
        (
            "sub-LCCs: machines with a QM and a database",
            site.sub_lccs,
            "",
            "max(QM cores, (QM + database cores) / cores, database TB / (database_bytes x fill))",
        ),
        (
            "machines with content, each with a BOT-M and robots",
            site.content_machines,
            "",
            "for each sub-LCC: max(content TB / (disk_bytes x fill), BOT-M cores, (BOT-M + robot cores) / cores)",
        ),
        (
            "machines for the front end and UNSes",
            site.front_machines,
            "",
            "(lcc-fe-uns + UNS + lcc-fe-cu cores) / cores",
        ),
        ("machines", site.machines, "", "sum of these"),
        (
            "robots",
            site.robots,
            "processes",
            "for each machine with content: max(robot cores, fetches at once / robot_fetches)",
        ),
        ("lcc-fe-uns", site.front, "processes", "lcc-fe-uns cores"),
        ("UNSes", site.uns, "processes", "for each sub-LCC: UNS cores"),
        ("lcc-fe-cu", site.cu, "processes", "lcc-fe-cu cores"),
        ("central BOT-Ms", site.central, "processes", "for each sub-LCC with several machines: pages x central_us"),
    ]


def _sub_lcc(r: Rates, site: Site, a: Assumptions, c: Costs) -> list[Line]:
    pages = r.pages / site.sub_lccs
    each = "a second"
    return [
        ("URLs", a.urls / site.sub_lccs / 1e6, "million", "urls / sub-LCCs"),
        ("changed pages", pages, each, "pages / sub-LCCs"),
        ("rows read", pages * c.row_reads, each, "pages / sub-LCCs x row_reads"),
        ("rows written", pages * c.row_writes, each, "pages / sub-LCCs x row_writes"),
        ("database pages read from disk", pages * c.page_reads, each, "pages / sub-LCCs x page_reads"),
        ("database pages written to disk", pages * c.page_writes, each, "pages / sub-LCCs x page_writes"),
        (
            "syncs for sets, if none is shared",
            (r.sessions * c.session_syncs + r.kept * c.set_syncs) / site.sub_lccs,
            each,
            "(sessions x session_syncs + kept x set_syncs) / sub-LCCs",
        ),
    ]


def _content_machine(r: Rates, site: Site, a: Assumptions) -> list[Line]:
    machines = site.content_machines
    return [
        ("content", a.urls * a.page_bytes / machines / 1e12, "TB", "urls x page_bytes / machines"),
        ("content files", a.urls / machines / 1e6, "million", "urls / machines"),
        ("files made, and as many removed", r.pages / machines, "a second", "pages / machines"),
    ]


def _network(r: Rates, a: Assumptions) -> list[Line]:
    to_users = (r.by_url + r.packed) * a.page_bytes * 8 / 1e9
    return [
        ("from the web", r.pages * a.wire_bytes * 8 / 1e9, "Gbit/s", "pages x wire_bytes x 8"),
        ("notifications", r.elements * a.notice_bytes * 8 / 1e6, "Mbit/s", "(pages + unchanged) x notice_bytes x 8"),
        ("to content users", to_users, "Gbit/s", "contents read x page_bytes x 8"),
    ]
