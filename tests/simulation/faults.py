"""What goes wrong, and when: a list that a seed decides, of which any part can be played again by itself."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import attrs

from lcc.storage.disk.content_paths import ATTEMPTS
from lcc.testing.simulated.database import DatabaseFaults
from lcc.testing.simulated.timeline import EPOCH

from . import move_faults, push_faults, registration_faults, store_faults
from .crawl import LEASE_SECONDS as SPIDER_LEASE_SECONDS
from .crawl import SPIDER_NAMES
from .fault import Fault
from .one_lcc import Lcc
from .promises import Promises
from .pushers import PushingSite
from .sites import SiteFaults
from .system import System
from .tasks import LEASE_SECONDS, MANAGER_NAMES, SCHEDULER

_SOME_SLOW = SiteFaults(hang=0.3, slow=0.6)
FIRST_SECONDS = 8.0
"""Of the life of a folder."""


_UNNOTICED = frozenset(["power", "first-power", "disk-full", "disk-faulty"])
"""Not where a database is restored: those who notice that are the BOT-Ms and UNSes, by what they remember, which must
not be lost as well."""


def plan(system: System, chance: Random, until_seconds: float) -> list[Fault]:
    """What goes wrong in this run; sometimes nothing does, sometimes one thing, sometimes everything at once."""
    quiet = any(part is not None and not part.has_troubles for part in (system.crawl, system.front))
    if chance.random() < 0.05 or quiet:
        return []
    chosen = [kind for kind in KINDS if KINDS[kind].weight and chance.random() < 0.35]
    restores = [] if system.front is None else move_faults.plan_restores(system, until_seconds)
    if system.newcomers:
        restores = []  # a provider that was made since the backup is lost
    if (system.front is not None or system.newcomers) and "restore" in chosen:
        # With a front end these come when moves come to their states; else providers that were made since are lost.
        chosen.remove("restore")
    if "restore" in chosen or restores:
        chosen = [kind for kind in chosen if kind not in _UNNOTICED]
    roles = _roles(system)
    weights = [KINDS[kind].weight for kind in chosen]
    faults = []
    for _ in range(chance.choice((1, 3, 8, 15, 25)) if chosen else 0):
        kind = chance.choices(chosen, weights)[0]
        target = KINDS[kind].target(system, chance, roles)
        seconds = min(chance.expovariate(1 / KINDS[kind].mean_seconds), 6 * KINDS[kind].mean_seconds)
        time = chance.uniform(0.0, min(until_seconds, KINDS[kind].until_seconds))
        faults.append(Fault(round(time, 3), kind, target, round(seconds, 3), chance.randrange(1 << 30)))
    faults += _clock_steps(system, until_seconds)
    if system.tls is not None:
        faults += _tls_faults(system, until_seconds)
    if system.tasks is not None:
        faults += _task_faults(system, until_seconds)
    if system.crawl is not None:
        faults += _spider_faults(system, until_seconds)
    if system.front is not None:
        faults += move_faults.plan(system, until_seconds) + restores
    if system.newcomers:
        faults += registration_faults.plan(system, until_seconds)
    if system.pushing:
        faults += push_faults.plan(system, until_seconds)
    return sorted(faults, key=lambda fault: fault.time)


def with_restores(system: System, faults: list[Fault], until_seconds: float) -> list[Fault]:
    """These, and the queue's tables are put back several times, from a backup of moments before, or of one before."""
    chance = system.timeline.random("restores")
    restores = [
        Fault(
            round(chance.uniform(3.0, until_seconds - 5.0), 3),
            "restore",
            system.lcc.hosts.database,
            round(chance.uniform(0.5, 15.0), 3),
            chance.randrange(1 << 30),
        )
        for _ in range(chance.choice((1, 2, 4)))
    ]
    noticed = [fault for fault in faults if fault.kind not in _UNNOTICED]
    return sorted([*noticed, *restores], key=lambda fault: fault.time)


def _clock_steps(system: System, until_seconds: float) -> list[Fault]:
    """Wall clocks that are set, of one machine or of all; what else a seed decides is the same without them."""
    chance = system.timeline.random("clock steps")
    faults = []
    for _ in range(chance.choice((0, 0, 1, 3))):
        hosts = sorted({system.machine_of[role] for role in _roles(system)})
        qm = _some_lcc(system, chance).hosts.qm
        target = chance.choice((qm, "all", chance.choice(hosts)))
        time = round(chance.uniform(0.0, until_seconds), 3)
        faults.append(Fault(time, "clock-step", target, 0.0, chance.randrange(1 << 30)))
    if system.tasks is not None:
        chance = system.timeline.random("clock steps of the scheduler")
        for _ in range(chance.choice((0, 1, 3))):
            time = round(chance.uniform(0.0, until_seconds), 3)
            faults.append(Fault(time, "clock-step", SCHEDULER, 0.0, chance.randrange(1 << 30)))
    return faults


def _tls_faults(system: System, until_seconds: float) -> list[Fault]:
    """Handshakes that fail."""
    chance = system.timeline.random("tls faults")
    times = [chance.uniform(0.0, until_seconds) for _ in range(chance.choice((0, 1, 3)))]
    return [
        Fault(round(time, 3), "tls-troubles", "all", round(chance.uniform(1.0, 12.0), 3), chance.randrange(1 << 30))
        for time in times
    ]


def _task_faults(system: System, until_seconds: float) -> list[Fault]:
    """What befalls the scheduler and the managers."""
    chance = system.timeline.random("task faults")
    managers = [name for name in MANAGER_NAMES if name in system.roles]
    faults = []
    kinds = ("kill", "kill", "stop", "freeze", "freeze", "manager-parted", "manager-parted", "power")
    for _ in range(chance.choice((0, 2, 5, 10, 16))):
        name = chance.choice(("scheduler", *managers, *managers))
        kind, manager = chance.choice(kinds), system.machine_of[chance.choice(managers)]
        target = {"manager-parted": f"{SCHEDULER}~{manager}", "power": system.machine_of[name]}
        mean = KINDS[kind].mean_seconds
        seconds = round(min(chance.expovariate(1 / mean), 4 * mean), 3)
        if kind in ("freeze", "manager-parted") and chance.random() < 0.5:
            seconds = round(chance.uniform(0.8, 2.0) * LEASE_SECONDS, 3)
        time = round(chance.uniform(0.0, until_seconds), 3)
        faults.append(Fault(time, kind, target.get(kind, name), seconds, chance.randrange(1 << 30)))
    last = until_seconds
    # Answers are lost when all else is well again: else a clock that is set right has everything read again.
    for kind, since, upto in (
        ("unheard", 0.0, last),
        ("workers-fail", last - 20, last),
        ("answers-lost", last + 1, last + 5),
    ):
        if chance.random() < 0.5:
            manager = system.machine_of[chance.choice(managers)]
            time = round(chance.uniform(since, upto), 3)
            seconds = round(KINDS[kind].mean_seconds * chance.uniform(0.5, 1.5), 3)
            faults.append(Fault(time, kind, manager, seconds, chance.randrange(1 << 30)))
    return faults


def _spider_faults(system: System, until_seconds: float) -> list[Fault]:
    """What befalls spiders: they lose lcc-cu, the UNSes, or the database, are gone, or silent for about a lease."""
    chance = system.timeline.random("spider faults")
    spiders = [name for name in SPIDER_NAMES if name in system.roles]
    kinds = ("kill", "kill", "kill", "stop", "freeze", "freeze", "spider-parted", "power", "disk-full", "clock-step")
    faults = []
    for _ in range(chance.choice((0, 2, 5, 10, 16))):
        name, kind = chance.choice(spiders), chance.choice(kinds)
        host = system.machine_of[name]
        hosts = system.lcc.hosts
        other = chance.choice((hosts.cu, hosts.cu, hosts.database, *hosts.unses))
        mean = KINDS[kind].mean_seconds or 1.0
        seconds = round(min(chance.expovariate(1 / mean), 4 * mean), 3)
        if kind in ("freeze", "spider-parted") and chance.random() < 0.5:
            seconds = round(chance.uniform(0.8, 2.0) * SPIDER_LEASE_SECONDS, 3)
        target = (
            name if kind in ("kill", "stop", "freeze") else f"{host}~{other}" if kind == "spider-parted" else host
        )
        time = round(chance.uniform(0.0, until_seconds), 3)
        faults.append(Fault(time, kind, target, seconds, chance.randrange(1 << 30)))
    return faults


def schedule(system: System, promises: Promises, faults: list[Fault]) -> None:
    """Let these happen."""
    for fault in faults:
        system.timeline.call_later(EPOCH + fault.time - system.timeline.now, None, _happens, system, promises, fault)


def _happens(system: System, promises: Promises, fault: Fault) -> None:
    promises.fault_happens(fault)
    KINDS[fault.kind].happen(system, promises, fault)


LOSING = frozenset(["spool-damage", "disk-faulty", "restore", move_faults.RESTORE])
"""Kinds that may lose an accepted set: its provider is asked for a full set, and of a notifier the log says it."""


def heal(system: System, faults: list[Fault]) -> None:
    """All is well again, at once.

    :param faults: what there was.
    """
    if any(fault.kind in LOSING for fault in faults):
        for watched in system.watched:
            watched.tell_all()
        for site in system.pushing:
            site.pushed.tell_all()
    system.checks.clear()
    system.storing.clear()
    system.making.clear()
    network = system.network
    for machine in system.machines.values():
        machine.clock_ahead = machine.clock_usual
        if not machine.is_up:
            machine.power_on()
        machine.disk.is_full = False
        machine.disk.fault_rates.clear()
        for process in list(machine.processes.values()):
            process.thaw()
    network.heal()
    if system.tls is not None:
        system.tls.troubles.until = 0.0
    if system.tasks is not None:
        system.tasks.hall.fails_until = 0.0
    for database in system.databases.values():
        database.faults = DatabaseFaults()
        database.away_until = database.slow_until = database.full_until = 0.0
    for site in system.all_sites:
        site.faults = SiteFaults()
    system.start_all()


# The kinds.


def _kill(system: System, _: Promises, fault: Fault) -> None:
    process = system.processes.get(fault.target)
    if process is not None:
        process.die()
        system.start_later(fault.target, fault.seconds)


def _stop(system: System, _: Promises, fault: Fault) -> None:
    process = system.processes.get(fault.target)
    if process is not None and not process.frozen:
        process.stop().addCallback(lambda _: system.start_later(fault.target, fault.seconds))


def _freeze(system: System, _: Promises, fault: Fault) -> None:
    process = system.processes.get(fault.target)
    if process is not None:
        process.freeze()
        system.timeline.call_later(fault.seconds, None, process.thaw)


def _power(system: System, promises: Promises, fault: Fault) -> None:
    machine = system.machines[fault.target]
    if not machine.is_up:
        return
    promises.power_was_cut(fault.target)
    names = list(machine.processes)
    machine.power_cut()

    def on() -> None:
        if not machine.is_up:
            machine.power_on()
        for name in names:
            system.start(name)

    system.timeline.call_later(fault.seconds, None, on)


def _part(system: System, _: Promises, fault: Fault) -> None:
    one, _, other = fault.target.partition("~")
    system.network.part(one, other, fault.seconds)


def _unheard(system: System, _: Promises, fault: Fault) -> None:
    """A manager hears nothing of the scheduler, which hears it; then it is the other way round, for about a lease."""
    network = system.network
    network.part_one_way(SCHEDULER, fault.target, fault.seconds)
    system.timeline.call_later(
        fault.seconds,
        None,
        network.part_one_way,
        fault.target,
        SCHEDULER,
        fault.chance.uniform(1.0, 2.0) * LEASE_SECONDS,
    )


def _workers_fail(system: System, _: Promises, fault: Fault) -> None:
    """What workers need is away."""
    if system.tasks is not None:
        system.tasks.hall.fails_until = system.timeline.now + fault.seconds


def _cut_off(system: System, promises: Promises, fault: Fault) -> None:
    """A machine is cut off while sites answer it slowly, and the queue manager is another one before it is back."""
    _slow_sites(system, 2.0, _SOME_SLOW)
    lcc = system.lcc_at(fault.target)

    def cut() -> None:
        system.network.part(lcc.upper, fault.target, fault.seconds)
        _kill(system, promises, attrs.evolve(fault, target=f"{lcc.prefix}qm", seconds=0.3))

    system.timeline.call_later(1.0, None, cut)


def _slow_sites(system: System, seconds: float, faults: SiteFaults) -> None:
    for site in system.sites:
        site.faults = faults

    def over() -> None:
        for site in system.sites:
            site.faults = SiteFaults()

    system.timeline.call_later(seconds, None, over)


def _branch(system: System, _: Promises, fault: Fault) -> None:
    """A machine loses its connection upwards several times, while sites answer slowly: orders are on their way."""
    upper = system.lcc_at(fault.target).upper
    _slow_sites(system, 0.2 + fault.seconds, _SOME_SLOW)
    chance, at = fault.chance, 0.0
    while at < fault.seconds:
        at += chance.uniform(0.2, 1.2)
        system.timeline.call_later(at, None, system.network.reset_between, upper, fault.target)


def _reset(system: System, _: Promises, fault: Fault) -> None:
    connections = list(system.network.connections)
    for connection in fault.chance.sample(connections, min(len(connections), 1 + fault.number % 4)):
        connection.reset()


def _slow(system: System, _: Promises, fault: Fault) -> None:
    system.network.slow_until = system.timeline.now + fault.seconds


def _web_troubles(system: System, _: Promises, fault: Fault) -> None:
    site = next(site for site in system.all_sites if site.address == fault.target)
    chance = fault.chance
    site.faults = SiteFaults(*[chance.choice((0.0, 0.1, 0.4)) for _ in range(4)])

    def over() -> None:
        site.faults = SiteFaults()

    system.timeline.call_later(fault.seconds, None, over)


def _spool_damage(system: System, promises: Promises, fault: Fault) -> None:
    """A set rots in a spool, as soon as there is one; the UNS may have been ended before it is read."""
    disk = system.machines[fault.target].disk
    uns = next(name for name, address in system.machine_of.items() if address == fault.target)
    # When all is well again notifiers tell once more what they have told: what is lost later is not repeated.
    until = min(system.timeline.now + fault.seconds, EPOCH + system.trouble_seconds)

    def look() -> None:
        if disk.rot(lambda path: path.endswith(".set") and "/incoming/" not in path, fault.chance):
            if fault.number % 2:
                _kill(system, promises, attrs.evolve(fault, target=uns, seconds=0.5))
        elif system.timeline.now + 0.05 < until:
            system.timeline.call_later(0.05, None, look)

    look()


def _content_damage(system: System, _: Promises, fault: Fault) -> None:
    """An attempt is spoilt while it is written: another program has removed it."""
    disk = system.machines[fault.target].disk
    disk.lose(lambda path: f"/{ATTEMPTS}/" in path, fault.chance)


def _clock_step(system: System, promises: Promises, fault: Fault) -> None:
    """Somebody sets the wall clock, by about an hour or a day (which are many periods of hours here)."""
    step = fault.chance.choice((-86400.0, -3600.0, 3600.0, 86400.0)) + fault.chance.uniform(0.0, 240.0)
    for address, machine in system.machines.items():
        if fault.target in (address, "all"):
            machine.clock_ahead += step
    promises.clock_was_set()


def _tls_troubles(system: System, _: Promises, fault: Fault) -> None:
    """Handshakes are refused, or never go on."""
    if system.tls is not None:
        refuse, hang = fault.chance.choice(((0.3, 0.0), (0.0, 0.3), (0.2, 0.2)))
        system.tls.troubles.begin(refuse, hang, fault.seconds)


def _restore(system: System, promises: Promises, fault: Fault) -> None:
    """The database is put back from a backup, while the queue manager is down."""
    lcc = system.lcc_at(fault.target)
    promises.backups += 1
    system.timeline.call_later(fault.seconds, None, _put_back, system, promises, lcc)
    lcc.database.backup()


def _put_back(system: System, promises: Promises, lcc: Lcc) -> None:
    process = lcc.process("qm")
    if process is not None:
        process.die()
    if lcc.database.restore():
        promises.put_back(lcc)
        notifier = system.processes.get("notifier")
        if notifier is not None:
            notifier.die()
        for site in system.watched:
            site.begin_epoch()
            system.start_later("notifier", 0.5)
        for pushing in system.pushing:
            pushing.pushed.tell_all()
    else:
        promises.backups -= 1
    system.start_later(f"{lcc.prefix}qm", 0.5)


def _restore_at_move(system: System, promises: Promises, fault: Fault) -> None:
    """The database of a sub-LCC is put back while a provider moves from there, or to there."""
    promises.backups += 1

    def back_up() -> None:
        for lcc in system.lccs:
            lcc.database.backup()

    move_faults.restore_at_state(system, fault, back_up, lambda lcc: _put_back(system, promises, lcc))


def _at_move(system: System, promises: Promises, fault: Fault) -> None:
    def act(kind: str, target: str) -> None:
        KINDS[kind].happen(system, promises, attrs.evolve(fault, kind=kind, target=target))

    move_faults.wait_for_state(system, fault, act)


def _at_check(system: System, promises: Promises, fault: Fault) -> None:
    """When the next check of a registration begins, or moments later."""
    chance, kind = fault.chance, fault.target
    target = next(role for role in ("rs", "fe-rs") if role in system.roles)
    if kind.startswith("database"):
        target = chance.choice(list(system.databases))
    act = attrs.evolve(fault, kind=kind, target=target)
    delay = chance.expovariate(1 / chance.choice((0.005, 0.05, 0.15)))
    happen = KINDS[kind].happen
    system.checks.append(lambda: system.timeline.call_later(delay, None, happen, system, promises, act))


def _at_making(system: System, promises: Promises, fault: Fault) -> None:
    """When the next newcomer's provider is in the tables: before its registration server hears of it."""
    target = next(role for role in ("rs", "fe-rs") if role in system.roles)

    def act(lcc: Lcc) -> None:
        if fault.target == "kill":
            _kill(system, promises, attrs.evolve(fault, kind="kill", target=target))
            return
        _lose_answer(system, lcc)

    system.making.append(act)


def _at_push(system: System, promises: Promises, fault: Fault) -> None:
    """When the push server next writes its tables: before it hears of that, or moments later."""
    chance, kind = fault.chance, fault.target
    if kind == "answer-lost":
        system.storing.append(lambda: _lose_answer(system, system.lcc))
        return
    if kind == "kill-uns":
        target = chance.choice([role for role in system.lcc.roles if "uns" in role])
        act = attrs.evolve(fault, kind="kill", target=target)
    elif kind == "part":
        act = attrs.evolve(fault, target=f"{system.lcc.hosts.push}~{chance.choice(system.lcc.hosts.unses)}")
    else:
        act = attrs.evolve(fault, target="push")
    delay = chance.choice((0.0, chance.expovariate(1 / 0.005), chance.expovariate(1 / 0.1)))
    happen = KINDS["kill" if kind == "kill-uns" else kind].happen
    system.storing.append(lambda: system.timeline.call_later(delay, None, happen, system, promises, act))


def _lose_answer(system: System, lcc: Lcc) -> None:
    faults = lcc.database.faults
    faults.answer_lost = 1.0  # of this transaction, and of no other
    system.timeline.call_later(0, None, setattr, faults, "answer_lost", 0.0)


@attrs.frozen
class Kind:
    """A kind of fault.

    :ivar target: chooses whom it befalls.
    :ivar weight: how often it is chosen; 0: it comes by another way.
    :ivar until_seconds: it befalls him before that.
    """

    happen: Callable[[System, Promises, Fault], None]
    target: Callable[[System, Random, list[str]], str]
    weight: float = 1.0
    mean_seconds: float = 3.0
    until_seconds: float = inf


def _roles(system: System) -> list[str]:
    """Those that anything may befall."""
    newcomers = [newcomer.process for newcomer in system.newcomers]
    pushing = [site.process for site in system.pushing if isinstance(site, PushingSite)]
    others = [role for role in ("user", "notifier", *newcomers, *pushing) if role in system.roles]
    front = [] if system.front is None else system.front.roles
    return [*(role for lcc in system.lccs for role in lcc.roles), *front, *others]


def _some_lcc(system: System, chance: Random) -> Lcc:
    return chance.choice(system.lccs) if len(system.lccs) > 1 else system.lcc


def _a_role(_: System, chance: Random, roles: list[str]) -> str:
    return chance.choice(roles)


def _a_host(system: System, chance: Random, roles: list[str]) -> str:
    return chance.choice(sorted({system.machine_of[role] for role in roles}))


def _two_hosts(system: System, chance: Random, roles: list[str]) -> str:
    hosts = sorted({*system.machines, *system.databases})
    return "~".join(chance.sample(hosts, 2))


def _a_uns_and_the_qm(system: System, chance: Random, __: list[str]) -> str:
    """So that sets of one provider come in another order than they were told."""
    hosts = _some_lcc(system, chance).hosts
    return f"{chance.choice(hosts.unses)}~{hosts.qm}"


def _a_spool(system: System, chance: Random, __: list[str]) -> str:
    return chance.choice(_some_lcc(system, chance).hosts.unses)


def _a_botm(system: System, chance: Random, _: list[str]) -> str:
    return chance.choice(_some_lcc(system, chance).hosts.botms)


def _a_store(system: System, chance: Random, _: list[str]) -> str:
    """Who has just made the folder that he keeps things in."""
    hosts = _some_lcc(system, chance).hosts
    return chance.choice((*hosts.botms, *hosts.unses))


def _a_site(system: System, chance: Random, _: list[str]) -> str:
    return chance.choice(system.all_sites).address


def _the_database(system: System, chance: Random, ___: list[str]) -> str:
    """Of a front end, too."""
    return system.lcc.hosts.database if system.front is None else chance.choice(list(system.databases))


KINDS = {
    "kill": Kind(_kill, _a_role, 4, 2),
    "stop": Kind(_stop, _a_role, 1, 1),
    "freeze": Kind(_freeze, _a_role, 1.5, 15),
    "power": Kind(_power, _a_host, 1.5, 4),
    "first-power": Kind(_power, _a_store, 1, 4, until_seconds=FIRST_SECONDS),
    "part": Kind(_part, _two_hosts, 2, 8),
    "uns-parted": Kind(_part, _a_uns_and_the_qm, 2, 10),
    "cut-off": Kind(_cut_off, _a_botm, 0.7, 12),
    "branch": Kind(_branch, _a_botm, 1.5, 3),
    "reset": Kind(_reset, _the_database, 3, 1),
    "slow": Kind(_slow, _the_database, 0.5, 6),
    "database-away": Kind(store_faults.database_away, _the_database, 1, 4),
    "database-slow": Kind(store_faults.database_slow, _the_database, 0.5, 4),
    "database-full": Kind(store_faults.database_full, _the_database, 0.7, 5),
    "database-troubles": Kind(store_faults.database_troubles, _the_database, 1, 8),
    "disk-full": Kind(store_faults.disk_full, _a_host, 1, 6),
    "disk-faulty": Kind(store_faults.disk_faulty, _a_host, 0.7, 5),
    "web-troubles": Kind(_web_troubles, _a_site, 1.5, 15),
    "attempt-lost": Kind(_content_damage, _a_botm, 0.4, 1),
    "restore": Kind(_restore, _the_database, 0.2, 5),
    "spool-damage": Kind(_spool_damage, _a_spool, 0.3, 8),
    "manager-parted": Kind(_part, _two_hosts, 0, 10),
    "spider-parted": Kind(_part, _two_hosts, 0, 8),
    "unheard": Kind(_unheard, _a_host, 0, 6),
    "workers-fail": Kind(_workers_fail, _a_host, 0, 16),
    "answers-lost": Kind(store_faults.answers_lost, _the_database, 0, 6),
    "clock-step": Kind(_clock_step, _a_host, 0, 0),
    push_faults.AT_PUSH: Kind(_at_push, _a_role, 0, 2),
    registration_faults.AT_CHECK: Kind(_at_check, _a_role, 0, 2),
    registration_faults.AT_MAKING: Kind(_at_making, _a_role, 0, 2),
    "tls-troubles": Kind(_tls_troubles, _a_host, 0, 0),
    move_faults.KIND: Kind(_at_move, _a_host, 0, 3),
    move_faults.RESTORE: Kind(_restore_at_move, _a_host, 0, 0),
}
