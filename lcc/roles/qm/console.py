"""What the queue manager shows and takes at the console.  It only reads, but for :meth:`QmCommands.pause`."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, more, number
from lcc.errors import entry_for
from lcc.roles.pausing import PausingCommands
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.orders.machines import Machine, Order
from lcc.roles.qm.schedule.delays import SITE, Delayed
from lcc.roles.qm.schedule.hosts import HostGroup
from lcc.roles.qm.schedule.work import ProviderWork

ORDERS_SHOWN = 5
MACHINES_SHOWN = 20
ROWS_SHOWN = 5
MOVES_SHOWN = 5


class QmCommands(PausingCommands[QmEngine]):
    """The commands of the queue manager."""

    PAUSED = "no orders are given out until resume(); what is out comes back and is recorded"
    RESUMED = "orders are given out again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        state = engine.state_saver.describe({})
        now = engine.clock.seconds()
        counts = state["counts"]
        lines: Lines = [("queue manager", self._state())]
        retries = number(engine.retry.retries, "question")
        trouble = engine.retry.trouble
        lines.append(("database", f"waited for: {trouble}" if trouble else f"answers; {retries} asked again so far"))
        names = " ".join(state["unses"]) or "none"
        lines.append(("UNS", f"{names}; {state['absorb_waiting']:,} elements waiting to be absorbed"))
        if state["overload"]:
            lines.append(("", f"overloaded, takes in no sets: {state['overload']}"))
        machines = sorted(engine.machines, key=lambda machine: machine.number)
        lines += [("BOT-M", _machine(machine)) for machine in machines[:MACHINES_SHOWN]] or [("BOT-M", "none")]
        lines += more(MACHINES_SHOWN, len(machines), "BOT-M")
        lines.append(("queue", f"{state['queue_rows']:,} URLs to be fetched, {state['rows_buffered']:,} in memory"))
        scheduler = engine.scheduler
        lines.append(
            (
                "providers",
                f"{scheduler.active_count:,} have their turn, {scheduler.turns_awaited:,} wait for it, "
                f"{scheduler.delayed_with_work:,} with work are delayed, {len(scheduler.withheld):,} withheld",
            )
        )
        if SITE in scheduler.delays:
            wait = duration(scheduler.delays.until(SITE) - engine.now())
            lines.append(("", f"the whole LCC waits for its bandwidth, for {wait}"))
        lines += self._moves(MOVES_SHOWN)
        waiting = engine.recorder.waiting_count
        lines.append(("results", f"{waiting:,} wait to be recorded{'; no more fit' if engine.recorder.full else ''}"))
        lines.append(("orders", f"{state['orders_out']:,} out, room for {state['orders_free']:,} more"))
        oldest = sorted(engine.dispatcher.orders, key=lambda order: order.deadline)
        lines += [("", self._order(order, now)) for order in oldest[:ORDERS_SHOWN]]
        lines.append(
            ("since start", ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()))
        )
        return lines

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says: providers with work."""
        scheduler = self.engine.scheduler
        active = scheduler.active_work()
        lines: Lines = [("turn", self._active(work)) for work in active[:limit]]
        lines += more(limit, len(active), "provider")
        for turn in scheduler.ready.first(limit):
            lines.append(("waits", f"provider {turn.pid}, priority {turn.priority}, {_place(turn.place)}"))
        lines += more(limit, len(scheduler.ready), "provider")
        groups = scheduler.hosts.with_waiting
        for group in groups[:limit]:
            waiting = number(len(group.waiting), "provider")
            lines.append(
                ("one host", f"{waiting} {'waits' if len(group.waiting) == 1 else 'wait'} for {_turn(group)}")
            )
        lines += more(limit, len(groups), "host")
        delayed = scheduler.delays.first(limit)
        lines += [("delayed", f"provider {pid}: {self._delay(record)}") for pid, record in delayed if pid != SITE]
        lines += more(limit, len(scheduler.delays), "provider")
        withheld = sorted(scheduler.withheld)
        lines += [
            ("withheld", f"provider {pid}: may still be fetched for an earlier run") for pid in withheld[:limit]
        ]
        lines += more(limit, len(withheld), "provider")
        return lines or [("queue", "nobody has work")]

    def provider(self, pid: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        scheduler = self.engine.scheduler
        now = self.engine.clock.seconds()
        lines: Lines = []
        work = scheduler.active(pid)
        turn = scheduler.ready.get(pid)
        delay = scheduler.delays.get(pid)
        if work is not None:
            lines += [("turn", self._active(work)), *self._rows(work)]
        if turn is not None:
            lines.append(("waits", f"for its turn, priority {turn.priority}, {_place(turn.place)}"))
        group = scheduler.hosts.get(pid)
        if group is not None and pid in group.waiting:
            lines.append(("waits", f"for its host: {_turn(group)} is being fetched from there"))
        if pid in scheduler.withheld:
            lines.append(("withheld", "it may still be fetched by order of an earlier queue manager"))
        if delay is not None:
            lines.append(("delay", self._delay(delay)))
        orders = [order for order in self.engine.dispatcher.orders if order.pid == pid]
        lines += [("order", self._order(order, now)) for order in orders]
        if pid in scheduler.frozen:
            lines.append(("moves", "it gets no orders: it is leaving, has left, or is arriving (lcc-admin moves)"))
        machine = self.engine.dispatcher.home(pid)
        if machine:
            lines.append(("machine", f"it was fetched by machine {machine} last"))
        return lines or [("provider", f"{pid} has no work that this queue manager knows of (see: lcc-admin why)")]

    def _moves(self, limit: int) -> Lines:
        """Moves to this LCC, and who stands still for one from here."""
        engine = self.engine
        moves = engine.moves
        now = engine.clock.seconds()
        lines: Lines = []
        for move in moves.under_way[:limit]:
            since = moves.frozen.get(move.pid)
            still = "" if since is None else f", stands still for {duration(now - since)}"
            why = f": {move.why}" if move.why else ""
            lines.append(
                (
                    "moves here",
                    f"provider {move.pid}, {move.state.value}: {number(move.number('rows'), 'row')} copied,"
                    f" {move.number('changed'):,} had changed at the last look,"
                    f" {number(move.number('content_left'), 'file')} left{still}{why}",
                )
            )
        lines += more(limit, len(moves.under_way), "move")
        ended = moves.ended
        if any(ended.values()):
            lines.append(("moves", ", ".join(f"{count:,} {result}" for result, count in ended.items())))
        return lines

    def _state(self) -> str:
        engine = self.engine
        if not engine.started:
            return "starting: it claims the database, or loads the queue"
        paused_since = engine.dispatcher.paused_since
        if paused_since is not None:
            return f"run {engine.run}: PAUSED for {duration(engine.now() - paused_since)}, sends no orders"
        return f"run {engine.run}: at work"

    def _active(self, work: ProviderWork) -> str:
        state = (
            "is being fetched from"
            if work.busy
            else "waits for a result to be recorded"
            if work.doubt is not None
            else "is delayed"
            if work.pid in self.engine.scheduler.delays
            else "has rows"
            if work.has_rows
            else "is being read"
            if work.reading is not None
            else "waits to be read"
        )
        rows = number(len(work.buffer) + len(work.express), "row")
        return (
            f"provider {work.pid}, priority {work.priority}: {state}; {rows} in memory, "
            f"{number(work.served, 'URL')} in this turn, set {work.psetid}"
        )

    def _rows(self, work: ProviderWork) -> Lines:
        rows = work.rows[:ROWS_SHOWN]
        lines: Lines = [("next", row.notice.furl or row.notice.curl) for row in rows]
        if work.info is not None:
            limits = work.info.limits
            rate = "no" if limits.rate is None else f"{limits.rate:,} bytes/s"
            hours = limits.hours or "always"
            lines.append(("limits", f"bandwidth {rate}, hours {hours} {limits.timezone}".rstrip()))
            lines.append(("roots", work.info.roots))
        return lines

    def _order(self, order: Order, now: float) -> str:
        left = f"lease ends in {duration(order.deadline - now)}"
        return f"provider {order.pid} at machine {order.machine.number}, order {order.id}, {left}"

    def _delay(self, delay: Delayed) -> str:
        text = "none at present"
        if delay.until:
            text = f"{delay.reason}, for {duration(delay.until - self.engine.now())}"
        if delay.failures:
            text += f"; {delay.code} {entry_for(delay.code).text}, {number(delay.failures, 'time')} in a row"
        return text


def _machine(machine: Machine) -> str:
    state = "connected" if machine.ready else "connecting" if machine.connection is not None else "unreachable"
    waits = "" if machine.granted or not machine.ready else ", not granted yet"
    return (
        f"machine {machine.number} ({machine.name}): {state}{waits}, "
        f"robots for {machine.capacity} concurrent fetches, {number(len(machine.orders), 'outstanding order')}"
    )


def _turn(group: HostGroup) -> str:
    """Who has the turn of those that share a host."""
    who = ", ".join(map(str, sorted(group.turns | group.elsewhere)[:3]))
    return f"provider {who}" if who else "their turn"


def _place(order: tuple[int, int]) -> str:
    return "behind its quantum" if order[1] else f"set {order[0]}"
