"""Whether all is well; else what is wrong, since when, and what to do.

:func:`judge` is pure: from what is known to the troubles.  :class:`Troubles` remembers since when there is each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

import attrs

from lcc.domain.wording import duration, number
from lcc.errors import entry_for
from lcc.insight.evidence import MACHINE, ROBOT, UNS, Disconnected, Evidence, ProcessHealth
from lcc.insight.qm_state import Live
from lcc.model.shellwords import shell_command

FAILING_SECONDS = 600.0
"""Results are judged over this time …"""
FAILING_RESULTS = 20
"""… if there were so many of them …"""
FAILING_SHARE = 0.5
"""… and more than this share of them failed."""
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
    placed = [attrs.evolve(each, stage=each.stage or _stage(each.key)) for each in found]
    return sorted(placed, key=lambda trouble: -trouble.level)


def _stage(key: str) -> str:
    return _STAGES.get(key) or _STAGES.get(key.partition("-")[0], "")


def _of_database(known: Evidence) -> Iterator[Trouble]:
    if known.database:
        yield Trouble(
            "database",
            Level.BAD,
            f"The monitor cannot read the database: {known.database}",
            "See whether the database server runs and has room, and what lcc-admin check says. Until then figures are"
            " old.",
        )
    if known.disk:
        yield Trouble(
            "disk", Level.BAD, f"The disk of the database is all but full: {known.disk}", "Make room there."
        )


def _dead(live: Live) -> Trouble:
    if not live.state:
        return Trouble(
            "qm",
            Level.BAD,
            "No queue manager has run yet: nothing is taken in, nothing is fetched",
            "Start it: twistd lcc-qm, or lcc for all roles.",
        )
    if live.stopped:
        return Trouble(
            "qm",
            Level.BAD,
            "The queue manager was stopped: nothing is fetched",
            "Start it: systemctl start lcc-role@qm, or twistd lcc-qm.",
            float(live.state["time"]),
        )
    return Trouble(
        "qm",
        Level.BAD,
        "The queue manager is not running, or cannot write to the database: nothing is fetched",
        "Start it (systemctl start lcc-role@qm), or see in its log why it has ended.",
        float(live.state["time"]),
    )


def _of_intake(live: Live) -> Iterator[Trouble]:
    state = live.state
    if state.get("database"):
        yield Trouble(
            "qm-database",
            Level.BAD,
            f"The queue manager waits for the database: {state['database']}",
            "It goes on by itself when the database answers; see whether that runs and has room.",
        )
    if state.get("paused_since") is not None:
        yield Trouble(
            "paused",
            Level.WARNING,
            "An operator has paused the queue manager: it gives out no orders",
            "resume() at its console (lcc-admin console qm) ends that.",
            float(state["paused_since"]),
        )
    if state.get("overload"):
        yield Trouble(
            "overload",
            Level.WARNING,
            f"No sets are taken in: {state['overload']}",
            "Nothing is lost: UNSes keep what they are told. It ends by itself when the queue has shrunk; more robots"
            " make that sooner.",
            state.get("overload_since"),
        )
    if not state.get("unses"):
        yield Trouble(
            "no-uns",
            Level.BAD,
            "No UNS is connected: what providers tell does not arrive",
            "Start one (systemctl start lcc-role@uns), or see in its log why it cannot reach the queue manager.",
        )
    if state.get("unses_paused"):
        yield Trouble(
            "uns-paused",
            Level.WARNING,
            f"An operator has paused {', '.join(state['unses_paused'])}: providers are told to try again later",
            "resume() at its console ends that.",
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
            "Start one (systemctl start lcc-role@botm), or see in its log why it cannot reach the queue manager.",
        )
        return
    if not state["capacity"]:
        full = [each for each in machines if each["ready"] and each.get("trouble")]
        if not full and not live.pauses and not live.refused:
            yield Trouble(
                "no-robot",
                Level.BAD,
                "No robot is connected: nothing is fetched",
                "Start one (systemctl start lcc-role@bot), or see in its log why it cannot reach its BOT-M.",
            )
    for each in machines:
        name = f"machine {each['machine']}"
        if not each["connected"] and str(each["machine"]) in known.taken_away:
            continue
        if not each["connected"]:
            yield Trouble(
                f"away-{each['machine']}",
                Level.WARNING,
                f"The BOT-M of {name} is away",
                AWAY_MACHINE,
                since.get(str(each["machine"])),
                missed=(MACHINE, str(each["machine"])),
            )
        elif each.get("refused"):
            yield Trouble(
                f"machine-{each['machine']}",
                Level.BAD,
                f"{name[:1].upper()}{name[1:]} gets no orders: {each['refused']}",
                "Orders go there as soon as it has connected through central BOT-Ms of this version.",
            )
        elif each.get("trouble"):
            yield Trouble(
                f"machine-{each['machine']}",
                Level.BAD,
                f"On {name} there is no room for content: {each['trouble']}",
                "Make room on its disk; it goes on by itself.",
            )
        elif each.get("paused"):
            yield Trouble(
                f"paused-{each['machine']}",
                Level.WARNING,
                f"An operator has paused {name} ({each['paused']})",
                "resume() at the console there ends that.",
                stage="robots",
            )

        if each["connected"] and each.get("robots_refused"):
            yield Trouble(
                f"robots-refused-{each['machine']}",
                Level.WARNING if each["capacity"] else Level.BAD,
                f"On {name} robots get no orders: {each['robots_refused']}",
                "Set [bot] content to the folder of their BOT-M, and start them again; the others do their work.",
            )


AWAY_MACHINE = (
    "Start it again (systemctl start lcc-role@botm there): until then nobody can read the content that it has."
)


def _of_away(known: Evidence, live: Live) -> Iterator[Trouble]:
    shown = {str(each["machine"]) for each in live.state.get("machines", ())}
    robots: dict[str, list[Disconnected]] = {}
    for each in known.away:
        missed = (each.kind, each.name)
        if each.kind == UNS and live.state.get("unses"):
            yield Trouble(
                f"uns-{each.name}",
                Level.WARNING,
                f"UNS {each.name} is away: what providers tell there does not arrive",
                "Start it again (systemctl start lcc-role@uns there), or see in its log why it cannot reach the queue"
                " manager.",
                each.since,
                stage="uns",
                missed=missed,
            )
        elif each.kind == MACHINE and shown and each.name not in shown:
            what = f"The BOT-M of machine {each.name} is away"
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
        f"Robot {who} of machine {machine} is away"
        if len(names) == 1
        else f"Robots {who} of machine {machine} are away",
        "The others do their work; start them again, or see in their logs why they have ended."
        if len(names) > 1
        else "The others do its work; start it again, or see in its log why it has ended.",
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
                f"{each.name} does not answer: {each.silent}",
                f"Start it{start}, or see its log; [web] watch in lcc.toml says who is asked.",
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
    lately = [point for point in known.points if point.time > known.now - FAILING_SECONDS]
    counts = {
        name: sum(point.values[name] * point.seconds for point in lately)
        for name in ("stored", "unchanged", "failed")
    }
    total = sum(counts.values())
    if total >= FAILING_RESULTS and counts["failed"] > FAILING_SHARE * total:
        worst = ""
        if known.failures is not None and known.failures.groups:
            code = known.failures.groups[0].code
            worst = f"; most often {code} ({entry_for(code).text})"
        yield Trouble(
            "failing",
            Level.WARNING,
            f"Most fetches fail: {counts['failed']:.0f} of {total:.0f} in the last ten minutes{worst}",
            "If all sites fail, look at this end: the network, the resolver, the proxy. See the errors.",
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
            f"Orders are out, and no result has come for {duration(STUCK_SECONDS)}",
            "See the logs of the robots and of their BOT-Ms.",
        )


def _of_others(known: Evidence) -> Iterator[Trouble]:
    if known.failures is not None:
        sites = sum(group.sites for group in known.failures.groups)
        if sites:
            yield Trouble(
                "sites",
                Level.NOTE,
                f"{number(sites, 'site')} cannot be reached",
                "What cannot be reached is tried again by itself, ever less often.",
                min((group.since for group in known.failures.groups if group.sites and group.since), default=None),
            )
    for reason, count in known.wanted.items():
        yield Trouble(
            f"wanted-{reason}",
            Level.NOTE,
            f"{number(count, 'provider')} {'is' if count == 1 else 'are'} asked for a full set ({reason})",
            "lcccp sends it by itself at its next run.",
        )
    if known.held[0]:
        yield Trouble(
            "deletions-held",
            Level.NOTE,
            f"{number(known.held[1], 'page')} of {number(known.held[0], 'provider')} would be deleted by full sets "
            "that do not name them: that is held, because it is so much",
            "lcc-admin provider show N tells how much; allow-deletions N or drop-deletions N says what is meant.",
        )
    if known.waiting:
        yield Trouble(
            "registrations",
            Level.NOTE,
            f"{number(known.waiting, 'registration')} {'waits' if known.waiting == 1 else 'wait'} for the operator",
            "lcc-admin register list shows them, lcc-admin register approve N lets them in.",
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
        return "Nothing is known yet: the monitor has just started."
    wrong = [each for each in troubles if each.level > Level.NOTE]
    notes = len(troubles) - len(wrong)
    if not wrong:
        return "All is well." if not notes else f"All is well; {number(notes, 'thing')} to know."
    more = f" (and {number(len(wrong) - 1, 'more trouble')})" if len(wrong) > 1 else ""
    return f"{wrong[0].what}{more}."
