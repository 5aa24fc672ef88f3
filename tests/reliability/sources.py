"""Kills the roles of a whole LCC at random while its sites are noticed in every way (``make kill-sources``).

``python -m tests.reliability.sources --kills 500 [--seed N] [--backend mariadb|galera]``

The processes are those of the kill test (:mod:`run`), and push server, scheduler, manager, search server,
registration server and monitor; these are killed more often than the others.  Sites tell sets, push by
IndexNow, have a sitemap and a feed that are polled, and pages that several of these name (:mod:`sites`); newcomers
register.  A subscriber at the hub, a content user and the search server follow.  Then everything is left alone until
it is at rest, and is judged: :mod:`sources_oracle`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import attrs

from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import HUB, PUSH, TASKS
from lcc.storage.database.place import place_beside
from lcc.testing.galera import PrivateGalera
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.ports import free_port
from tests.support.processes.starting import PLAIN_SHARE, Mixed
from tests.support.waiting import wait_for

from .cluster import DATABASE, Cluster
from .commands import parser, tell
from .evidence import waiting
from .journal import Journal
from .moves_oracle import check_newcomers, registered
from .oracle import Case, Violation, check_feed
from .repeating import repeat
from .results import Results
from .run import NODES_WEIGHT, PART_SHARE, PATIENCE_SECONDS, Plan, Run, run, soon
from .sites import DOCUMENTS, FEED, SITEMAP, Site
from .sources_oracle import (
    TAKEN,
    check_items,
    check_reports,
    check_search,
    check_subscriber,
    judge_sources,
    without_documents,
)
from .sub_lccs import RS_SETTINGS, Found

BACKENDS = ("sqlite", "mariadb", "galera")
ONLY_HERE = ("push", "search", "rs", "web")
"""No other test kills these."""
ONLY_HERE_WEIGHT = 12
"""How often each of them is chosen at least, as of :class:`faults.Faults`."""
FEW_ELSEWHERE = ("cu", "scheduler", "manager")
POLL_SECONDS = 15
NEWCOMER_SECONDS = 10.0
ANSWER_SECONDS = 20.0
PROGRESS = (
    (b'"how": "accepted"',),
    (b'"status": 200}', b'"status": 202}'),
    (b'"status": 200, "bytes"',),
    (b'"e": "heard"',),
)
"""What the journal says of a set that was accepted, a push, a page that was fetched, a delivery: somebody is killed
just after it."""
QUIET_SECONDS = 2.0
"""So long nothing may happen until somebody is killed all the same."""
MONITOR = "web1"
"""Its process."""
LEFT = {
    TASKS: {
        # A text is tried in vain where its page has changed meanwhile: there is a newer one.
        "jobs": "SELECT COUNT(*) FROM jobs WHERE ended_time IS NULL AND kind <> 'text'",
        "notices of jobs": "SELECT COUNT(*) FROM tasknotices",
        "held notices": "SELECT COUNT(*) FROM heldnotices",
        "orders to the scheduler": "SELECT COUNT(*) FROM taskorders WHERE done_time IS NULL",
    },
    PUSH: {"pushes": "SELECT COUNT(*) FROM pushset WHERE state IN (0, 1)"},
    HUB: {
        "subscriptions": "SELECT COUNT(*) FROM hubask",
        "deliveries": "SELECT COUNT(*) FROM hubsub WHERE due_time <> 0",
    },
}
"""What waits in the tables of each series."""


class SourcesCluster(Cluster):
    """:class:`Cluster` with all that notices changes, and all that follows them.

    :ivar public: role -> its port.
    """

    def __init__(self, folder: Path, server: PrivateMariaDb | PrivateGalera | None, plan: Plan) -> None:
        super().__init__(folder, server, unses=plan.unses, machines=plan.machines, robots=plan.robots)
        self.public = {role: free_port() for role in ("cu", "push", "search", "rs", "web")}
        listen = {role: f'listen = "tcp:{port}:interface=127.0.0.1"\n' for role, port in self.public.items()}
        content = f'content = "unix:{folder}/central/content.sock"\n'
        self._configure(
            "cu",
            f'[cu]\n{listen["cu"]}{content}url = "http://127.0.0.1:{self.public["cu"]}/"\n'
            'without_token = "content"\nhub = true\nhub_allow_private = true\n',
        )
        self._configure(
            "push",
            f'[push]\n{listen["push"]}connect = "unix:{folder}/home/notify-push.sock"\n'
            f'connect_gateway = "unix:{folder}/home/uns-gateway.sock"\n'
            'unknown_sites = "refuse"\nany_port = true\nallow_private = true\n',
        )
        self._configure(
            "scheduler",
            f'[scheduler]\nconnect = "unix:{folder}/home/notify-scheduler.sock"\n'
            "lease = 10\nretries = 100\nretry_initial = 1\n",
        )
        self._configure(
            "manager",
            f'[manager]\nconnect = "unix:{folder}/scheduler/scheduler.sock"\n{content}'
            'user = "root"\nstop_seconds = 2\n',
        )
        self._configure(
            "search",
            f'[search]\n{listen["search"]}cache = "unix:{folder}/cu/cu.sock"\nopen = true\nworkers = 1\n',
        )
        self._configure("rs", f"[rs]\n{listen['rs']}allow_private = true\nany_port = true\n{RS_SETTINGS}")
        self._configure(MONITOR, f"[web]\n{listen['web']}")

    def open_series(self, series: str) -> BlockingDatabase:
        """A connection of the test's own to tables that may be in a file of their own."""
        settings = DatabaseConfig(query_timeout=30.0)
        place = place_beside(self._database_url, self.folder / "home", settings, series)
        return BlockingDatabase(place.url, place.home, settings, random=Random(1), series=place.series)


class SourcesRun(Run):
    """See the module."""

    cluster: SourcesCluster

    def __init__(
        self, plan: Plan, folder: Path, server: PrivateMariaDb | PrivateGalera | None, tell: Any, how: Mixed
    ) -> None:
        super().__init__(plan, folder, server, tell, how)
        self._series = {series: self.cluster.open_series(series) for series in LEFT}
        for provider in self.providers:
            root = f"http://127.0.0.1:{self.port}/{provider.name}/"
            every = ("--every", str(POLL_SECONDS))
            self.cluster.admin("sitemap", "add", f"{root}{SITEMAP}", *every)
            self.cluster.admin("feed", "add", f"{root}{FEED}", *every, "--full-content", "--listed")
        self._polled = False
        self._seen = 0
        self._fault_time = time.monotonic()
        self._awaited = PROGRESS[0]

    def build(self, home: Path, server: PrivateMariaDb | PrivateGalera | None) -> SourcesCluster:
        return SourcesCluster(home, server, self.plan)

    def orders(self) -> dict[str, Any]:
        public = self.cluster.public
        return {
            **super().orders(),
            "push": public["push"],
            "hub": public["cu"],
            "subscriber": free_port(),
            "rs": public["rs"],
            "newcomers": NEWCOMER_SECONDS,
        }

    def may_fault(self) -> bool:
        """As soon as something of a certain kind has happened since the last one."""
        assert self.world is not None
        with self.world.journal.open("rb") as journal:
            journal.seek(self._seen)
            happened = journal.read()
        waited = time.monotonic() - self._fault_time
        if not any(mark in happened for mark in self._awaited) and waited < QUIET_SECONDS:
            return False
        self._seen += len(happened)
        self._fault_time = time.monotonic()
        self._awaited = self._random.choice(PROGRESS)
        return True

    # Rest.

    def left(self) -> dict[str, int]:
        found = waiting(self.cluster, self.database)
        for series, queries in LEFT.items():
            for what, sql in queries.items():
                number = self._series[series].interact(lambda txn, sql=sql: txn.value(sql))
                found |= {what: number} if number else {}
        return found

    def rest(self) -> None:
        if not self._polled:
            # What the first poll has found is worked off before the second one begins.
            self.wait_for_polls(time.time())
            self._tasks("suspend")
            self._polled = True
        super().rest()

    def wait_for_polls(self, since: float) -> None:
        """Returns when each document was polled twice."""
        wait_for("each document is polled twice", lambda: self.polls(since) >= 2, PATIENCE_SECONDS, 2.0)

    def polls(self, since: float) -> int:
        """How often each document was polled, at least."""
        assert self.world is not None
        times = dict.fromkeys((f"/{each.name}/{name}" for each in self.providers for name in DOCUMENTS), 0)
        for gave in Journal.read(self.world.journal).gave:
            if gave.path in times and gave.time > since:
                times[gave.path] += 1
        return min(times.values())

    def _tasks(self, command: str) -> None:
        self.cluster.admin("task", command, *(str(row["id"]) for row in self.cluster.rows("task", "list")))

    def resume(self) -> None:
        self._polled = False
        self._tasks("resume")
        super().resume()

    # The end.

    def verdict(self, case: Case) -> Iterator[Violation]:
        roots: dict[int, set[str]] = {}
        for pid, root in self.database.interact(lambda txn: txn.query("SELECT pid, root FROM proots")):
            roots.setdefault(pid, set()).add(root)
        newcomers = registered(self.port, case.journal, roots)
        whole = Case(
            [*self.providers, *newcomers],
            self.port,
            case.journal,
            without_documents(case.evidence),
            case.faults,
        )
        yield from check_newcomers(self.port, case.journal, Found({}, {}, {}, roots))
        yield from judge_sources(self.providers, newcomers, whole)
        yield from soon(lambda: check_feed(whole, self.follower.copy()))
        yield from soon(lambda: check_subscriber(attrs.evolve(whole, journal=self._journal())))
        sites = attrs.evolve(whole, providers=self.providers)
        yield from soon(lambda: check_search(sites, self._search))
        yield from check_items(sites, self._items())
        yield from soon(lambda: check_reports(sites, {each.pid: self._report(each.name) for each in self.providers}))
        if b"<title>" not in self._get("web", "/"):
            yield Violation("monitor", "it shows no page")

    def _journal(self) -> Journal:
        assert self.world is not None
        return Journal.read(self.world.journal)

    def _get(self, role: str, path: str) -> bytes:
        """What a role answers; nothing while it does not."""
        try:
            with urlopen(f"http://127.0.0.1:{self.cluster.public[role]}{path}", timeout=ANSWER_SECONDS) as reply:
                return bytes(reply.read())
        except (URLError, OSError, HTTPException):
            return b""

    def _search(self, word: str) -> list[str]:
        found = self._get("search", f"/search?{urlencode({'q': word, 'format': 'json'})}")
        return sorted(hit["url"] for hit in json.loads(found)["hits"]) if found else ["no answer"]

    def _items(self) -> list[dict[str, Any]]:
        found = wait_for("items", lambda: self._get("cu", "/items?since=0"), PATIENCE_SECONDS)
        return [each for each in map(json.loads, found.splitlines()) if "item" in each]

    def _report(self, name: str) -> list[dict[str, Any]]:
        host = f"127.0.0.1:{self.port}"
        query = urlencode({"host": host, "key": Site.key_of(name)})
        reports: list[dict[str, Any]] = json.loads(self._get("push", f"/indexnow/report?{query}") or "{}").get(
            "keys", []
        )
        return reports

    def figures(self, case: Case) -> dict[str, int]:
        journal = case.journal
        return {
            **super().figures(case),
            "pushes": len(journal.pushes),
            "pushes_accepted": sum(push.status in TAKEN for push in journal.pushes.values()),
            "polls": sum(gave.path.rsplit("/", 1)[-1] in DOCUMENTS for gave in journal.gave),
            "pages": len(journal.pages),
            "newcomers": len(journal.newcomers),
            "deliveries": journal.deliveries,
        }

    def close(self) -> None:
        for database in self._series.values():
            database.close()
        super().close()


def main() -> int:
    """The exit code: 1 if a promise was broken, in whichever run."""
    settings = parser("kill-sources", __doc__, "in all", "kills of one run", BACKENDS)
    settings.set_defaults(kills=300, each=100)
    settings.add_argument("--sites", type=int, default=6, help="how many there are")
    options = settings.parse_args()

    def one(results: Results, seed: int, backend: str) -> dict[str, Any]:
        plan = plan_of(seed, backend, options.each, options.sites, results.killed(), options.plain_share)
        return run(plan, tell, SourcesRun)

    return repeat(options, BACKENDS[:2], one)


def plan_of(
    seed: int,
    backend: str,
    kills: int,
    sites: int,
    killed: Mapping[str, int] = MappingProxyType({}),
    plain_share: float = PLAIN_SHARE,
) -> Plan:
    """One round: coming to rest takes longer than the kills.

    :param killed: role -> kills in earlier runs; those that were killed least are killed more often.
    """
    most = max(killed.get(role, 0) for role in ONLY_HERE)
    weights = dict.fromkeys(FEW_ELSEWHERE, 2) | {
        role: ONLY_HERE_WEIGHT + most - killed.get(role, 0) for role in ONLY_HERE
    }
    if backend == "galera":
        weights[DATABASE] = NODES_WEIGHT
    return Plan(
        seed,
        backend,
        kills,
        rounds=1,
        providers=sites,
        pace_seconds=4.0,
        fault_seconds=0.4,
        special=(),
        still_share=0.0,
        unses=1,
        machines=1,
        plain_share=plain_share,
        part_share=PART_SHARE,
        weights=weights,
    )


if __name__ == "__main__":
    sys.exit(main())
