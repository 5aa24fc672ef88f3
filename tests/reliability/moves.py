"""Kills every process of several sub-LCCs while providers move between them (``make kill-moves KILLS=500``).

``python -m tests.reliability.moves --kills 500 [--seed N] [--backend galera]``

Three sub-LCCs, a front end, and its database on SQLite or on a Galera cluster of three, whose nodes are killed, too.
Providers publish through ``lcc-fe-uns``, of some a notifier tells at its port of notifiers, newcomers register at
``lcc-fe-rs`` and publish then; all of them move at random.  Content users follow ``lcc-fe-cu``, each answer with
another limit, and one reads listings and ResourceSync.  A run has three parts:

* *cells*: a move is watched, and a process is killed as soon as it is in a state: each state of a move with each
  process that has to do with it;
* random kills, of several at once now and then; before the last ones nobody publishes any more;
* then, at rest, providers move on, and newcomers register, while processes are killed.

After the second and the third it is left alone until it is at rest, and judged, from outside (:mod:`oracle`,
:mod:`moves_oracle`):

* all that holds of an LCC holds of the sub-LCCs together: no accepted set is lost, no error, no count; the web server
  has never seen two requests of a provider at once, nor one outside of its hours or beyond its bandwidth;
* each provider is in one sub-LCC, as a whole, and the front end says in which;
* each newcomer is one provider, with an id of the sub-LCC that made it, or none if it was not answered;
* content users have what the caches have together, and were told nothing again that they knew; listings have each
  page once;
* while nobody publishes nothing is fetched, content users are told nothing, and each listing is the whole cache;
* ``fsck`` finds nothing but what killed processes leave behind; no process has logged a traceback; all end in order.

What was reached stands in a file, so it can be stopped and goes on where it was: with the cells that had the fewest.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from lcc.model.frontend.moves import Move, MoveState
from tests.support.ports import free_port
from tests.support.processes.followers import Follower
from tests.support.processes.starting import PLAIN_SHARE, Mixed, mixed
from tests.support.servers.parted_galera import PartedGalera
from tests.support.waiting import wait_for

from .cluster import KINDS, Kind, Registered
from .commands import parser, tell
from .faults import Faults
from .journal import Journal
from .listings import Listing, listings
from .logs import faults_in_logs
from .moves_oracle import (
    check_copies,
    check_listings,
    check_quiet,
    check_ranges,
    check_repeats,
    judge_all,
    registered,
    repeats,
    whole_case,
)
from .oracle import Violation, figures
from .repeating import repeat
from .results import Results
from .run import PART_SHARE, PATIENCE_SECONDS, ROOT, SERVERS, TICK_SECONDS, Broken, World
from .sub_lccs import FRONT, NODE, ROLES, SubLccs

BACKENDS = ("sqlite", "galera")
STATES = (MoveState.PLANNED, MoveState.COPYING, MoveState.FREEZING, MoveState.FLIPPED, MoveState.ACTIVE)
SOURCE, DEST = "source", "destination"
SUFFERERS = (
    *(f"{side} {role}" for side in (SOURCE, DEST) for role in ROLES),
    *("front fe-uns", "front fe-cu", "front fe-rs"),
)
CELLS = [f"{state.value}, {who}" for state, who in itertools.product(STATES, (*SUFFERERS, NODE))]
TRIES = 3
"""A state may be over before anybody has seen it."""
POLL_SECONDS = 0.0005
ANSWER_SECONDS = 0.03
CANCEL_SHARE = 0.08
FAULT_SECONDS = 1.2
DRAIN_SHARE = 0.25
"""Of the random kills, those that come when nobody publishes any more."""
MOVE_SECONDS_MAX = 300.0
"""So long a move is waited for."""


@attrs.frozen
class Plan:
    """What a run is to be.

    :ivar cells: what is killed when (see :data:`CELLS`).
    :ivar kills: random ones, after that.
    :ivar quiet: kills while nobody publishes.
    :ivar providers: that publish; ``noticed``: that a notifier tells of.
    :ivar newcomer_seconds: between two newcomers, on average.
    :ivar move_seconds: between two moves, on average.
    :ivar special: every third provider is of one of these kinds.
    :ivar whole: each sub-LCC is one process.
    :ivar plain_share: of the starts, those that are not forked (:mod:`tests.support.processes.starting`).
    """

    seed: int
    backend: str
    cells: tuple[str, ...] = ()
    kills: int = 30
    quiet: int = 5
    subs: int = 3
    providers: int = 50
    noticed: int = 4
    newcomer_seconds: float = 6.0
    followers: int = 3
    pace_seconds: float = 12.0
    move_seconds: float = 3.0
    special: tuple[Kind, ...] = KINDS
    whole: bool = False
    plain_share: float = PLAIN_SHARE


class Run:
    """See :func:`run`."""

    def __init__(self, plan: Plan, folder: Path, server: Any, tell: Any, how: Mixed) -> None:
        self.plan = plan
        self.folder = folder
        self.cells: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        """State -> moves that were in it when something was killed."""
        self.quiet_seconds: list[float] = []
        self._tell = tell
        self._random = random.Random(plan.seed)
        self.how = how
        self.lccs = SubLccs(folder / "lcc", server, plan.subs, whole=plan.whole, how=how)
        self._port = free_port()
        self.providers: list[Registered] = []
        """All that are known to be there, newcomers included when they were last looked at."""
        self._ranges: dict[int, str] = {}
        self.world: World | None = None
        self.followers = [
            Follower(f"unix:{self.lccs.front.folder}/home/cu.sock", folder / f"follower{number}", "random")
            for number in range(1, plan.followers + 1)
        ]
        self._reader: subprocess.Popen[bytes] | None = None
        self._quiet = float("inf")
        self.counted: Counter[str] = Counter()
        """What content users and newcomers have done."""
        galera = server if isinstance(server, PartedGalera) else None
        self.faults = Faults(self.lccs, self._random, 0.0, self._kill_follower, galera=galera, part_share=PART_SHARE)
        self.lccs.meanwhile = self.faults.tick
        self._move_due = 0.0

    def go(self) -> dict[str, int]:
        """All of it; gives what there was to judge.

        :raises Broken: promises were broken.
        """
        plan, lccs = self.plan, self.lccs
        lccs.start(*lccs.configs)
        wait_for("all sub-LCCs are there", self._are_up, PATIENCE_SECONDS)
        lccs.join()
        publishing = lccs.register(range(plan.providers), self._port, plan.special)
        noticed = lccs.register(range(plan.providers, plan.providers + plan.noticed), self._port, ())
        self.providers = publishing + noticed
        wait_for("all have reported", self._have_reported, PATIENCE_SECONDS)
        self.world = World(
            self.folder,
            {
                "seed": plan.seed,
                "port": self._port,
                "unses": [lccs.front.port],
                "pace": plan.pace_seconds,
                "answer": ANSWER_SECONDS,
                "providers": [[each.pid, each.password, each.name] for each in publishing],
                "noticed": [[each.pid, each.name] for each in noticed],
                "notifiers": f"unix:{lccs.front.folder}/home/notify-scheduler.sock",
                "rs": lccs.front.rs_port,
                "newcomers": plan.newcomer_seconds,
            },
        )
        for follower in self.followers:
            follower.start()
        self._read_listings()
        wait_for("the first pages are fetched", lambda: '"gave"' in self._journal_text(), PATIENCE_SECONDS)
        for cell in plan.cells:
            self._cell(cell)
        before = sum(self.faults.kills.values())
        self._random_kills(before + plan.kills - int(DRAIN_SHARE * plan.kills))
        self.world.ask_to_pause()
        self._random_kills(before + plan.kills)
        self.world.wait_for_pause()
        self._rest()
        self._judge()
        begun = len(self._journal().asked)
        self._quiet = time.time()
        self.world.register()
        before = sum(self.faults.kills.values())
        self._random_kills(before + plan.quiet)
        self.world.pause()
        self._rest()
        wait_for("listings are read", self._have_read, PATIENCE_SECONDS)
        found = self._judge(list(check_quiet(self._journal().asked[begun:])))
        self._fsck()
        self._end()
        return found

    def _read_listings(self) -> None:
        command = [sys.executable, "-m", "tests.reliability.listings", f"{self.lccs.front.folder}/home/cu.sock"]
        with (self.folder / "listings.log").open("ab") as log:
            self._reader = subprocess.Popen([*command, str(self._listings_path)], stdout=log, stderr=log, cwd=ROOT)

    @property
    def _listings_path(self) -> Path:
        return self.folder / "listings"

    def _listings(self) -> list[Listing]:
        assert self._reader is not None
        if self._reader.poll() is not None:
            raise AssertionError((self.folder / "listings.log").read_text()[-2000:])
        return list(listings(self._listings_path))

    def _have_read(self) -> bool:
        """One listing and one resource list, at least, while nobody published."""
        return {bool(each.pid) for each in self._listings() if each.began > self._quiet} == {True, False}

    def _are_up(self) -> bool:
        return all((sub.folder / "home" / "lcc.db").exists() for sub in self.lccs.subs.values())

    def _have_reported(self) -> bool:
        return all(not row["stale"] for row in self.lccs.front.rows("fe", "list"))

    def _journal_text(self) -> str:
        assert self.world is not None
        return self.world.journal.read_text() if self.world.journal.exists() else ""

    def _journal(self) -> Journal:
        assert self.world is not None
        return Journal.read(self.world.journal)

    def _kill_follower(self) -> None:
        follower = self._random.choice(self.followers)
        follower.kill()
        follower.start()

    # Moves and kills.

    def _order(self) -> Move | None:
        """Order some move."""
        moving = {move.pid for move in self.lccs.moves_under_way()}
        resting = [each.pid for each in self.providers if each.pid not in moving]
        if not resting:
            return None
        pid = self._random.choice(resting)
        elsewhere = [name for name in self.lccs.subs if name != self.lccs.home(pid)]
        return self.lccs.order(pid, self._random.choice(elsewhere), int(time.time()))

    def _random_kills(self, upto: int) -> None:
        due = time.monotonic() + self._random.expovariate(1 / FAULT_SECONDS)
        while sum(self.faults.kills.values()) < upto:
            self._moves()
            self.faults.tick()
            if time.monotonic() >= due:
                self._note_states()
                self.faults.step(() if self._all_serve() else self.lccs.databases)
                due = time.monotonic() + self._random.expovariate(1 / FAULT_SECONDS)
            time.sleep(TICK_SECONDS)
        self.faults.heal()

    def _moves(self) -> None:
        """Order one now and then; cancel some."""
        if time.monotonic() < self._move_due:
            return
        self._move_due = time.monotonic() + self._random.expovariate(1 / self.plan.move_seconds)
        moves = self.lccs.moves_under_way()
        if moves and self._random.random() < CANCEL_SHARE:
            self.lccs.cancel(self._random.choice(moves).pid, int(time.time()))
        elif len(moves) < 2 * self.plan.subs:
            self._order()

    def _all_serve(self) -> bool:
        """Nodes of a cluster that are killed before the last one is back would leave none that serves."""
        return all(node.serves() for node in self.lccs.databases.values())

    def _note_states(self) -> None:
        self.seen.update(move.state.value for move in self.lccs.moves_under_way())

    def _cell(self, cell: str) -> None:
        """Kill something when a move is in a state."""
        text, _, who = cell.partition(", ")
        state = MoveState(text)
        for _ in range(TRIES):
            wait_for("all run", self._all_run, PATIENCE_SECONDS)
            move = self._order()
            if move is not None and self._watch(move, state, who):
                self.cells[cell] += 1
                return
        self.missed[cell] += 1

    def _all_run(self) -> bool:
        self.faults.tick()
        return self._all_serve() and all(self.lccs.is_up(name) for name in self.lccs.configs)

    def _watch(self, move: Move, state: MoveState, who: str) -> bool:
        """True: it was killed in this state."""
        order = list(MoveState)
        end = time.monotonic() + MOVE_SECONDS_MAX
        while time.monotonic() < end:
            now = self.lccs.state(move.id)
            if now is state:
                self.faults.kill(self._sufferer(move, who))
                return self.lccs.state(move.id) in (state, None)
            if now is not None and order.index(now) > order.index(state):
                return False
            self.faults.tick()
            time.sleep(POLL_SECONDS)
        raise Broken([Violation("move", f"it does not go on: {self._moved(move)}")], self.folder)

    def _moved(self, move: Move) -> Move:
        return next(each for each in self.lccs.moves() if each.id == move.id)

    def _sufferer(self, move: Move, who: str) -> str:
        """The name of a process."""
        if who == NODE:
            return self._random.choice(list(self.lccs.databases))
        side, _, role = who.partition(" ")
        if side == "front":
            return f"{FRONT}.{role}"
        return f"{self.lccs.name_of(move.source if side == SOURCE else move.dest)}.{role}"

    # Rest, and what is found then.

    def _rest(self) -> None:
        began = time.monotonic()
        self.faults.heal()
        while True:
            left = self.lccs.waiting()
            if not left:
                time.sleep(1.0)
                left = self.lccs.waiting()
            if not left:
                break
            if time.monotonic() > began + PATIENCE_SECONDS:
                moves = [str(move) for move in self.lccs.moves_under_way()]
                raise Broken([Violation("P2", f"it does not come to rest: {left} {moves}")], self.folder)
            time.sleep(0.5)
        self.quiet_seconds.append(time.monotonic() - began)
        self._tell(f"{sum(self.faults.kills.values())} kills, at rest after {self.quiet_seconds[-1]:.0f} s")

    def _judge(self, before: list[Violation] | None = None) -> dict[str, int]:
        journal = self._journal()
        self._welcome(registered(self._port, journal, self.lccs.roots()))
        found = self.lccs.found(self.providers)
        case = whole_case(self.providers, self._port, journal, found)
        read, told = self._listings(), [each.tellings() for each in self.followers]
        violations = [
            *(before or []),
            *judge_all(self.providers, self._port, journal, found),
            *check_ranges(self.providers, found, self._ranges),
            *check_listings(case, read, self._quiet),
            *check_repeats(case, told, found.flips, self._quiet),
            *self._logs(),
        ]
        end = time.monotonic() + PATIENCE_SECONDS
        while wrong := list(check_copies(case, [each.copy() for each in self.followers])):
            if violations or time.monotonic() > end:
                violations += wrong
                break
            time.sleep(0.5)
        if violations:
            raise Broken(violations, self.folder)
        self.counted = Counter(
            newcomers=len(journal.newcomers),
            unanswered_newcomers=sum(not each.pids for each in journal.newcomers.values()),
            noticed_sets=sum(each.drawn is not None for each in journal.sets.values()),
            listings=sum(not each.pid for each in read),
            resource_lists=sum(bool(each.pid) for each in read),
            told=sum(len(each) for each in told),
            told_again=sum(1 for each in told for _ in repeats(each)),
        )
        return figures(case)

    def _welcome(self, newcomers: list[Registered]) -> None:
        """Those that have come are providers like others; they move, too."""
        known = {each.pid for each in self.providers}
        self.providers += [each for each in newcomers if each.pid not in known]
        self._ranges |= {
            each.pid: self.lccs.range_of(each.pid) for each in self.providers if each.pid not in self._ranges
        }

    def _logs(self) -> list[Violation]:
        return [Violation("log", text) for text in faults_in_logs(self.lccs.configs, self.lccs.log)]

    def _fsck(self) -> None:
        violations = []
        for name, sub in self.lccs.subs.items():
            wait_for("orphans can be told", lambda sub=sub: "undecided" not in sub.fsck(), PATIENCE_SECONDS)  # type: ignore[misc]
            found = sub.fsck("--repair")
            if found.keys() - {"orphan", "leftover"}:
                violations.append(Violation("P7", f"fsck of {name}: {found}"))
        wait_for("files are removed", lambda: not self.lccs.waiting(), PATIENCE_SECONDS)
        for name, evidence in self.lccs.found(self.providers).evidence.items():
            named = [row for row in evidence.rows if row.cached]
            there = len(self.lccs.subs[name].content_files())
            if len(named) != there or any(row.data is None for row in named):
                violations.append(Violation("P7", f"{name}: {len(named)} rows have files, {there} files are there"))
        if violations:
            raise Broken(violations, self.folder)

    def _end(self) -> None:
        stuck = [Violation("log", text) for text in self.lccs.stop_in_order()]
        if stuck or self._logs():
            raise Broken(stuck + self._logs(), self.folder)

    def close(self) -> None:
        """End all processes."""
        for follower in self.followers:
            follower.end()
        if self._reader is not None:
            self._reader.kill()
            self._reader.wait()
        if self.world is not None:
            self.world.stop()
        self.lccs.close()

    def report(self, began: float, violations: int, judged: dict[str, int]) -> dict[str, Any]:
        """For the file of results."""
        moves: Counter[str] = Counter()
        if not violations:
            moves.update(move.state.value for move in self.lccs.moves())
        return {
            "seed": self.plan.seed,
            "backend": self.plan.backend,
            "kills": dict(sorted(self.faults.kills.items())),
            "parted": dict(sorted(self.faults.parted.items())),
            "starts": dict(self.how.counts),
            "cells": dict(self.cells),
            "missed": dict(self.missed),
            "states": dict(sorted(self.seen.items())),
            "moves": dict(sorted(moves.items())),
            "violations": violations,
            **judged,
            **self.counted,
            "rest_seconds": [round(seconds, 1) for seconds in self.quiet_seconds],
            "seconds": round(time.monotonic() - began, 1),
        }


def run(plan: Plan, tell: Any = lambda text: None) -> dict[str, Any]:
    """One run, in a folder of its own; gives what is to be reported of it.

    :raises Broken: promises were broken; the folder is kept.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="lcc-moves-"))
    (folder / "lcc").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(SERVERS[plan.backend]()) if plan.backend in SERVERS else None
        this = Run(plan, folder, server, tell, stack.enter_context(mixed(plan.seed, plan.plain_share)))
        stack.callback(this.close)
        try:
            report = this.report(began, 0, this.go())
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except BaseException as error:
            tell(f"seed {plan.seed} on {plan.backend}, {dict(this.faults.kills)}: files are in {folder}")
            if isinstance(error, Broken):
                error.report = this.report(began, len(error.violations), {})
            raise
    shutil.rmtree(folder)
    return report


def main() -> int:
    """The exit code: 1 if a promise was broken, in whichever run."""
    settings = parser("kill-moves", __doc__, "random ones, in all", "random kills of one run", BACKENDS)
    settings.set_defaults(kills=500, each=40)
    settings.add_argument("--cells", type=int, default=12, help="cells of the matrix of one run")
    settings.add_argument("--providers", type=int, default=50)
    options = settings.parse_args()

    def one(results: Results, seed: int, backend: str) -> dict[str, Any]:
        plan = Plan(
            seed,
            backend,
            next_cells(results, backend, options.cells, random.Random(seed)),
            options.each,
            providers=options.providers,
            plain_share=options.plain_share,
        )
        return run(plan, tell)

    return repeat(options, BACKENDS, one, reached=random_kills, had=Results.count, table=table)


def random_kills(results: Results) -> int:
    """Kills in all runs, but those for a cell."""
    return results.kills() - reached(results).total()


def reached(results: Results) -> Counter[str]:
    """Cell -> how often it was hit in all runs."""
    cells: Counter[str] = Counter()
    for each in results.runs:
        cells.update(each["cells"])
    return cells


def next_cells(results: Results, backend: str, count: int, chance: random.Random) -> tuple[str, ...]:
    """Those that had the fewest, in any order among equals."""
    had = reached(results)
    possible = [cell for cell in CELLS if backend == "galera" or not cell.endswith(NODE)]
    chance.shuffle(possible)
    return tuple(sorted(possible, key=lambda cell: had[cell])[:count])


def table(results: Results) -> str:
    """For people."""
    had = reached(results)
    kills = results.killed()
    moves: Counter[str] = Counter()
    for each in results.runs:
        moves.update(each["moves"])
    lines = [
        f"{len(results.runs)} runs, {kills.total()} kills {dict(kills)}, moves {dict(moves)}:"
        f" {results.violations()} violations",
        f"{sum(had[cell] > 0 for cell in CELLS)} of {len(CELLS)} cells of the matrix, times hit:",
        f"  {'':18}{''.join(f'{state.value:>10}' for state in STATES)}",
    ]
    for who in (*SUFFERERS, NODE):
        lines.append(f"  {who:18}" + "".join(f"{had[f'{state.value}, {who}']:>10}" for state in STATES))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
