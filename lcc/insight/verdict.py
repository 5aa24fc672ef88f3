"""Whether all is well; else what is wrong, since when, and what to do.

:func:`judge` is pure: from what is known to the troubles.  :class:`Troubles` remembers since when there is each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

import attrs

from lcc.domain.wording import duration, number
from lcc.errors import entry_for
from lcc.insight.evidence import MACHINE, MANAGER, ROBOT, UNS, Disconnected, Evidence, ProcessHealth, outcomes
from lcc.insight.qm_state import Live
from lcc.model.shellwords import shell_command
from lcc.model.tasks import ManagerState
from lcc.storage.tasks.figures import TaskFigures

FAILING_RESULTS = 20
"""Fewer results of the last minutes are not judged."""
UNREACHABLE_SITES = 5
"""Fewer are no trouble, whatever their share."""
_STAGES = {
    "qm": "queue",
    "qm-database": "queue",
    "paused": "queue",
    "overload": "uns",
    "no-uns": "uns",
    "uns": "uns",
    "uns-paused": "uns",
    "no-botm": "robots",
    "no-robot": "robots",
    "away": "robots",
    "machine": "robots",
    "robots": "robots",
    "failing": "robots",
    "lag": "queue",
    "sites": "robots",
    "stuck": "robots",
}
"""Of the way from the sources to the content users, by the keys of troubles, or what they begin with."""
_STAGE_OF_ROLE = {"rs": "providers", "uns": "uns", "qm": "queue", "botm": "robots", "bot": "robots", "cu": "users"}
ROBOTS_NAMED = 3
STUCK_SECONDS = 900.0
"""Orders are out, and nothing has come back for this long."""


class Level(IntEnum):
    """How bad it is."""

    NOTE = 1
    """Worth knowing: somebody else's trouble, or the operator's own doing."""
    WARNING = 2
    """Something does not work as it should, or soon will not."""
    BAD = 3
    """The LCC, or a part of it, does not do its work."""


@attrs.frozen
class Trouble:
    """
    :ivar key: names it; the same as long as it lasts.
    :ivar what: a sentence without its full stop.
    :ivar remedy: what to do, a sentence.
    :ivar since: seconds since 1970; None: not known.
    :ivar seen: since the monitor has seen it; it may be older.
    :ivar stage: where it is on the way from the sources to the content users; empty: everywhere, or not on that way.
    :ivar missed: (kind, name) of who is away, and may have been taken away for good; None: nobody.
    """

    key: str
    level: Level
    what: str
    remedy: str
    since: float | None = None
    seen: bool = False
    stage: str = ""
    missed: tuple[str, str] | None = None


def judge(known: Evidence) -> list[Trouble]:
    """All that is wrong or worth knowing, the worst first."""
    found = list(_of_database(known))
    if known.live is not None:
        live = known.live
        if live.alive:
            found += _of_intake(live)
            found += _of_robots(known, live)
            found += _of_away(known, live)
            found += _of_results(known)
        else:
            found.append(_dead(live))
    found += _of_processes(known.processes)
    found += _of_others(known)
    if known.tasks is not None and known.tasks.heard_time:
        found += _of_tasks(known, known.tasks)
    placed = [attrs.evolve(each, stage=each.stage or _stage(each.key)) for each in found]
    return sorted(placed, key=lambda trouble: -trouble.level)


def _level(value: float, warning: float, bad: float) -> Level:
    return Level.BAD if value > bad else Level.WARNING if value > warning else Level.NOTE


def _stage(key: str) -> str:
    return _STAGES.get(key) or _STAGES.get(key.partition("-")[0], "")


def _of_database(known: Evidence) -> Iterator[Trouble]:
    if known.database:
        yield Trouble(
            "database",
            Level.BAD,
            f"The monitor cannot read the database: {known.database}",
            "Check that the database server runs and has disk space, and run lcc-admin check. Until then, the "
            "numbers shown are stale.",
        )
    if known.disk:
        yield Trouble(
            "disk", Level.BAD, f"The database's disk is almost full: {known.disk}", "Free some space there."
        )


def _dead(live: Live) -> Trouble:
    if not live.state:
        return Trouble(
            "qm",
            Level.BAD,
            "No queue manager has run yet: no sets are accepted, nothing is fetched",
            "Start it: twistd lcc-qm, or lcc for all roles.",
        )
    if live.stopped:
        return Trouble(
            "qm",
            Level.BAD,
            "The queue manager is stopped: nothing is fetched",
            "Start it: systemctl start lcc-role@qm, or twistd lcc-qm.",
            float(live.state["time"]),
        )
    return Trouble(
        "qm",
        Level.BAD,
        "The queue manager is not running, or cannot write to the database: nothing is fetched",
        "Start it (systemctl start lcc-role@qm), or check its log.",
        float(live.state["time"]),
    )


def _of_intake(live: Live) -> Iterator[Trouble]:
    state = live.state
    if state.get("database"):
        yield Trouble(
            "qm-database",
            Level.BAD,
            f"The queue manager is waiting for the database: {state['database']}",
            "It resumes automatically; check that the database runs and has disk space.",
        )
    if state.get("paused_since") is not None:
        yield Trouble(
            "paused",
            Level.WARNING,
            "The queue manager is paused by an operator: nothing is fetched",
            "Run resume() at its console (lcc-admin console qm).",
            float(state["paused_since"]),
        )
    if state.get("overload"):
        yield Trouble(
            "overload",
            Level.WARNING,
            f"No sets are accepted: {state['overload']}",
            "Nothing is lost: UNSes spool incoming sets. It ends when the queue has shrunk; more robots "
            "speed that up.",
            state.get("overload_since"),
        )
    if not state.get("unses"):
        yield Trouble(
            "no-uns",
            Level.BAD,
            "No UNS is connected: no sets arrive",
            "Start one (systemctl start lcc-role@uns), or check its log for why it cannot reach the queue manager.",
        )
    if state.get("unses_paused"):
        yield Trouble(
            "uns-paused",
            Level.WARNING,
            f"Paused by an operator: {', '.join(state['unses_paused'])}; providers are told to try again later",
            "Run resume() at its console.",
        )


def _of_robots(known: Evidence, live: Live) -> Iterator[Trouble]:
    state = live.state
    since = {each.name: each.since for each in known.away if each.kind == MACHINE}
    machines = state.get("machines", ())
    if not any(machine["connected"] for machine in machines):
        yield Trouble(
            "no-botm",
            Level.BAD,
            "No BOT-M is connected: nothing is fetched",
            "Start one (systemctl start lcc-role@botm), or check its log for why it cannot reach the queue manager.",
        )
        return
    if not state["capacity"]:
        full = [each for each in machines if each["ready"] and each.get("trouble")]
        if not full and not live.pauses and not live.refused:
            yield Trouble(
                "no-robot",
                Level.BAD,
                "No robot is connected: nothing is fetched",
                "Start one (systemctl start lcc-role@bot), or check its log for why it cannot reach its BOT-M.",
            )
    for each in machines:
        name = f"machine {each['machine']}"
        if not each["connected"] and str(each["machine"]) in known.taken_away:
            continue
        if not each["connected"]:
            yield Trouble(
                f"away-{each['machine']}",
                Level.WARNING,
                f"The BOT-M of {name} is unreachable",
                AWAY_MACHINE,
                since.get(str(each["machine"])),
                missed=(MACHINE, str(each["machine"])),
            )
        elif each.get("refused"):
            yield Trouble(
                f"machine-{each['machine']}",
                Level.BAD,
                f"{name[:1].upper()}{name[1:]} gets no orders: {each['refused']}",
                "It gets orders once it connects through central BOT-Ms of this version.",
            )
        elif each.get("trouble"):
            yield Trouble(
                f"machine-{each['machine']}",
                Level.BAD,
                f"Cannot store content on {name}: {each['trouble']}",
                "Free or repair its disk; it resumes automatically.",
            )
        elif each.get("paused"):
            yield Trouble(
                f"paused-{each['machine']}",
                Level.WARNING,
                f"Paused by an operator: {name} ({each['paused']})",
                "Run resume() at its console.",
                stage="robots",
            )

        if each["connected"] and each.get("robots_refused"):
            yield Trouble(
                f"robots-refused-{each['machine']}",
                Level.WARNING if each["capacity"] else Level.BAD,
                f"Robots on {name} get no orders: {each['robots_refused']}",
                "Set [bot] content to the folder of their BOT-M and restart them; the other robots do their work.",
            )


AWAY_MACHINE = "Start it there (systemctl start lcc-role@botm): until then its content is unavailable."


def _of_away(known: Evidence, live: Live) -> Iterator[Trouble]:
    shown = {str(each["machine"]) for each in live.state.get("machines", ())}
    robots: dict[str, list[Disconnected]] = {}
    for each in known.away:
        missed = (each.kind, each.name)
        if each.kind == UNS and live.state.get("unses"):
            yield Trouble(
                f"uns-{each.name}",
                Level.WARNING,
                f"UNS {each.name} is unreachable: sets of its providers do not arrive",
                "Start it there (systemctl start lcc-role@uns), or check its log for why it cannot reach the queue "
                "manager.",
                each.since,
                stage="uns",
                missed=missed,
            )
        elif each.kind == MACHINE and shown and each.name not in shown:
            what = f"The BOT-M of machine {each.name} is unreachable"
            yield Trouble(f"away-{each.name}", Level.WARNING, what, AWAY_MACHINE, each.since, missed=missed)
        elif each.kind == ROBOT and live.state["capacity"]:
            robots.setdefault(each.name.partition(" ")[0], []).append(each)
    for machine, away in robots.items():
        yield _robots_away(machine, away)


def _robots_away(machine: str, away: list[Disconnected]) -> Trouble:
    names = [each.name.partition(" ")[2] for each in away]
    who = ", ".join(names[:ROBOTS_NAMED])
    if len(names) > ROBOTS_NAMED:
        who += f" and {number(len(names) - ROBOTS_NAMED, 'more robot')}"
    return Trouble(
        f"robots-{machine}",
        Level.WARNING,
        f"Robot {who} of machine {machine} is unreachable"
        if len(names) == 1
        else f"Robots {who} of machine {machine} are unreachable",
        "The other robots do their work; start them again, or check their logs."
        if len(names) > 1
        else "The other robots do its work; start it again, or check its log.",
        min(each.since for each in away),
        missed=(ROBOT, machine),
    )


def _of_processes(processes: tuple[ProcessHealth, ...]) -> Iterator[Trouble]:
    for each in processes:
        if not each.is_trouble:
            continue
        key = f"process-{each.address}"
        stage = _STAGE_OF_ROLE.get(each.roles[0], "") if len(each.roles) == 1 else ""
        if each.silent:
            units = [f"lcc-role@{role}" for role in each.roles]
            start = f" ({shell_command('systemctl', 'start', *units)})" if units else ""
            yield Trouble(
                key,
                Level.BAD,
                f"{each.name} is unreachable: {each.silent}",
                f"Start it{start}, or check its log; [web] watch in lcc.toml lists the processes to poll.",
                each.since,
                stage=stage,
            )
        else:
            fault = each.faults[0]
            more = f" (and {number(len(each.faults) - 1, 'more fault')})" if len(each.faults) > 1 else ""
            yield Trouble(
                key,
                Level.WARNING,
                f"{fault.role} at {each.address} is not ready: {fault.text}{more}",
                f"{fault.remedy[:1].upper()}{fault.remedy[1:]}.",
                each.since,
                stage=stage,
            )


def _of_results(known: Evidence) -> Iterator[Trouble]:
    ended, limits = outcomes(known.points, known.now), known.thresholds
    level = _level(ended.failed_share, limits.failing_warning, limits.failing_bad)
    if ended.total >= FAILING_RESULTS and level > Level.NOTE:
        worst = ""
        if known.failures is not None and known.failures.groups:
            code = known.failures.groups[0].code
            worst = f"; most often {code} ({entry_for(code).text})"
        yield Trouble(
            "failing",
            level,
            f"{ended.failed_share:.0%} of fetches fail: {ended.failed:,.0f} of {ended.total:,.0f} in the last ten "
            f"minutes{worst}",
            "If all sites fail, check this end: network, resolver, proxy. See the errors page.",
        )
    stretch = [point for point in known.points if point.time > known.now - STUCK_SECONDS]
    covered = sum(point.seconds for point in stretch)
    if (
        covered > STUCK_SECONDS * 0.95
        and all(point.values["orders_out"] > 0 for point in stretch)
        and not any(point.values["results_recorded"] for point in stretch)
    ):
        yield Trouble(
            "stuck",
            Level.BAD,
            f"Orders are outstanding, but no result has arrived for {duration(STUCK_SECONDS)}",
            "Check the logs of the robots and their BOT-Ms.",
        )


def _of_others(known: Evidence) -> Iterator[Trouble]:
    if known.failures is not None:
        sites = sum(group.sites for group in known.failures.groups)
        share = sites / known.providers if known.providers and sites >= UNREACHABLE_SITES else 0.0
        if sites:
            yield Trouble(
                "sites",
                _level(share, known.thresholds.unreachable_warning, known.thresholds.unreachable_bad),
                f"{number(sites, 'site')} unreachable" + (f" ({share:.0%} of all)" if share >= 0.01 else ""),
                "Unreachable sites are retried automatically, with growing delays. If there are many, check this "
                "end: network, resolver, proxy.",
                min((group.since for group in known.failures.groups if group.sites and group.since), default=None),
            )
    waits = 0.0 if known.lag_since is None else known.now - known.lag_since
    level = _level(waits, known.thresholds.lag_warning, known.thresholds.lag_bad)
    if level > Level.NOTE:
        yield Trouble(
            "lag",
            level,
            f"Sets that could be fetched have waited for up to {duration(waits)}",
            "More robots, or more connections of each ([bot] concurrency), speed it up; or the bandwidth of their "
            "providers is too small. The list of providers by lag tells which wait.",
            known.lag_since,
        )
    for reason, count in known.wanted.items():
        yield Trouble(
            f"wanted-{reason}",
            Level.NOTE,
            f"{number(count, 'provider')} {'is' if count == 1 else 'are'} asked for a full set ({reason})",
            "lcccp sends it at its next run.",
        )
    if known.held[0]:
        yield Trouble(
            "deletions-held",
            Level.NOTE,
            f"{number(known.held[1], 'page')} of {number(known.held[0], 'provider')} are missing from full sets: "
            f"their deletion is held as a mass deletion",
            "See lcc-admin provider show N; then allow-deletions N or drop-deletions N.",
        )
    if known.waiting:
        yield Trouble(
            "registrations",
            Level.NOTE,
            f"{number(known.waiting, 'registration')} {'waits' if known.waiting == 1 else 'wait'} for approval",
            "List them with lcc-admin register list, accept them with lcc-admin register approve N.",
        )


def _of_tasks(known: Evidence, tasks: TaskFigures) -> Iterator[Trouble]:
    if not tasks.is_alive(known.now):
        if tasks.has_tasks or tasks.open or tasks.orders:
            yield Trouble(
                "scheduler",
                Level.BAD,
                "The scheduler is not running: tasks, feeds and jobs wait",
                "Start it (systemctl start lcc-role@scheduler), or see its log for why it ended.",
                tasks.heard_time,
            )
        return
    waiting = max(0, tasks.open - tasks.running)
    if waiting and not tasks.connected(known.now):
        yield Trouble(
            "no-manager",
            Level.BAD,
            f"No manager is connected: {number(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}",
            "Start one (systemctl start lcc-role@manager), or see its log for why it cannot reach the scheduler.",
        )
    for each in tasks.managers:
        if each.state(known.now) is ManagerState.DOWN and each.name not in known.managers_dismissed:
            yield Trouble(
                f"manager-{each.name}",
                Level.WARNING,
                f"Manager {each.name} on {each.host} is down",
                "Start it there (systemctl start lcc-role@manager), or see its log. Others try its jobs again.",
                each.since(known.now),
                missed=(MANAGER, each.name),
            )
        elif each.paused and each.down_time is None:
            text = f"Manager {each.name} on {each.host} is paused: {each.paused}"
            yield Trouble(f"manager-paused-{each.name}", Level.NOTE, text, "Resume it at its console: resume().")
    if tasks.lost_today:
        yield Trouble(
            "jobs-lost",
            Level.NOTE,
            f"{number(tasks.lost_today, 'job')} {'was' if tasks.lost_today == 1 else 'were'} lost today: "
            f"accepted by a manager and never reported",
            "They are tried again by themselves; lcc-admin job list --state lost shows those that were given up.",
        )
    if tasks.failing:
        yield Trouble(
            "tasks-failing",
            Level.NOTE,
            f"{number(tasks.failing, 'task')} {'fails' if tasks.failing == 1 else 'fail'}",
            "The page Tasks lists them, with their messages; or lcc-admin task list --failing.",
        )


class Troubles:
    """What is wrong now, with since when."""

    def __init__(self) -> None:
        self._first_seen: dict[str, float] = {}

    def update(self, found: Iterable[Trouble], now: float) -> tuple[Trouble, ...]:
        """The same with their times."""
        listed = list(found)
        self._first_seen = {each.key: self._first_seen.get(each.key, now) for each in listed}
        return tuple(
            each if each.since is not None else attrs.evolve(each, since=self._first_seen[each.key], seen=True)
            for each in listed
        )


def sentence(troubles: tuple[Trouble, ...], known: bool) -> str:
    """All of it in a sentence.

    :param known: something was read yet.
    """
    if not known and not troubles:
        return "No data yet: the monitor has just started."
    wrong = [each for each in troubles if each.level > Level.NOTE]
    notes = len(troubles) - len(wrong)
    if not wrong:
        return "All is well." if not notes else f"All is well; {number(notes, 'note')}."
    more = f" (and {number(len(wrong) - 1, 'more problem')})" if len(wrong) > 1 else ""
    return f"{wrong[0].what}{more}."
