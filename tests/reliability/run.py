"""One run of the kill test: a cluster, its world, faults; then it is left alone until it is at rest, and judged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs

from lcc.errors import StoreUnavailable
from lcc.storage.disk.content_paths import content_path
from lcc.testing.galera import PORTS, PrivateGalera
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.ports import free_port
from tests.support.processes.followers import Follower
from tests.support.processes.links import Links
from tests.support.processes.namespace import NoNetwork
from tests.support.processes.starting import PLAIN_SHARE, Mixed, mixed
from tests.support.servers.parted_galera import PartedGalera
from tests.support.waiting import wait_for

from .cluster import KINDS, Cluster, Kind, Registered
from .commands import cpu_seconds, tell
from .evidence import Row, gather, waiting
from .faults import Faults
from .journal import Journal
from .logs import faults_in_logs
from .nodes import check_nodes
from .oracle import Case, Violation, check_feed, figures, judge
from .pages import version_of
from .returns import Returns

PATIENCE_SECONDS = 600.0
FOLLOWING_SECONDS = 150.0
"""How long those who follow may take once nothing else is to be done."""
PEAK_KB_MAX = 200_000
"""P10: more memory than this no process may ever have."""
RECOVERY_SECONDS = 120.0
"""After so long somebody looks after a cluster of databases that does not come back: doc/galera.md."""
LOOK_SECONDS = 2.0
AWAY = {"databases to come back": 1}
TICK_SECONDS = 0.1
DAMAGED_FILES = 10
DAMAGES: dict[str, Callable[[Path, bytes], Any]] = {
    "missing": lambda path, data: path.unlink(),
    "length": lambda path, data: path.write_bytes(data[:-1]),
    "hash": lambda path, data: path.write_bytes(data[:-1] + b"!"),
}
"""What may have happened to a content file, as ``lcc-admin fsck`` calls it."""


def galera() -> PrivateGalera:
    """A cluster whose nodes can be parted, where that is possible."""
    ports = [free_port() for _ in range(PORTS)]
    try:
        return PartedGalera(ports, durable=True)
    except NoNetwork as why:
        tell(f"nodes are killed, but not parted: {why}")
        return PrivateGalera(ports, durable=True)


SERVERS: dict[str, Callable[[], PrivateMariaDb | PrivateGalera]] = {
    "mariadb": lambda: PrivateMariaDb(durable=True),
    "galera": galera,
}
ROOT = Path(__file__).parents[2]

PART_SHARE = 0.15
"""Of the faults on a Galera cluster, those that part a node."""
NODES_WEIGHT = 6
"""How often a node of a Galera cluster is chosen, as of :class:`Faults`."""
ANSWER_SECONDS, FAR_ANSWER_SECONDS = 0.03, 1.6
"""Of the providers' web server.  Where the queue manager is far, an order goes to another machine a second after it
has gone astray: two robots at one provider are seen only if the first one still waits for its answer."""


@attrs.frozen
class Plan:
    """What a run is to be.

    :ivar backend: ``sqlite``, ``mariadb`` or ``galera``.
    :ivar kills: ``kill -9`` of roles and of the database server.
    :ivar rounds: how often it is left alone until it is at rest, and judged.
    :ivar providers: how many.
    :ivar pace_seconds: between two sets on each of a provider's two connections, on average.
    :ivar fault_seconds: between two faults, on average.
    :ivar special: kinds of every third provider: with hours, bandwidth, quotas, an interval.
    :ivar still_share: of the faults, those that let a process stand still.
    :ivar slow_central: the queue manager is far from the central BOT-M, whose BOT-Ms lose their connections to it
        again and again (:mod:`tests.support.processes.links`).
    :ivar damage: in the end some content files are lost or damaged.
    :ivar plain_share: of the starts, those that are not forked (:mod:`tests.support.processes.starting`).
    :ivar part_share: of the faults, those that part a node of a Galera cluster from the network.
    :ivar weights: role -> how often it is chosen, as of :class:`Faults`.
    """

    seed: int
    backend: str
    kills: int
    rounds: int = 2
    providers: int = 50
    pace_seconds: float = 8.0
    fault_seconds: float = 1.5
    special: tuple[Kind, ...] = KINDS
    still_share: float = 0.2
    damage: bool = True
    unses: int = 2
    machines: int = 2
    robots: int = 2
    slow_central: bool = False
    plain_share: float = PLAIN_SHARE
    part_share: float = 0.0
    weights: Mapping[str, int] = attrs.field(factory=dict)


class Broken(Exception):
    """Promises were broken.

    :ivar folder: where everything was kept.
    :ivar report: of the run, as :func:`run` would have returned it; empty: it has not come so far.
    """

    def __init__(self, violations: list[Violation], folder: Path) -> None:
        self.violations = violations
        self.folder = folder
        self.report: dict[str, Any] = {}
        lines = "\n".join(f"{each.promise}: {each.text}" for each in violations[:20])
        super().__init__(f"{len(violations)} violations; everything is kept in {folder}\n{lines}")


class World:
    """:mod:`world` as a process."""

    def __init__(self, folder: Path, orders: dict[str, Any]) -> None:
        self.journal = folder / "journal"
        path = folder / "world.json"
        path.write_text(json.dumps(orders))
        with (folder / "world.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.reliability.world", str(path), str(self.journal)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                text=True,
            )

    def pause(self) -> None:
        """Let the providers begin nothing more; returns when they have ended what they had begun."""
        self.ask_to_pause()
        self.wait_for_pause()

    def ask_to_pause(self) -> None:
        """Let the providers begin nothing more."""
        self._say("pause")

    def wait_for_pause(self) -> None:
        """Returns when they have ended what they had begun."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "paused\n":
            raise AssertionError("the providers' process has ended")

    def register(self) -> None:
        """Let newcomers go on, and nobody else."""
        self._say("register")

    def go(self) -> None:
        """Let them go on."""
        self._say("go")

    def mend(self) -> list[str]:
        """Nothing is wrong with any page any more; gives the paths of those that there are."""
        assert self._process.stdout is not None
        self._say("mend")
        paths = json.loads(self._process.stdout.readline())
        assert isinstance(paths, list)
        return paths

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Run:
    """See :func:`run`."""

    def __init__(
        self, plan: Plan, folder: Path, server: PrivateMariaDb | PrivateGalera | None, tell: Any, how: Mixed
    ) -> None:
        self.plan = plan
        self.folder = folder
        self._tell = tell
        self._random = Random(plan.seed)
        home = folder / "lcc"
        home.mkdir()
        self.cluster = self.build(home, server)
        self.how = self.cluster.how = how
        self.links: Links | None = None
        self.port = free_port()
        self.providers: list[Registered] = self.cluster.register(plan.providers, self.port, plan.special)
        self.world: World | None = None
        self.follower = Follower(f"unix:{self.cluster.sockets()}", folder / "follower")
        self._server = server
        self._served = time.monotonic()
        self._look_due = 0.0
        self.faults = Faults(
            self.cluster,
            self._random,
            plan.still_share,
            self._kill_follower,
            plan.weights,
            server if isinstance(server, PartedGalera) else None,
            plan.part_share,
        )
        self.returns = Returns(self.cluster)
        self.database = self.cluster.open_database()
        self.quiet_seconds: list[float] = []
        self.damaged = 0
        self.users_killed = 0
        self.recovered = 0

    def build(self, home: Path, server: PrivateMariaDb | PrivateGalera | None) -> Cluster:
        """The LCC."""
        plan = self.plan
        return Cluster(
            home,
            server,
            unses=plan.unses,
            machines=plan.machines,
            robots=plan.robots,
            slow_central=plan.slow_central,
        )

    def orders(self) -> dict[str, Any]:
        """What the world is to be (:mod:`world`)."""
        plan = self.plan
        return {
            "seed": plan.seed,
            "port": self.port,
            "unses": self.cluster.uns_ports,
            "pace": plan.pace_seconds,
            "answer": FAR_ANSWER_SECONDS if plan.slow_central else ANSWER_SECONDS,
            "providers": [[each.pid, each.password, each.name] for each in self.providers],
        }

    def go(self) -> Case:
        """All rounds; gives the last case.

        :raises Broken: promises were broken.
        """
        plan = self.plan
        if self.cluster.links:
            self.links = Links(plan.seed, self.cluster.links, self.folder / "links.log")
        self.cluster.start(*self.cluster.configs)
        self.world = World(self.folder, self.orders())
        self.follower.start()
        wait_for("the first pages are fetched", lambda: b'"gave"' in self._journal_text(), PATIENCE_SECONDS)
        for number in range(1, plan.rounds + 1):
            self._round(plan.kills * number // plan.rounds)
            self._tell(f"{sum(self.faults.kills.values())} kills, at rest after {self.quiet_seconds[-1]:.0f} s")
            case = self._judged()
            if number < plan.rounds:
                self.resume()
        self._fsck()
        if plan.damage:
            self._damage()
        self._ended()
        return case

    def _journal_text(self) -> bytes:
        assert self.world is not None
        return self.world.journal.read_bytes() if self.world.journal.exists() else b""

    def _round(self, kills: int) -> None:
        assert self.world is not None
        due = time.monotonic()
        while sum(self.faults.kills.values()) < kills:
            self.returns.started(self.faults.tick())
            self.returns.look()
            self._look_after_nodes()
            if time.monotonic() >= due and self.may_fault():
                self.faults.step()
                due = max(due, time.monotonic() - 5) + self._random.expovariate(1 / self.plan.fault_seconds)
            time.sleep(TICK_SECONDS)
        self.returns.started(self.faults.heal())
        # Who publishes ends what has begun only when the database answers.
        while not self._look_after_nodes():
            time.sleep(TICK_SECONDS)
        began = time.monotonic()
        self.world.pause()
        self.rest()
        self.quiet_seconds.append(time.monotonic() - began)

    def _look_after_nodes(self) -> bool:
        """Whether a node of the Galera cluster serves; if none does for long, begin the cluster again, as an operator
        does where all were lost at once: doc/galera.md."""
        if not isinstance(self._server, PrivateGalera):
            return True
        now = time.monotonic()
        if now < self._look_due:
            return False
        self._look_due = now + LOOK_SECONDS
        self.faults.revive()
        # Who stands still does not answer, and does not refuse either.
        awake = [node for name, node in self.cluster.databases.items() if name not in self.cluster.still]
        if any(node.serves() for node in awake):
            self._served = now
            return True
        if now > self._served + RECOVERY_SECONDS:
            self.returns.started(self.faults.heal())
            self.recovered += self.cluster.recover()
            self._served = time.monotonic()
        return False

    def may_fault(self) -> bool:
        """Whether it is time for the next fault."""
        return True

    def resume(self) -> None:
        """Let the providers go on."""
        assert self.world is not None
        self.world.go()

    def _kill_follower(self) -> None:
        self.follower.kill()
        self.follower.start()
        self.users_killed += 1

    # Rest.

    def left(self) -> dict[str, int]:
        """What is still to be done."""
        return waiting(self.cluster, self.database)

    def _waiting(self) -> dict[str, int]:
        try:
            return self.left()
        except StoreUnavailable:
            return AWAY

    def rest(self) -> None:
        """Wait until nothing is left to be done."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            left = self._waiting()
            if left == AWAY:
                self._look_after_nodes()
            self.returns.look()
            self.faults.revive()
            if not left:
                time.sleep(1.0)
                if not self._waiting():
                    return
            if time.monotonic() > end:
                raise Broken([Violation("P2", f"it does not come to rest: {left}")], self.folder)
            time.sleep(0.5)

    def _judged(self) -> Case:
        evidence = gather(self.cluster, self.database)
        assert self.world is not None
        case = Case(self.providers, self.port, Journal.read(self.world.journal), evidence, self.faults.done)
        violations = [*self.verdict(case), *self._nodes(), *self._logs(), *self._memory()]
        if violations:
            raise Broken(violations, self.folder)
        return case

    def verdict(self, case: Case) -> Iterator[Violation]:
        """What is wrong with the cache, and with what content users have of it."""
        yield from judge(case)
        yield from soon(lambda: check_feed(case, self.follower.copy()))

    def _nodes(self) -> Iterator[Violation]:
        server = self._server
        if isinstance(server, PrivateGalera):

            def check() -> Iterable[Violation]:
                self.faults.revive()  # a node may have ended by itself when all else was at rest
                return check_nodes(server, self.cluster.database_name)

            yield from soon(check)

    def figures(self, case: Case) -> dict[str, int]:
        """How much there was to judge."""
        return figures(case)

    def _logs(self) -> list[Violation]:
        return [Violation("log", text) for text in faults_in_logs(self.cluster.configs, self.cluster.log)]

    def _memory(self) -> list[Violation]:
        for name in self.cluster.processes:
            self.cluster.note_memory(name)
        return [
            Violation("P10", f"{role} had {peak} kB")
            for role, peak in self.cluster.peaks_kb.items()
            if peak > PEAK_KB_MAX
        ]

    def _fsck(self) -> None:
        """P7: after a repair there is no file that belongs to nothing, and nothing else has gone."""
        violations = []
        for machine in self.cluster.machines:
            if not (self.cluster.content(machine) / "counter").exists():
                continue
            wait_for("orphans can be told", lambda machine=machine: "undecided" not in self.cluster.fsck(machine))  # type: ignore[misc]
            found = self.cluster.fsck(machine, "--repair")
            if found.keys() - {"orphan", "leftover"}:
                violations.append(Violation("P7", f"machine {machine}: {found}"))
        wait_for("files are removed", lambda: not self._waiting())
        evidence = gather(self.cluster, self.database)
        named = {(row.machine, row.file) for row in evidence.rows if row.cached}
        there = len(self.cluster.content_files())
        if len(named) != there or any(row.data is None for row in evidence.rows if row.cached):
            violations.append(Violation("P7", f"{len(named)} cached rows have files, {there} files are there"))
        if violations:
            raise Broken(violations, self.folder)

    def _damage(self) -> None:
        """P7, P9: content files that are lost or damaged are found by ``lcc-admin fsck``, and are fetched again."""
        assert self.world is not None
        pages = set(self.world.mend())
        there = [row for row in gather(self.cluster, self.database).rows if row.data and self._path(row) in pages]
        chosen = self._random.sample(there, min(len(there), DAMAGED_FILES))
        expected: Counter[tuple[int, str]] = Counter()
        for row in chosen:
            assert row.machine is not None and row.file is not None and row.data is not None
            kind = self._random.choice(list(DAMAGES))
            path = self.cluster.content(row.machine) / content_path(row.file)
            DAMAGES[kind](path, row.data)
            expected[row.machine, kind] += 1
        violations = []
        for machine in {machine for machine, _ in expected}:
            wanted = {kind: count for (where, kind), count in expected.items() if where == machine}
            found = self.cluster.fsck(machine, "--repair")
            if found != wanted:
                violations.append(Violation("P9", f"machine {machine}: fsck has found {found} of {wanted}"))
        self.rest()
        # Of another view of a page there may be a tombstone.
        now = {row.curl: row for row in gather(self.cluster, self.database).rows if row.data}
        for row in chosen:
            again = now.get(row.curl)
            data = None if again is None or again.file == row.file else again.data
            if data is None or version_of(self._path(row), data) is None:
                violations.append(Violation("P9", f"{row.curl} was damaged, and is not fetched again"))
        if violations:
            raise Broken(violations, self.folder)
        self.damaged = len(chosen)
        self._judged()

    @staticmethod
    def _path(row: Row) -> str:
        return "/" + row.curl.split("/", 3)[3]

    def _ended(self) -> None:
        stuck = self.cluster.stop_in_order()
        violations = [Violation("log", f"{name} did not end") for name in stuck] + self._logs()
        if violations:
            raise Broken(violations, self.folder)

    def close(self) -> None:
        """End all processes."""
        for name in list(self.cluster.still):
            if name not in self.cluster.databases:
                self.cluster.go_on(name)
        self.database.close()
        try:
            self.follower.kill()
        finally:
            if self.world is not None:
                self.world.stop()
            self.cluster.stop_all()
            if self.links is not None:
                self.links.stop()


def soon(check: Callable[[], Iterable[Violation]]) -> list[Violation]:
    """What is wrong with those who follow, once they have had the time to come as far."""
    end = time.monotonic() + FOLLOWING_SECONDS
    while True:
        found = list(check())
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.5)


@contextmanager
def _kept_if_broken() -> Iterator[Path]:
    # Socket paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="lcc-kills-"))
    try:
        yield folder
    except Exception:
        raise
    except BaseException:  # somebody has stopped it
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def run(plan: Plan, tell: Any = lambda text: None, kind: type[Run] = Run) -> dict[str, Any]:
    """Do a run.

    :param tell: called with a line now and then.
    :param kind: what is run.
    :returns: what is to be reported of it.
    :raises Broken: promises were broken; everything is kept.
    """
    began, used = time.monotonic(), cpu_seconds()
    with _kept_if_broken() as folder, ExitStack() as stack:
        server = stack.enter_context(SERVERS[plan.backend]()) if plan.backend in SERVERS else None
        how = stack.enter_context(mixed(plan.seed, plan.plain_share))
        this = kind(plan, folder, server, tell, how)
        stack.callback(this.close)
        try:
            case = this.go()
        except Exception as error:
            tell(f"seed {plan.seed} on {plan.backend}: kept in {folder}")
            if isinstance(error, Broken):
                error.report = _report(this, began, len(error.violations), {})
            for number, (_, each) in enumerate(this.cluster.databases.items()):
                each.kill()
                shutil.copytree(each.folder, folder / f"mariadb{number}", ignore=shutil.ignore_patterns("sock"))
            raise
        report = _report(this, began, 0, this.figures(case))
    # All processes have been waited for.
    return report | {"cpu_seconds": round(cpu_seconds() - used, 1)}


def _report(this: Run, began: float, violations: int, judged: dict[str, int]) -> dict[str, Any]:
    return {
        "seed": this.plan.seed,
        "backend": this.plan.backend,
        "plan": attrs.asdict(this.plan),
        "kills": dict(sorted(this.faults.kills.items())),
        "stills": dict(sorted(this.faults.stills.items())),
        "parted": dict(sorted(this.faults.parted.items())),
        "long_parted": dict(sorted(this.faults.long_parted.items())),
        "nodes_given_up": this.faults.given_up,
        "starts": dict(this.how.counts),
        "violations": violations,
        **judged,
        "users_killed": this.users_killed,
        "clusters_recovered": this.recovered,
        "damaged": this.damaged,
        "branches_reset": 0 if this.links is None else this.links.resets,
        "rest_seconds": [round(seconds, 1) for seconds in this.quiet_seconds],
        "peaks_kb": dict(sorted(this.cluster.peaks_kb.items())),
        "returns": this.returns.figures(),
        "seconds": round(time.monotonic() - began, 1),
    }
