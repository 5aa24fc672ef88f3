"""What a BOT-M shows and takes at the console.  It only reads, but for :meth:`BotmCommands.pause`."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, more, number
from lcc.roles.botm.engine import BotMaster
from lcc.roles.botm.orders import HeldOrder
from lcc.roles.botm.relay import Relay
from lcc.roles.pausing import PausingCommands

SHOWN = 20


class BotmCommands(PausingCommands[BotMaster]):
    """The commands of the BOT-M of a machine."""

    PAUSED = "no new orders until resume(); those here are finished"
    RESUMED = "orders are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        botm = self.engine
        orders = botm.orders
        out = sum(1 for order in orders if order.out)
        stands = "PAUSED, accepts no new orders" if botm.paused else "accepts orders"
        lines: Lines = [
            ("BOT-M", f"machine {botm.machine}: {stands}"),
            ("QM", "connected" if botm.connected else "disconnected: fetching goes on, results are kept"),
        ]
        if botm.disk_trouble:
            lines.append(("disk", botm.disk_trouble))
        robots = botm.robots
        for robot in robots[:SHOWN]:
            paused = ", PAUSED" if robot.paused else ""
            lines.append(("robot", f"{robot.name}: {len(robot.runs)} of {robot.capacity} fetches{paused}"))
        lines += more(SHOWN, len(robots), "robot") or ([] if robots else [("robot", "none")])
        refused = botm.robots_refused
        for robot, why in list(refused.items())[:SHOWN]:
            lines.append(("no orders", f"{robot.name}: {why}"))
        lines += more(SHOWN, len(refused), "refused robot")
        lines.append(("orders", f"{len(orders):,} here, {out:,} at robots"))
        lines.append(("results", f"{botm.results_waiting:,} not recorded yet"))
        first, upto = botm.syncer.suspect
        suspect = f"files {first} to {upto - 1} are being verified after a crash" if upto else "none is suspect"
        lines.append(("content", f"names below {botm.names_upto:,} are reserved; {suspect}"))
        return lines

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says: orders."""
        orders = self.engine.orders
        lines: Lines = [("order", self._order(order)) for order in orders[:limit]]
        lines += more(limit, len(orders), "order")
        return lines or [("queue", "no orders")]

    def provider(self, pid: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        orders = [order for order in self.engine.orders if order.fetch.pid == pid]
        lines: Lines = [("order", self._order(order)) for order in orders]
        return lines or [("provider", f"no orders for {pid}")]

    def _order(self, order: HeldOrder) -> str:
        robot = order.robot
        where = f"at robot {robot.name}" if robot is not None else "held back" if order.out else "waiting for a robot"
        left = duration(order.lease_end - self.engine.clock_seconds())
        attempts = f", {number(order.attempts, 'attempt')}" if order.attempts > 1 else ""
        return f"provider {order.fetch.pid}, {where}, lease ends in {left}{attempts}: {order.fetch.url}"


class RelayCommands:
    """The commands of a central BOT-M: it keeps nothing, and so has nothing to pause."""

    def __init__(self, engine: Relay) -> None:
        self.engine = engine

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        machines = self.engine.machines
        lines: Lines = [
            ("BOT-M", "a central one"),
            ("QM", "connected" if self.engine.connected else "disconnected: the machines reconnect when it is back"),
        ]
        for number_, machine in sorted(machines.items())[:SHOWN]:
            via = f" via {machine.via}" if machine.via else ""
            lines.append(("machine", f"{number_} ({machine.name}{via})"))
        return lines + (more(SHOWN, len(machines), "machine") or ([] if machines else [("machine", "none")]))
