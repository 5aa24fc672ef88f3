"""What goes wrong with databases and disks."""

from __future__ import annotations

from lcc.testing.simulated.database import DatabaseFaults, DatabaseServer

from .fault import Fault
from .system import System


def database_away(system: System, _: object, fault: Fault) -> None:
    system.databases[fault.target].away_until = system.timeline.now + fault.seconds


def database_slow(system: System, _: object, fault: Fault) -> None:
    system.databases[fault.target].slow_until = system.timeline.now + fault.seconds


def database_full(system: System, _: object, fault: Fault) -> None:
    system.databases[fault.target].full_until = system.timeline.now + fault.seconds


def database_troubles(system: System, _: object, fault: Fault) -> None:
    chance = fault.chance
    rates = [chance.choice((0.0, 0.05, 0.3)) for _ in range(3)]
    troubled(system, system.databases[fault.target], fault, DatabaseFaults(*rates))


def answers_lost(system: System, _: object, fault: Fault) -> None:
    """Of transactions, which are done."""
    troubled(system, system.database, fault, DatabaseFaults(answer_lost=0.3))


def troubled(system: System, database: DatabaseServer, fault: Fault, faults: DatabaseFaults) -> None:
    database.faults = faults

    def over() -> None:
        database.faults = DatabaseFaults()

    system.timeline.call_later(fault.seconds, None, over)


def disk_full(system: System, _: object, fault: Fault) -> None:
    disk = system.machines[fault.target].disk
    disk.is_full = True

    def over() -> None:
        disk.is_full = False

    system.timeline.call_later(fault.seconds, None, over)


def disk_faulty(system: System, _: object, fault: Fault) -> None:
    disk, chance = system.machines[fault.target].disk, fault.chance
    disk.fault_rates = {
        operation: chance.choice((0.02, 0.2, 1.0))
        for operation in ("read", "write", "sync", "name")
        if chance.random() < 0.5
    }
    system.timeline.call_later(fault.seconds, None, disk.fault_rates.clear)
