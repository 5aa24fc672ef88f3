"""``lcc-admin why``: where a URL stands, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from lcc.admin.context import SEE_PROVIDERS, Admin, DatabaseFailed, pass_admin
from lcc.admin.frontend.places import database_of, elsewhere, not_here, provider_place, sublccs
from lcc.admin.frontend.sublccs import SEE_LIST
from lcc.admin.search.standing import add_searched
from lcc.admin.values import PID
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.push_words import push_records
from lcc.insight.why import explain
from lcc.insight.why_words import say
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import PUSH
from lcc.storage.database.place import place_of
from lcc.storage.providers.providers import NoSuchProvider


@click.command("why")
@click.argument("url")
@click.option("--provider", "pid", type=PID, help="Only of this provider.")
@click.option("--fetch-url", is_flag=True, help="URL is the fetch URL; slow: reads all rows of the provider.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_admin
def why_command(admin: Admin, url: str, pid: int | None, fetch_url: bool, as_json: bool) -> None:
    """Explain the state of a URL, what it waits for, and whether the search finds it.

    URL is the conceptual URL, as the provider submitted it.  With the configuration of a front end its sub-LCCs are
    asked.
    """
    try:
        name = normalise(url)
    except UrlError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    if admin.config.is_front_end:
        answers = list(_everywhere(admin, name, pid, fetch_url))
    else:
        with admin.database() as database:
            answers = [_answer(admin, database, name, pid, fetch_url)]
        _add_pushes(admin, answers[0])
        _add_places(admin, answers[0])
    for answer in answers:
        if as_json:
            click.echo(json.dumps(answer))
            continue
        for line in say(answer):
            click.echo(clean(line))


def _answer(admin: Admin, database: BlockingDatabase, name: str, pid: int | None, fetch_url: bool) -> dict[str, Any]:
    try:
        answer = database.interact(explain, admin.config, admin.now(), name, pid, fetch_url)
    except NoSuchProvider as error:
        there = not_here(admin, pid) if pid is not None else ""
        raise Failed(there or str(error), SEE_PROVIDERS) from None
    add_searched(answer, admin.config, database)
    return answer


def _add_pushes(admin: Admin, answer: dict[str, Any]) -> None:
    """Say what the push server has of the URL."""
    answer["pushes"] = []
    place = place_of(admin.config, PUSH)
    if place.is_there():
        with admin.database_at(place) as database:
            answer["pushes"] = database.interact(push_records, answer["url"])


def _add_places(admin: Admin, answer: dict[str, Any]) -> None:
    """Say where its providers are, and whether another sub-LCC has some."""
    if not admin.config.fe.database:
        return
    for provider in answer["providers"]:
        provider["place"] = provider_place(admin, provider["pid"])
    answer["elsewhere"] = elsewhere(admin, answer["url"])


def _everywhere(admin: Admin, name: str, pid: int | None, fetch_url: bool) -> Iterator[dict[str, Any]]:
    """The answers of the sub-LCCs that have providers for the URL; else one that says that none has."""
    unreachable: list[dict[str, Any]] = []
    answers = []
    if pid is not None:
        with database_of(admin, pid) as database:
            answers = [_answer(admin, database, name, pid, fetch_url)]
    else:
        for sub in sublccs(admin):
            try:
                with admin.sublcc(sub) as database:
                    answers.append(_answer(admin, database, name, None, fetch_url))
            except DatabaseFailed as error:
                unreachable.append({"sublcc": sub.name, "error": str(error)})
        answers = [answer for answer in answers if answer["providers"]] or answers[:1]
    if not answers:
        raise Failed(unreachable[0]["error"] if unreachable else "there are no sub-LCCs", SEE_LIST)
    for answer in answers:
        answer["elsewhere"] = unreachable
        for provider in answer["providers"]:
            provider["place"] = provider_place(admin, provider["pid"])
        yield answer
