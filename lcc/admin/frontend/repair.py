"""``lcc-admin fe repair``: a front end's database that was lost, or put back from a backup."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import attrs
import click

from lcc.admin.context import Admin, DatabaseFailed, pass_admin
from lcc.admin.output import json_option
from lcc.commands.errors import Failed
from lcc.domain.frontend.repair import concerned, misnumbered, plan_repair
from lcc.domain.wording import number
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import SubLcc, SubState
from lcc.model.frontend.traces import FrontState, RepairPlan, Traces
from lcc.numbers import parse_number
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.fe.repair import read_front, repair_front
from lcc.storage.fe.sublccs import list_sublccs
from lcc.storage.views.move_traces import read_traces, with_providers


class _Kept(click.ParamType[tuple[int, str]]):
    name = "PID=NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        pid, _, sub = value.partition("=")
        try:
            return parse_number(pid, 2**31 - 1, 1), sub
        except ValueError:
            self.fail(f"{value!r} is not like 4711=two", param, ctx)


@click.command("repair")
@click.option("--apply", "applied", is_flag=True, help="Repair it; without this, only show what would be done.")
@click.option(
    "--keep",
    type=_Kept(),
    multiple=True,
    help="Which sub-LCC keeps a provider that is in several; it leaves the others (repeatable).",
)
@json_option
@pass_admin
def repair_command(admin: Admin, applied: bool, keep: tuple[tuple[int, str], ...], as_json: bool) -> None:
    """Compare the front end's database with those of the sub-LCCs, after it was lost or restored from a backup.

    Repairs the location of each provider, its moves and the counters.  All roles may go on running.
    """
    with ExitStack() as stack:
        front = stack.enter_context(admin.front_end())
        subs = [sub for sub in front.interact(list_sublccs) if sub.state is not SubState.REMOVED]
        if not subs:
            raise Failed("the front end has no sub-LCC yet", "lcc-admin fe add for each of them, with --number")
        kept = _kept(subs, keep)
        unread: dict[str, str] = {}
        databases: dict[int, BlockingDatabase] = {}
        for sub in subs:
            try:
                databases[sub.subid] = stack.enter_context(admin.sublcc(sub))
            except DatabaseFailed as error:
                unread[sub.name] = str(error)
        traces = _traces(front, subs, databases, unread)
        _check_numbers(subs, traces)

        def planned(state: FrontState) -> RepairPlan:
            return plan_repair(state, subs, traces, kept, admin.now())

        plan = front.write(repair_front, planned, admin.now()) if applied else planned(front.interact(read_front))
        again = 0
        if applied and plan.mends:
            # What has changed meanwhile was not looked at.
            traces = _traces(front, subs, databases, unread)
            left = plan_repair(front.interact(read_front), subs, traces, {}, admin.now())
            again = len(left.mends)
    _say(plan, unread, applied, again, as_json)
    if plan.troubles or unread or again or ((plan.mends or plan.counters) and not applied):
        raise SystemExit(Failed.exit_code)


def _kept(subs: list[SubLcc], keep: tuple[tuple[int, str], ...]) -> dict[int, int]:
    numbers = {sub.name: sub.subid for sub in subs}
    for _, name in keep:
        if name not in numbers:
            raise click.BadParameter(f"there is no sub-LCC {name}", param_hint="--keep")
    return {pid: numbers[name] for pid, name in keep}


def _traces(
    front: BlockingDatabase, subs: list[SubLcc], databases: dict[int, BlockingDatabase], unread: dict[str, str]
) -> dict[int, Traces]:
    """What the sub-LCCs say that can be read."""
    state = front.interact(read_front)
    found: dict[int, Traces] = {}

    def ask(sub: SubLcc, question: Callable[..., Traces], *args: object) -> None:
        database = databases.get(sub.subid)
        if database is None:
            return
        try:
            found[sub.subid] = database.interact(question, *args)
        except StoreUnavailable as error:
            databases.pop(sub.subid)
            found.pop(sub.subid, None)
            unread[sub.name] = str(error)

    for sub in subs:
        ask(sub, read_traces, sub.subid, sub.first_pid, sub.last_pid)
    pids = concerned(state, found)
    for sub in subs:
        if sub.subid in found:
            ask(sub, with_providers, found[sub.subid], pids)
    return found


def _check_numbers(subs: list[SubLcc], traces: Mapping[int, Traces]) -> None:
    wrong = misnumbered(subs, traces)
    if wrong:
        raise Failed(
            "; ".join(
                f"sub-LCC {name} had another number before{f', {before}' if before else ''}"
                for name, before in wrong.items()
            ),
            "make the front end's database anew, and give each its former number: lcc-admin fe add NAME --number N",
        )


def _say(plan: RepairPlan, unread: Mapping[str, str], applied: bool, again: int, as_json: bool) -> None:
    if as_json:
        record = {
            "applied": applied,
            "repairs": [{"pid": mend.pid, "text": mend.text} for mend in plan.mends],
            "counters": dict(plan.counters),
            "problems": [attrs.asdict(trouble) for trouble in plan.troubles],
            "unread": dict(unread),
            "changed_meanwhile": again,
        }
        click.echo(json.dumps(record))
        return
    for mend in plan.mends:
        click.echo(f"provider {mend.pid} {mend.text}")
    for trouble in plan.troubles:
        click.echo(f"NOT REPAIRED: provider {trouble.pid} {trouble.text}\n  {trouble.advice}")
    for name, why in unread.items():
        click.echo(f"NOT READ: sub-LCC {name}: {why}\n  run this again when it can be reached")
    if again:
        click.echo("Some providers have changed meanwhile: run this again.")
    if plan.counters:
        said = ", ".join(f"{name} {value}" for name, value in sorted(plan.counters.items()))
        click.echo(f"numbers that were given out before are not given out again: up to {said}")
    count = number(len(plan.mends), "provider")
    if plan.counters and not plan.mends:
        click.echo("The counters were repaired." if applied else "Run this again with --apply.")
    elif not plan.mends:
        click.echo("Nothing to repair." if not (plan.troubles or unread) else "Nothing else to repair.")
    else:
        click.echo(f"{count} repaired." if applied else f"{count} to repair: run this again with --apply.")
