"""What is killed while providers move: sub-LCCs of real processes, their front end, the nodes of its database."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import attrs

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import UNFINISHED, Move, MoveState
from lcc.model.frontend.places import AtHome
from lcc.model.frontend.places import SubLcc as SubLccRow
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.database.transactions import Txn
from lcc.storage.disk.content_folder import ROBOTS
from lcc.storage.fe.moves import CannotMove, cancel_move, list_moves, moves_in, order_move
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import list_sublccs
from lcc.storage.queue.moves.fences import applied_upto, held_pieces
from lcc.testing.galera import PrivateGalera
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.processes.front_end import FrontEnd, SubLcc
from tests.support.processes.starting import Start
from tests.support.processes.system import BIN
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .cluster import SETTINGS, Kind, Registered, register
from .evidence import WAITING, Evidence, gather

NAMES = ("one", "two", "three")
ROLES = ("uns", "qm", "botm", "bot")
FRONT, FRONT_ROLES = "fe", ("fe-uns", "fe-rs", "fe-cu")
NODE = "node"
MACHINES = 10_000
"""Ids of machines that each sub-LCC has."""
RS_SETTINGS = (
    "asks_max = 1000000\nchecks_max = 1000000\nproviders_per_host = 1000000\nfull_sets = 100000\n"
    "database_timeout = 8.0\n"
)
"""All newcomers have one address and one host."""
FRONT_SETTINGS = "[tls]\ninsecure = true\n[database]\nretries = 3\nconnect_timeout = 2.0\nquery_timeout = 8.0\n"
FLIPPED = (MoveState.FLIPPED, MoveState.ACTIVE, MoveState.DONE)
STAGED = {
    "staged rows": "SELECT COUNT(*) FROM staged",
    "staged rows of caches": "SELECT COUNT(*) FROM stagedcache",
    "staged rows of queues": "SELECT COUNT(*) FROM stagedqueue",
    "providers to be removed": "SELECT COUNT(*) FROM pidb WHERE removed <> 0",
}


class Sub(SubLcc):
    """One of them, with its database."""

    def __init__(self, folder: Path, name: str, front_url: str, machine: int) -> None:
        settings = {table: text for table, text in SETTINGS.items() if table != "qm"}
        extra = f"[qm]\ndelete_grace = 1\n{SETTINGS['qm']}"
        super().__init__(folder, name, None, front_url, machine, extra, settings)
        settings_of_ours = DatabaseConfig(query_timeout=30.0)
        self.own = BlockingDatabase(self.database, self.folder / "home", settings_of_ours, random=Random(1))

    def content(self, _machine: int) -> Path:
        """The content folder of its machine."""
        return self.folder / "home" / "content"

    def content_files(self) -> list[Path]:
        """Every file of a page, attempts included."""
        files = [path for path in self.content(0).glob("*/**/*") if path.is_file()]
        return [path for path in files if path.parent.name != ROBOTS]

    def spooled(self) -> list[Path]:
        """Sets that its UNS has accepted and not passed on."""
        return list((self.folder / "home" / "spool").glob("*.set"))

    def fsck(self, *options: str) -> dict[str, int]:
        """``lcc-admin fsck``; gives how many faults of each kind it found."""
        result = subprocess.run(
            [BIN / "lcc-admin", "--config", str(self.config), "fsck", "--json", *options],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert lines, f"{result.stdout[-2000:]}{result.stderr}"
        return {kind: count for kind, count in lines[-1]["summary"]["found"].items() if count}

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of its database."""
        return self.own.interact(lambda txn: txn.query(sql, list(parameters)))


@attrs.frozen
class Found:
    """What all sub-LCCs show at rest.

    :ivar homes: provider -> names of the sub-LCCs that have any of it.
    :ivar placed: provider -> name of the sub-LCC where the front end has it.
    :ivar roots: provider -> its roots, wherever it is.
    :ivar begun: provider -> name of the sub-LCC where it was before it moved, if it has.
    :ivar making: providers that the front end has not made yet.
    :ivar flips: provider -> how often it has moved.
    """

    evidence: dict[str, Evidence]
    homes: dict[int, set[str]]
    placed: dict[int, str]
    roots: dict[int, set[str]] = attrs.field(factory=dict)
    begun: dict[int, str] = attrs.field(factory=dict)
    making: set[int] = attrs.field(factory=set)
    flips: Counter[int] = attrs.field(factory=Counter)

    def whole(self) -> Evidence:
        """As that of one LCC, but for what each counts by itself."""
        each = self.evidence.values()
        return Evidence(
            [row for one in each for row in one.rows],
            [kept for one in each for kept in one.kept],
            {pid: stats for one in each for pid, stats in one.stats.items()},
            0,
            {what: number for one in each for what, number in one.left.items()},
        )


class SubLccs:
    """All of it; to :class:`faults.Faults` as a :class:`cluster.Cluster`.

    :param server: has the front end's database; None: SQLite.
    :param whole: each sub-LCC is one process.
    :param how: processes are started.
    :ivar configs: names of all processes, such as ``two.qm``; ``databases``: those of the database's nodes.
    :ivar still: processes that stand still.
    :ivar meanwhile: called again and again while a database is waited for: whoever was killed is started.
    """

    def __init__(
        self, folder: Path, server: PrivateMariaDb | PrivateGalera | None, subs: int = 3, *, whole: bool, how: Start
    ) -> None:
        self.folder = folder
        if isinstance(server, PrivateGalera):
            self.databases: dict[str, PrivateMariaDb] = {node.name: node for node in server.nodes}
        else:
            self.databases = {} if server is None else {f"{NODE}1": server}
        url = server.new_database() if server is not None else f"sqlite:{folder}/fe.sqlite"
        self.front = FrontEnd(folder / "front", url, FRONT_SETTINGS, RS_SETTINGS)
        self.subs = {name: Sub(folder, name, url, number * MACHINES + 1) for number, name in enumerate(NAMES[:subs])}
        roles = ("all",) if whole else ROLES
        self.configs = [f"{name}.{role}" for name in self.subs for role in roles]
        self.configs += [f"{FRONT}.{role}" for role in FRONT_ROLES]
        for place in (self.front, *self.subs.values()):
            place.how = how
        self.still: set[str] = set()
        self.meanwhile: Callable[[], object] = lambda: None
        self._fe = BlockingDatabase(
            url,
            folder,
            DatabaseConfig(retries=1, connect_timeout=2.0, query_timeout=8.0),
            random=Random(1),
            series=FE,
        )

    def join(self) -> None:
        """Make them sub-LCCs of the front end, with their ports of notifiers."""
        for name, sub in self.subs.items():
            sub.join(self.front)
            self.front.admin("fe", "set", name, "--notifiers", f"unix:{sub.folder}/home/notify-{{role}}.sock")

    def register(self, numbers: range, port: int, special: tuple[Kind, ...]) -> list[Registered]:
        """Register providers, at all sub-LCCs."""
        subs = list(self.subs.values())
        return [register(subs[index % len(subs)].own, index, port, special) for index in numbers]

    # Processes.

    def _place(self, name: str) -> tuple[FrontEnd | Sub, str]:
        where, _, process = name.partition(".")
        return self.front if where == FRONT else self.subs[where], process

    def start(self, *names: str) -> None:
        """Start processes."""
        for name in names:
            if name in self.databases:
                self.databases[name].launch()
            else:
                place, process = self._place(name)
                place.start(process)

    def kill(self, name: str) -> None:
        """``kill -9``."""
        if name in self.databases:
            self.databases[name].kill()
        else:
            place, process = self._place(name)
            place.kill(process)

    def stand_still(self, name: str) -> None:
        """Let a process do nothing for a while."""
        self._signal(name, signal.SIGSTOP)
        self.still.add(name)

    def go_on(self, name: str) -> None:
        """It goes on."""
        self._signal(name, signal.SIGCONT)
        self.still.discard(name)

    def _signal(self, name: str, number: signal.Signals) -> None:
        place, process = self._place(name)
        place.processes[process].send_signal(number)

    def role(self, name: str) -> str:
        """Of a process."""
        return NODE if name in self.databases else name.partition(".")[2]

    def is_up(self, name: str) -> bool:
        """Whether this process has been started and has not ended."""
        if name in self.databases:
            node = self.databases[name].process
            return node is not None and node.poll() is None
        place, process = self._place(name)
        return process in place.processes and place.processes[process].poll() is None

    def log(self, name: str) -> str:
        """What a process has logged."""
        place, process = self._place(name)
        return place.log(process)

    def stop_in_order(self) -> Iterator[str]:
        """SIGTERM to all; gives those that did not go as they should."""
        # Content users first: their connections are to the others.
        for name in reversed(self.configs):
            place, process = self._place(name)
            if process in place.processes:
                try:
                    place.stop(process)
                except Exception as error:
                    yield f"{name} does not end in order: {error!r}"

    def close(self) -> None:
        """End everything."""
        for name in list(self.still):
            self.go_on(name)
        for place in (self.front, *self.subs.values()):
            place.stop_all()
        for sub in self.subs.values():
            sub.own.close()
        self._fe.close()

    # Moves.

    def _interact(self, what: Any, *args: Any) -> Any:
        """Ask the front end's database until it answers."""

        def asked() -> Any:
            self.meanwhile()
            with suppress(StoreUnavailable):
                return [self._fe.interact(what, *args)]
            return None

        return wait_for("the front end's database answers", asked, 300.0)[0]

    def moves(self) -> list[Move]:
        """All that ever were."""
        found: list[Move] = []
        while page := self._interact(list_moves, found[-1].id if found else 0):
            found += page
        return found

    def moves_under_way(self) -> list[Move]:
        """Moves that are not over."""
        return list(self._interact(moves_in, UNFINISHED))

    def state(self, number: int) -> MoveState | None:
        """How far a move is, as fast as can be; None: the database is away."""
        try:
            row = self._fe.interact(lambda txn: txn.value("SELECT state FROM moves WHERE id = ?", [number]))
        except StoreUnavailable:
            return None
        return MoveState(row)

    def order(self, pid: int, dest: str, now: int) -> Move | None:
        """Order a move; None: it cannot be, or nobody knows."""
        try:
            subs = {sub.name: sub for sub in self._fe.interact(list_sublccs)}
            move: Move = self._fe.write(order_move, pid, subs[dest], None, now)
        except (StoreUnavailable, CannotMove):
            return None
        return move

    def cancel(self, pid: int, now: int) -> None:
        """Cancel a move, if it can be."""
        with suppress(StoreUnavailable, CannotMove):
            self._fe.write(cancel_move, pid, "the test has cancelled it", now)

    def home(self, pid: int) -> str:
        """Where the front end has a provider."""

        def where(txn: Txn) -> str:
            subs = list_sublccs(txn)
            (row,) = placements(txn, [pid])
            if row is not None and row.state not in (AtHome.HERE, AtHome.MAKING):
                return f"{row.state.value} in {row.subid}"
            return next(sub.name for sub in subs if (row.subid == sub.subid if row else pid in _pids(sub)))

        return str(self._interact(where))

    def name_of(self, subid: int) -> str:
        """Of a sub-LCC."""
        return NAMES[subid - 1]

    def range_of(self, pid: int) -> str:
        """The sub-LCC that has this id to give."""
        subs: list[SubLccRow] = self._interact(list_sublccs)
        return next(sub.name for sub in subs if pid in _pids(sub))

    # Rest.

    def waiting(self) -> dict[str, int]:
        """What is still to be done; empty: nothing."""
        found = {"moves": len(self.moves_under_way())}
        for name, sub in self.subs.items():
            for what, sql in (WAITING | STAGED).items():
                found[f"{what} at {name}"] = sub.query(sql)[0][0]
            found[f"spooled sets at {name}"] = len(sub.spooled())
            found[f"held sets at {name}"] = self._held(sub)
        return {what: number for what, number in found.items() if number}

    def _held(self, sub: Sub) -> int:
        """Sets that are held here, and that no other has taken: to apply them, or to hold them for the next one."""
        left = 0
        subid = NAMES.index(sub.name) + 1
        for (pid,) in sub.query("SELECT DISTINCT pid FROM heldsets"):
            epoch, _ = sub.own.interact(held_pieces, pid)
            uns = f"held/{subid}/{pid}"
            upto = max(each.own.interact(applied_upto, uns, epoch) for each in self.subs.values())
            left += sub.query("SELECT COUNT(*) FROM heldsets WHERE pid = ? AND (whole = 0 OR whole > ?)", pid, upto)[
                0
            ][0]
        return left

    def found(self, providers: list[Registered]) -> Found:
        """What they show at rest."""
        evidence, homes = {}, {each.pid: set[str]() for each in providers}
        moves = self.moves()
        carriers = {move.number("carrier") for move in moves}
        for name, sub in self.subs.items():
            one = gather(sub, sub.own)
            here = {pid for (pid,) in sub.query("SELECT pid FROM pidb")}
            # Whoever was here may have left a row, by which a UNS finds the fence.
            evidence[name] = attrs.evolve(one, stats={pid: one.stats[pid] for pid in here & one.stats.keys()})
            for table in ("lccurl", "qdb", "qpsdb", "urlerrs"):
                here |= {pid for (pid,) in sub.query(f"SELECT DISTINCT pid FROM {table}")}
            # Of content that a carrier has brought in vain a tombstone stays, which no content user sees.
            here -= {pid for pid in here & carriers if not sub.query("SELECT 1 FROM pidb WHERE pid = ?", pid)}
            for pid in here:
                homes.setdefault(pid, set()).add(name)
        making = {
            pid for (pid,) in self._interact(lambda txn: txn.query("SELECT pid FROM pmdb WHERE state = 'making'"))
        }
        return Found(
            evidence,
            homes,
            {each.pid: self.home(each.pid) for each in providers},
            self.roots(),
            {move.pid: self.name_of(move.source) for move in reversed(moves)},
            making,
            Counter(move.pid for move in moves if move.state in FLIPPED),
        )

    def roots(self) -> dict[int, set[str]]:
        """Provider -> its roots, wherever it is."""
        found: dict[int, set[str]] = {}
        for sub in self.subs.values():
            for pid, root in sub.query("SELECT pid, root FROM proots"):
                found.setdefault(pid, set()).add(root)
        return found


def _pids(sub: SubLccRow) -> range:
    return range(sub.first_pid, sub.last_pid + 1)
