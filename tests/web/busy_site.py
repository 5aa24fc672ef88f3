"""A made-up busy site, for the pictures of ``doc/monitor.md``, and to look at the pages as an operator sees them::

    python -m tests.web.busy_site doc/pictures

It fills a database as the roles would in a day (10,000 providers, 24 hours of samples, errors, sites that are away,
URLs that wait), answers as the BOT-Ms of four machines, runs a real ``lcc-web`` over it, and takes the pictures.
Numbers are drawn from one seed; times are those of now.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from lcc.domain.keys import url_key
from lcc.domain.urls import normalise
from lcc.model import FETCH_NOW, Delay, Provider
from lcc.roles.web.samples import COUNTED, LEVELS
from lcc.storage.database.tables.timeline import current_timeline
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.providers import add_provider
from lcc.storage.providers.web_users import WebUser, set_web_user
from lcc.storage.queue.maintenance.saved_state import save_state
from lcc.storage.queue.schedule.time_slots import write_delays
from lcc.storage.views.readers import Reading, note_readings
from tests.support.databases import DirectDatabase
from tests.support.qm_state import STATE
from tests.web.pictures import take

PROVIDERS = 10_000
DAY_SECONDS = 86400
SEED = 24
MACHINES = {1: ("amsterdam-1", 64), 2: ("amsterdam-2", 64), 3: ("utrecht-1", 48), 4: ("delft-1", 32)}
"""Number -> name, capacity."""
NAMES = ("museum", "gemeente", "radio", "archief", "sport", "weer", "boek", "school", "markt", "natuur", "muziek")
AWAY = {"connected": False, "ready": False, "capacity": 0, "orders": 0, "robots": [], "robots_count": 0}
FAILED_SITES = {1302: 23, 1301: 11, 1303: 9, 1304: 4}
FAILED_URLS = {404: 1840, 403: 260, 410: 75, 451: 3}
WAITING_URLS = {500: 412, 503: 287, 429: 64}
CHANGES = 48_612_340
READERS = {"search": (0, 4), "archive": (1_840, 310), "research": (2_461_007, 86_000)}
"""Name -> changes that it does not have, seconds since its last request."""
AWAY_MACHINE = 4
"""Its BOT-M has died, in the dark picture."""
PASSWORD = "correct horse"
ADDRESS = "127.0.0.1"


class BusySite:
    """The database of one, and what its queue manager and BOT-Ms say.

    :param home: an empty folder.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.chance = Random(SEED)
        self.now = int(time.time())
        self.database = DirectDatabase("sqlite:lcc.db", home)
        self.clock = 1_000_000.0
        self.counts = dict.fromkeys(COUNTED, 4_000_000)
        self.fetching: dict[int, list[dict[str, Any]]] = {}
        self.ports: dict[int, int] = {}
        self.queue_level = 1.0
        self.away = 0

    def fill(self) -> None:
        """Providers, queue, errors, delays, cache, a user, and a day of samples."""
        self.database.now(self._fill)
        self.database.now(set_web_user, WebUser("ann", hash_password(PASSWORD, generated=True), True, 1))
        self.database.now(self._read)
        (queued,) = self.database.query("SELECT SUM(nurls) FROM qpsdb")[0]
        self.queue_level = int(queued)
        self.queue_level *= int(queued) / self.queue_rows(self.now)  # so that the day ends with what is in the tables
        points = [self._point(moment) for moment in range(self.now - DAY_SECONDS, self.now, 60)]
        recent = [self._point(moment) for moment in range(self.now - 4000, self.now, 5)]
        names = [*COUNTED, *LEVELS]
        kept = {
            "names": names,
            "day": [[each[0], 60, *each[1]] for each in points],
            "recent": [[each[0], 5, *each[1]] for each in recent],
        }
        (self.home / "web-samples.json").write_text(json.dumps(kept), encoding="utf-8")

    def rate(self, moment: float) -> float:
        """Fetches per second: more by day than by night."""
        hour = moment / 3600 % 24
        return 22 + 16 * math.sin((hour - 8) / 24 * 2 * math.pi) + self.chance.gauss(0, 1.3)

    def queue_rows(self, moment: float) -> int:
        hour = moment / 3600 % 24
        return int(
            self.queue_level * (1 + 0.4 * math.sin((hour - 4) / 24 * 2 * math.pi) + 0.03 * math.sin(moment / 1700))
        )

    def _point(self, moment: int) -> tuple[int, list[float]]:
        rate = self.rate(moment)
        failed = rate * (0.055 + 0.02 * math.sin(moment / 5000))
        values = {
            "results_recorded": rate,
            "stored": (rate - failed) * 0.4,
            "unchanged": (rate - failed) * 0.6,
            "failed": failed,
            "wire_bytes": rate * 61_000,
            "sets_answered": rate / 9,
            "orders_sent": rate,
            "queue_rows": self.queue_rows(moment),
            "orders_out": min(208.0, rate * 4.1),
            "capacity": 208,
        }
        return moment, [round(values[name], 3) for name in (*COUNTED, *LEVELS)]

    def _fill(self, txn: Txn) -> None:
        chance, now = self.chance, self.now
        self.roots = [
            f"https://www.{chance.choice(NAMES)}-{chance.choice(NAMES)}{number}.example/"
            for number in range(1, PROVIDERS + 1)
        ]
        first = Provider(0, (self.roots[0],), "h", priority=1, contact="desk@example.org")
        columns = [name for (_, name, *_) in txn.query("PRAGMA table_info(pidb)")]
        add_provider(txn, first)
        (like,) = txn.query("SELECT * FROM pidb")
        fields = dict(zip(columns, like, strict=True))
        rows = []
        for pid in range(2, PROVIDERS + 1):
            hours = chance.choice(("", "", "", "22-6", "0-7,19-24"))
            fields |= {"pid": pid, "password": f"h{pid}", "timeofday": hours, "priority": chance.choice((0, 1, 1, 2))}
            rows.append(tuple(fields.values()))
        txn.insert("pidb", columns, rows)
        roots = [(pid, 0, self.roots[pid - 1]) for pid in range(2, PROVIDERS + 1)]
        txn.insert("proots", ["pid", "position", "root"], roots)
        used = {}
        for pid in range(1, PROVIDERS + 1):
            files = int(chance.paretovariate(0.9) * 300) % 90_000
            used[pid] = [pid, files, files * 61_000, 0, 0, now - chance.randrange(100_000), ""]
        for pid in chance.sample(range(1, PROVIDERS), 12):
            used[pid][6] = "lost-content"
        self._queue(txn, used)
        self._failed(txn, used)
        txn.execute("DELETE FROM pstats")
        txn.insert(
            "pstats",
            ["pid", "files_used", "space_used", "nurlproc", "errseq", "last_set_time", "wantfullset"],
            [tuple(values) for values in used.values()],
        )

    def _read(self, txn: Txn) -> None:
        """Content users, of whom some are behind."""
        txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [CHANGES])
        timeline = current_timeline(txn)
        readings = {0: Reading(self.now - 5400)}
        for name, (behind, ago) in READERS.items():
            cuid = add_content_user(txn, ContentUser(0, name, f"h{name}", created=self.now - DAY_SECONDS))
            readings[cuid] = Reading(self.now - ago, timeline, CHANGES - behind)
        note_readings(txn, readings)

    def _row(
        self, pid: int, psetid: int, slot: int, seq: int, url: str, bad: tuple[int, str, int]
    ) -> tuple[Any, ...]:
        html = "text/html"
        key = url_key(pid, normalise(url), html)
        return (key, pid, psetid, slot, seq, 1, seq + 1, 1, 0, 0, 0, url, "", "", html, "", "", "", 0, "[]", *bad)

    def _url(self, pid: int) -> str:
        folder, number = (
            self.chance.choice(("nieuws", "agenda", "collectie", "2026/11")),
            self.chance.randrange(10**6),
        )
        return f"{self.roots[pid - 1]}{folder}/{number}.html"

    def _queue(self, txn: Txn, used: dict[int, list[Any]]) -> None:
        chance, now, psetid = self.chance, self.now, 0
        rows, sets = [], []

        def add_set(pid: int, slot: int, urls: int, ago: int, bad: tuple[int, str, int] = (0, "", 0)) -> None:
            nonlocal psetid
            psetid += 1
            found = {self._url(pid) for _ in range(urls)}
            rows.extend(self._row(pid, psetid, slot, seq, url, bad) for seq, url in enumerate(sorted(found)))
            sets.append((psetid, slot, pid, chance.choice((0, 1, 1, 2)), 1, 0, 0, len(found), len(found), now - ago))
            used[pid][3] += len(found)

        for pid in chance.sample(range(1, PROVIDERS), 640):
            slot = chance.choice((FETCH_NOW,) * 9 + (152,))
            add_set(pid, slot, int(chance.paretovariate(1.1) * 12) % 3000 + 1, chance.randrange(30, 5400))
        for code, count in WAITING_URLS.items():
            for pid in chance.sample(range(1, PROVIDERS), 12):
                due = now + chance.randrange(60, 7000)
                text = "the server answered " + str(code)
                add_set(pid, FETCH_NOW - 1 - due // 4, count // 12, 9000, (code, text, now - chance.randrange(3600)))
        names = (
            *(
                "urlkey",
                "pid",
                "psetid",
                "slot",
                "seq",
                "operation",
                "generation",
                "connseq",
                "attempts",
                "unreached",
            ),
            *("seen", "curl", "furl", "burl", "mimetype", "subtype", "md5", "hours", "ifabsent", "sent"),
            *("bad_code", "bad_text", "bad_time"),
        )
        txn.insert("qdb", names, list({row[0]: row for row in rows}.values()))
        txn.insert(
            "qpsdb",
            ["psetid", "slot", "pid", "pri", "connseq", "fullset", "firstseq", "lastseq", "nurls", "time"],
            sets,
        )
        self.queued = [(row[1], row[11]) for row in rows if row[3] == FETCH_NOW]

    def _failed(self, txn: Txn, used: dict[int, list[Any]]) -> None:
        chance, now = self.chance, self.now
        free = iter(chance.sample(range(1, PROVIDERS), 700))
        delays = [Delay(next(free), now + chance.randrange(600, 30_000), "hours") for _ in range(44)]
        delays += [Delay(next(free), now + chance.randrange(5, 60), "bandwidth") for _ in range(17)]
        for code, count in FAILED_SITES.items():
            for _ in range(count):
                since = now - chance.randrange(300, 90_000)
                until = now + chance.randrange(20, 1800)
                delays.append(Delay(next(free), until, "site-error", code, chance.randrange(2, 9), since_time=since))
        write_delays(txn, delays)
        rows = []
        for code, count in FAILED_URLS.items():
            for _ in range(count):
                pid = chance.randrange(1, 300)
                used[pid][4] += 1
                rows.append((pid, used[pid][4], code, "", self._url(pid), "[]", now - chance.randrange(DAY_SECONDS)))
        txn.insert("urlerrs", ["pid", "number", "code", "message", "url", "sent", "time"], rows)

    # What runs.

    def tick(self) -> None:
        """The queue manager and the BOT-Ms, five seconds on."""
        now = time.time()
        self.clock += 5
        rate = max(1.0, self.rate(now))
        for name, share in (("results_recorded", 1), ("stored", 0.37), ("unchanged", 0.55), ("failed", 0.06)):
            self.counts[name] += int(rate * share * 5)
        self.counts["wire_bytes"] += int(rate * 61_000 * 5)
        self.counts["sets_answered"] += int(rate * 5 / 9)
        machines, out = [], 0
        for number, (name, capacity) in MACHINES.items():
            robots: list[dict[str, Any]] = []
            if number == self.away:
                machines.append(STATE["machines"][0] | {"machine": number, "name": name} | AWAY)
                self.fetching.pop(number, None)
                continue
            for robot in range(capacity // 16):
                busy = self.chance.randrange(8, 17)
                robots.append({"name": f"robot{robot + 1}", "capacity": 16, "busy": busy, "paused": False})
            busy = sum(robot["busy"] for robot in robots)
            out += busy
            machines.append(
                STATE["machines"][0]
                | {"machine": number, "name": name, "capacity": capacity, "orders": busy, "robots": robots}
                | {"robots_count": len(robots), "content": f"http://{ADDRESS}:{self.ports.get(number, 1)}"}
            )
            self.fetching[number] = [self._fetch(robot["name"]) for robot in robots for _ in range(robot["busy"])]
        results = {name: self.counts[name] for name in ("stored", "unchanged", "failed", "wire_bytes")}
        counted = {name: self.counts[name] for name in ("sets_answered", "results_recorded", "orders_sent")}
        state = STATE | {
            "time": int(now),
            "clock": self.clock,
            "machines": machines,
            "machines_connected": sum(each["connected"] for each in machines),
            "capacity": sum(each["capacity"] for each in machines),
            "orders_out": out,
            "unses": ["uns-a", "uns-b"],
            "unses_connected": 2,
            "queue_rows": self.queue_rows(now),
            "counts": STATE["counts"] | counted,
            "results": results,
            "orders": [],
            "absorb_waiting": 12,
            "providers_active": 590,
            "providers_waiting": 61,
        }
        self.database.now(save_state, 1, json.dumps(state))

    def _fetch(self, robot: str) -> dict[str, Any]:
        pid, url = self.chance.choice(self.queued)
        seconds = round(self.chance.expovariate(0.4), 1)
        size = int(self.chance.expovariate(1 / 50_000))
        return {"pid": pid, "url": url, "robot": robot, "seconds": seconds, "bytes": size, "attempt": 1}

    def answer(self, number: int) -> ThreadingHTTPServer:
        """The content port of a machine: ``/status``."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                held = site.fetching.get(number, [])
                body = json.dumps({"machine": number, "fetching": held, "out": len(held), "waiting": 3}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((ADDRESS, 0), Handler)
        self.ports[number] = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def main(folder: str, *pages: str) -> None:
    """Make it, run the monitor over it, take the pictures (those of the documentation, or of these pages)."""
    with tempfile.TemporaryDirectory() as home:
        site = BusySite(Path(home))
        site.fill()
        for number in MACHINES:
            site.answer(number)
        site.database.now(lambda txn: txn.execute("UPDATE counters SET value = 1 WHERE name = 'qm_run'"))
        site.tick()
        port = 9600 + os.getpid() % 300
        config = Path(home, "lcc.toml")
        config.write_text(
            f'home = "{home}"\ntimezone = "UTC"\n[botm]\nmachine = 9\n[database]\nurl = "sqlite:lcc.db"\n[web]\n'
            f'listen = "tcp:{port}:interface={ADDRESS}"\nquery_timeout = 60\n',
            encoding="utf-8",
        )
        program = Path(sys.executable).with_name("lcc-web")
        monitor = subprocess.Popen([program, "--config", str(config)])
        over = threading.Event()

        def tick() -> None:
            while not over.wait(5):
                site.tick()

        ticking = threading.Thread(target=tick)
        ticking.start()
        try:
            time.sleep(22)  # the first rates need two states
            address = f"http://{ADDRESS}:{port}"
            take(address, "ann", PASSWORD, Path(folder), pages, ("monitor-light", "monitor-phone"))
            site.away = AWAY_MACHINE
            time.sleep(10)
            take(address, "ann", PASSWORD, Path(folder), pages, ("monitor-dark",))
        finally:
            over.set()
            ticking.join()
            monitor.terminate()
            monitor.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
