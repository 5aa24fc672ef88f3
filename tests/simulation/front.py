"""A front end over several LCCs in a simulated world, and an operator who moves providers between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from lcc.config import Config
from lcc.model.frontend.moves import UNFINISHED, Move, MoveState
from lcc.model.frontend.places import SubLcc, SubState
from lcc.services import fe_cu, fe_rs, fe_uns
from lcc.storage.database.migrations import CONNECTIONS, FE
from lcc.storage.fe.moves import CannotMove, cancel_move, list_moves, order_move
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import add_sublcc, get_sublcc
from lcc.storage.providers.pid_range import limit_pids
from lcc.storage.queue.machine_range import limit_machines
from lcc.testing.simulated.process import Process

from . import newcomers
from .one_lcc import Hosts, Lcc, proof_fetchers, url_of
from .sites import Site
from .world import World, configured, make

HOSTS = Hosts("10.0.9")
"""Proxies are where an LCC has its UNSes."""
DATABASE_URL = url_of(HOSTS.database, "fe.db")
PIDS_EACH, MACHINES_EACH = 100, 10
CONNECTIONS_EACH = 1_000_000
"""Sub-LCCs count the connections of a provider from different numbers on, so that none stands for two."""
QUIET_SHARE = 0.25
"""Of the worlds, those where providers move, and nothing goes wrong."""

CONFIGURATION = """
home = "/home/{name}"
timezone = "UTC"
[tls]
insecure = true
public_certificate = "/tls/public.pem"
public_key = "/tls/public.key"
[database]
retries = 4
[fe]
database = "{database}"
[fe_uns]
listen = "{wire}:9000"
listen_notifiers = "{notifiers}"
idle_timeout = 25
login_timeout = 10
database_timeout = 5
hold = {hold}
[cu]
listen = "tcp:8080"
listen_xml = ""
without_token = "content"
wait_max = 20
idle_timeout = 40
"""
SUB_CONFIGURATION = f"""
[fe]
database = "{DATABASE_URL}"
name = "{{sub}}"
report_interval = 5
"""


class FrontEnd:
    """Proxies and a content user server over sub-LCCs.

    :ivar lccs: by the numbers of the sub-LCCs.
    :ivar has_troubles: something goes wrong in this world, as far as the seed decides it.
    :ivar is_quiet: nothing does.
    """

    def __init__(self, world: World, lccs: Sequence[Lcc]) -> None:
        self.world = world
        self.database = world.add_database(HOSTS.database, "front database")
        self.lccs = {lcc.number: lcc for lcc in lccs}
        self.chance = world.timeline.random("front end")
        self.has_troubles = self.chance.random() >= QUIET_SHARE
        self.is_quiet = False
        self._hold = self.chance.choice((2, 10))
        self.roles: list[str] = []
        self.watchers: list[Callable[[list[Move]], bool]] = []
        """Called with all moves after each transaction; one that gives False is not called again."""
        self.database.committed = lambda _: self._committed()
        for lcc in lccs:
            self._add_sublcc(lcc)
        for number, address in enumerate(HOSTS.unses, 1):
            self._add_role(f"fe-uns{number}", address, fe_uns)
        self._add_role("fe-cu", HOSTS.cu, fe_cu)

    def _add_sublcc(self, lcc: Lcc) -> None:
        """As ``lcc-admin fe add`` does it."""
        first, machine = PIDS_EACH * (lcc.number - 1) + 1, MACHINES_EACH * lcc.number
        sub = SubLcc(
            subid=0,
            name=lcc.name,
            state=SubState.OPEN,
            uns=tuple(f"{lcc.settings.wire}:{address}:9000" for address in lcc.hosts.unses),
            proxy_protocol=True,
            notifiers=f"{lcc.settings.wire}:{lcc.hosts.unses[0]}:9005" if lcc.settings.listens else "",
            content=f"http://{lcc.hosts.central}:9004",
            database=lcc.url,
            first_pid=first,
            last_pid=first + PIDS_EACH - 1,
            first_machine=machine,
            last_machine=machine + MACHINES_EACH - 1,
        )
        added = self.now(add_sublcc, sub)
        assert added.subid == lcc.number
        lcc.database.now(limit_pids, sub.first_pid, sub.last_pid)
        lcc.database.now(limit_machines, sub.first_machine, sub.last_machine)

    def _config(self, name: str, more: str = "") -> Config:
        settings = self.lccs[1].settings
        return configured(
            CONFIGURATION + more,
            name=name,
            database=DATABASE_URL,
            hold=self._hold,
            wire=settings.wire,
            notifiers=f"{settings.wire}:9005" if settings.listens else "",
        )

    def _add_role(self, name: str, address: str, module: ModuleType) -> None:
        config = self._config(name)

        def build(process: Process) -> Any:
            return make(module, config, process.environment)

        self.world.add_process(name, address, build)
        self.roles.append(name)

    def add_registrations(self) -> None:
        """Its registration server."""
        config = self._config("fe-rs", newcomers.CONFIGURATION)
        self.world.add_process(
            "fe-rs", HOSTS.rs, lambda process: make(fe_rs, config, process.environment), proof_fetchers
        )
        self.roles.append("fe-rs")

    def count_connections_apart(self, site: Site) -> None:
        """So that a connection's number says at which sub-LCC it is."""
        for lcc in self.lccs.values():
            lcc.database.connection(CONNECTIONS).execute(
                "INSERT INTO connections (pid, lastconnseq, lastconnip, lastconntime, sessions)"
                " VALUES (?, 0, '', 0, ?)",
                [site.pid, CONNECTIONS_EACH * lcc.number],
            )

    # What its tables say.

    def now(self, function: Any, *args: Any) -> Any:
        """Run an interaction with its tables."""
        return self.database.now(function, *args, series=FE)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """From its tables as they are now."""
        return self.database.connection(FE).execute(sql).fetchall()

    def home(self, pid: int) -> Lcc:
        """Where a provider is."""
        (place,) = self.now(placements, [pid])
        return self.lccs[place.subid if place is not None else (pid - 1) // PIDS_EACH + 1]

    def is_content(self, url: str) -> bool:
        """It is of a sub-LCC's content port."""
        return any(url.startswith(f"http://{lcc.hosts.central}:") for lcc in self.lccs.values())

    @property
    def moves(self) -> list[Move]:
        """All that ever were."""
        found: list[Move] = self.now(list_moves)
        return found

    def _committed(self) -> None:
        moves = self.moves
        self.watchers = [watcher for watcher in self.watchers if watcher(moves)]

    @property
    def unfinished(self) -> list[Move]:
        """Those that are under way, or have not been cleaned up."""
        return [
            move
            for move in self.moves
            if move.state in UNFINISHED or (move.state is MoveState.CANCELLED and not move.progress.get("cleaned"))
        ]


class MoveOperator:
    """Orders that providers be moved: one, or a share of a sub-LCC; and cancels some of it.

    :ivar ordered: so many moves.
    """

    def __init__(self, front: FrontEnd, sites: Sequence[Site]) -> None:
        self._front = front
        self._all_sites = sites
        self._timeline = front.world.timeline
        self._chance = self._timeline.random("operator of moves")
        self._mean_seconds = self._chance.choice((2.0, 5.0, 12.0))
        self.ordered = self.cancelled = 0
        self.working = True

    @property
    def _sites(self) -> list[Site]:
        """Those that have providers."""
        return [site for site in self._all_sites if site.pid]

    def begin(self) -> None:
        """He is there."""
        self._timeline.call_later(self._chance.expovariate(1 / self._mean_seconds), None, self._operate)

    def _operate(self) -> None:
        if not self.working:
            return
        luck = self._chance.random()
        if luck < 0.65:
            self._move(self._chance.choice(self._sites))
        elif luck < 0.8:
            source = self._chance.choice(list(self._front.lccs.values()))
            there = [site for site in self._sites if self._front.home(site.pid) is source]
            dest = self._chance.choice([number for number in self._front.lccs if number != source.number])
            for site in self._chance.sample(there, (len(there) + 1) // 2):
                self._move(site, dest)
        else:
            self._cancel(self._chance.choice(self._sites))
        self.begin()

    def _move(self, site: Site, dest: int | None = None) -> None:
        front = self._front
        if dest is None:
            dest = self._chance.choice([number for number in front.lccs if number != front.home(site.pid).number])
        now = int(self._timeline.now)
        bandwidth = self._chance.choice((None, None, 100_000))
        try:
            front.now(_order, site.pid, front.lccs[dest].name, bandwidth, now)
            self.ordered += 1
        except CannotMove:
            pass

    def _cancel(self, site: Site) -> None:
        try:
            self._front.now(cancel_move, site.pid, "the operator said so", int(self._timeline.now))
            self.cancelled += 1
        except CannotMove:
            pass


def _order(txn: Any, pid: int, dest: str, bandwidth: int | None, now: int) -> Move:
    return order_move(txn, pid, get_sublcc(txn, dest), bandwidth, now)
