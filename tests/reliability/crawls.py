"""Kills every role at random while sites are crawled (``make kill-spider KILLS=200``: so many kills of each role).

``python -m tests.reliability.crawls --kills 200 [--seed N] [--backend mariadb]``

On MariaDB there are two spiders, and the server is killed as well.  What was reached stands in a file, so it can be
stopped and goes on where it was.  A run ends when its crawl is done, or when it has had its kills; then nobody is
killed any longer, and once the crawl is done it is judged, from outside:

* the cache has the closure of the links, and each page as its site has it;
* the link log has all links of these pages, each once for each change of its page, although its files rotate; the
  text store has each page;
* the frontier says that nothing is left, and that nothing has failed;
* nginx's log: no two fetches from one site at once, Crawl-delays kept, nothing that a robots.txt disallows, nothing
  that only nofollow leads to, and robots.txt before all else;
* no process has logged a traceback, and all end in order.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from lcc.testing.mariadb import PrivateMariaDb
from lcc.workers.linux import parents
from tests.support.processes.crawling import Crawling
from tests.support.processes.starting import PLAIN_SHARE, Mixed, mixed
from tests.support.servers.linked_sites import LinkedSites, SiteServer, generate
from tests.support.waiting import wait_for

from .commands import parser, tell
from .logs import TRACEBACKS, faults_in_logs
from .oracle import Violation
from .repeating import repeat
from .results import Results
from .run import Broken

ROLES = ("uns", "qm", "botm", "bot", "cu", "scheduler", "manager", "spider")
DATABASE, WORKER = "mariadbd", "extractor"
BACKENDS = ("sqlite", "mariadb")
ROBOTS = "/robots.txt"
SETTINGS = """
stores = ["links", "text"]
segment_bytes = 65536
told_wait = 3.0
lease = 10.0
window = 20
workers = 1
"""
DELAY_SECONDS = 2.0
DELAYED_EVERY = 3
"""Every third site has a Crawl-delay."""
LATE_SECONDS = 1.5
"""What a request may be later than the one after it: the way from the robot through a loaded machine."""
STARTING_SECONDS = 60.0
CLOCK_SECONDS = 0.005
"""nginx's times are rounded."""
PAGE_BYTES, BYTES_PER_SECOND = 2500, 2000
"""A page takes some tenths of a second, so that two at once would be seen."""
SEVERAL, EVERYTHING = 0.12, 0.03
"""Shares of the faults in which several processes are killed at once, and all of them."""
DOWN_SECONDS = (0.0, 0.0, 0.3, 1.0, 4.0)
PATIENCE_SECONDS = 900.0
QUIET_SECONDS = 12.0
"""So long a crawl may make no progress until somebody is killed all the same."""


@attrs.frozen
class Plan:
    """What a run is to be.

    :ivar kills: in all.
    :ivar pace_seconds: between two faults, on average, if the crawl makes progress meanwhile.
    :ivar plain_share: of the starts, those that are not forked (:mod:`tests.support.processes.starting`).
    :ivar late_seconds: so much nearer than their Crawl-delay two requests may come.
    """

    seed: int
    backend: str
    kills: int
    hosts: int = 6
    pages: int = 50
    pace_seconds: float = 0.8
    plain_share: float = PLAIN_SHARE
    late_seconds: float = LATE_SECONDS


class Run:
    """One crawl, and who is killed meanwhile.

    :param before: role -> kills in former runs: who had fewer is killed more often.
    """

    def __init__(
        self, plan: Plan, folder: Path, server: PrivateMariaDb | None, before: Counter[str], how: Mixed
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self._random = random.Random(plan.seed)
        self._before = before
        self._database = server
        self._down: dict[str, float] = {}
        self._started: dict[str, float] = {}
        sites = SiteServer(folder / "web", plan.hosts, BYTES_PER_SECOND)
        graph = generate(plan.seed, sites.roots, plan.pages, 8, PAGE_BYTES)
        graph = attrs.evolve(graph, delays=dict.fromkeys(sites.roots[::DELAYED_EVERY], DELAY_SECONDS))
        url = server.new_database() if server else None
        self.world = Crawling(folder, url, sites, graph, 2 if server else 1, SETTINGS)
        self.how = self.world.system.how = how
        self.names = [*(role for role in ROLES if role != "spider"), *self.world.system.spiders]

    # Kills.

    def go(self) -> None:
        """Crawl, and kill.

        :raises Broken: it does not come to its end.
        """
        self.world.add()
        self.world.system.start(*self.names)
        wait_for("the crawl begins", lambda: self._look(self.world.cached), PATIENCE_SECONDS)
        while sum(self.kills.values()) < self.plan.kills and not self._look(self.world.is_done):
            self._wait_for_progress()
            self._fault()
        for name in list(self._down):
            self._start(name)
        if self._database is not None:
            wait_for("the database server answers", self._database.serves, PATIENCE_SECONDS)
        try:
            wait_for("the crawl is done", lambda: self._look(self.world.is_done), PATIENCE_SECONDS, every_seconds=0.5)
        except AssertionError as error:
            raise Broken([Violation("P16", str(error))], self.folder) from error

    def _look(self, at: Any) -> Any:
        """What the frontier shows; None: the database server is away."""
        if DATABASE in self._down:
            return None
        with suppress(Exception):
            return at()
        return None

    def _wait_for_progress(self) -> None:
        end = time.monotonic() + QUIET_SECONDS
        pause = time.monotonic() + self._random.uniform(0, 2 * self.plan.pace_seconds)
        before = self._look(self._counts)
        while time.monotonic() < end:
            self._start_due()
            time.sleep(0.05)
            now = self._look(self._counts)
            if time.monotonic() >= pause and now is not None and now != before:
                return

    def _counts(self) -> Any:
        status = self.world.status()
        return status and dict(status.counts)

    def _start_due(self) -> None:
        now = time.monotonic()
        for name in [name for name, when in self._down.items() if when <= now]:
            self._start(name)

    def _start(self, name: str) -> None:
        del self._down[name]
        if name == DATABASE:
            assert self._database is not None
            self._database.launch()
        else:
            self._started[name] = time.monotonic()
            self.world.system.start(name)

    def _fault(self) -> None:
        luck = self._random.random()
        up = [name for name in [*self.names, *([DATABASE] if self._database else [])] if name not in self._down]
        if luck < EVERYTHING:
            self._kill(up)
        elif luck < EVERYTHING + SEVERAL:
            self._kill(self._random.sample(up, min(len(up), self._random.randint(2, 4))))
        else:
            self._kill([self._chosen([*up, WORKER])])

    def _chosen(self, names: list[str]) -> str:
        had = {name: self._before[role_of(name)] + self.kills[role_of(name)] for name in names}
        most = max(had.values())
        return self._random.choices(names, [1 + most - had[name] for name in names])[0]

    def _kill(self, names: list[str]) -> None:
        seconds = self._random.choice(DOWN_SECONDS)
        for name in names:
            if name == WORKER:
                self._kill_worker()
                continue
            if name == DATABASE:
                assert self._database is not None
                self._database.kill()
            else:
                self.world.system.kill(name)
            self.kills[role_of(name)] += 1
            self._down[name] = time.monotonic() + seconds * self._random.uniform(0.7, 1)

    def _kill_worker(self) -> None:
        """A process that extracts links."""
        system = self.world.system
        spiders = {system.processes[name].pid for name in system.spiders if name not in self._down}
        found = [pid for pid, parent in parents().items() if parent in spiders]
        if found:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(found), signal.SIGKILL)
                self.kills[WORKER] += 1

    # The end.

    def judge(self) -> None:
        """
        :raises Broken: something is not as it must be.
        """
        faults = [
            *self.world.faults(),
            *self._frontier(),
            *self._texts(),
            *rude(self.world.sites, self.world.server.requests(), self.plan.late_seconds),
        ]
        for name in list(self.world.system.processes):
            try:
                self.world.system.stop(name)
            except Exception as error:
                # Who was started just now may not have come to its first line.
                if time.monotonic() - self._started.get(name, 0.0) > STARTING_SECONDS:
                    faults.append(f"{name} does not end in order: {error!r}")
        faults += faults_in_logs(self.names, self.world.system.log, TRACEBACKS)
        if faults:
            raise Broken([Violation("crawl", text) for text in faults], self.folder)

    def _frontier(self) -> Iterator[str]:
        status = self.world.status()
        assert status is not None
        closure = self.world.sites.closure()
        counts = {name: status.counts.get(name, 0) for name in ("cached", "failed", "gone", "waiting", "told")}
        if counts != {"cached": len(closure), "failed": 0, "gone": 0, "waiting": 0, "told": 0}:
            yield f"frontier: {dict(status.counts)}, there are {len(closure)} pages"

    def _texts(self) -> Iterator[str]:
        kept = [(folder, page["url"], page["change"]) for folder, page in self.world.kept("text")]
        if {url for _, url, _ in kept} != self.world.sites.closure():
            yield f"text store: it has {len({url for _, url, _ in kept})} of {len(self.world.sites.closure())} pages"
        if len(kept) != len(set(kept)):
            yield "text store: a page stands there twice"

    def report(self, began: float, faults: int) -> dict[str, Any]:
        """For the file of results."""
        fetched = Counter(self.world.fetched())
        return {
            "seed": self.plan.seed,
            "backend": self.plan.backend,
            "kills": dict(sorted(self.kills.items())),
            "starts": dict(self.how.counts),
            "violations": faults,
            "pages": len(fetched),
            "fetches": fetched.total(),
            "seconds": round(time.monotonic() - began, 1),
        }


def role_of(name: str) -> str:
    """Of a process."""
    return name.rstrip("0123456789")


def rude(sites: LinkedSites, log: Sequence[Mapping[str, Any]], late_seconds: float = LATE_SECONDS) -> Iterator[str]:
    """What a polite robot does not do.

    :param log: of nginx.
    :param late_seconds: as of :class:`Plan`.
    """
    allowed = {site_path(page) for page in sites.closure()}
    delays = {urlsplit(root).hostname: seconds for root, seconds in sites.delays.items()}
    by_site: defaultdict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for asked in log:
        by_site[asked["server"]].append((asked["ended"] - asked["seconds"], asked["ended"], asked["path"]))
    for site, requests in sorted(by_site.items()):
        requests.sort()
        strange = {path for *_, path in requests} - {path for host, path in allowed if host == site} - {ROBOTS}
        if strange:
            yield f"nginx: {len(strange)} pages of {site} are not in the closure, such as {min(strange)}"
        if requests[0][2] != ROBOTS:
            yield f"nginx: the first request to {site} was {requests[0]}"
        for before, after in pairwise(requests):
            if after[0] < before[1] - CLOCK_SECONDS:
                yield f"nginx: two fetches from {site} at once: {before}, {after}"
                break
        # What came before the first page was asked for when nobody knew of a delay.
        paced = requests[next((n for n, each in enumerate(requests) if each[2] != ROBOTS), 0) :]
        for before, after in pairwise(paced):
            if after[0] - before[0] < delays.get(site, 0.0) - late_seconds:
                yield f"nginx: {site} asks for {delays[site]} s between fetches: {before}, {after}"
                break


def site_path(page: str) -> tuple[str | None, str]:
    """The host of a page, and its path in nginx's log."""
    parts = urlsplit(page)
    return parts.hostname, f"{parts.path}index.html" if parts.path.endswith("/") else parts.path


def run(plan: Plan, tell: Any, before: Counter[str] | None = None) -> dict[str, Any]:
    """One run, in a folder of its own; gives what is to be reported of it.

    :raises Broken: something was not as it must be; the folder is kept.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="lcc-crawls-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        server = stack.enter_context(PrivateMariaDb()) if plan.backend == "mariadb" else None
        how = stack.enter_context(mixed(plan.seed, plan.plain_share))
        this = Run(plan, folder, server, before or Counter(), how)
        stack.callback(this.world.close)
        try:
            this.go()
            this.judge()
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except BaseException as error:
            if isinstance(error, Broken):
                error.report = this.report(began, len(error.violations))
            tell(f"seed {plan.seed} on {plan.backend}, {dict(this.kills)}: files are in {folder}")
            if server is not None:
                server.kill()
                shutil.copytree(server.folder, folder / "mariadb", ignore=shutil.ignore_patterns("sock"))
            raise
        report = this.report(began, 0)
    shutil.rmtree(folder)
    return report


def main() -> int:
    """The exit code: 1 if something was not as it must be, in whichever run."""
    settings = parser("kill-spider", __doc__, "of each role", "kills of one run, at most", BACKENDS)
    settings.set_defaults(kills=200, each=120)
    settings.add_argument("--pages", type=int, default=50, help="of each site")
    options = settings.parse_args()

    def one(results: Results, seed: int, backend: str) -> dict[str, Any]:
        plan = Plan(seed, backend, options.each, pages=options.pages, plain_share=options.plain_share)
        return run(plan, tell, results.killed() if options.seed is None else None)

    return repeat(options, BACKENDS, one, reached=fewest, table=table)


def fewest(results: Results) -> int:
    """Kills of the role that had the fewest."""
    kills = results.killed()
    return min(kills[role] for role in (*ROLES, WORKER))


def table(results: Results) -> str:
    """For people."""
    kills = dict(results.killed())
    return f"{len(results.runs)} runs, kills of each role: {kills}: {results.violations()} violations"


if __name__ == "__main__":
    sys.exit(main())
