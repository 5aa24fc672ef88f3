"""``lcc-admin why``: where a URL stands, and what it waits for."""

from __future__ import annotations

import json

import click

from lcc.admin.context import SEE_PROVIDERS, Admin, pass_admin
from lcc.admin.search.standing import add_searched
from lcc.admin.values import PID
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.push_words import push_records
from lcc.insight.why import explain
from lcc.insight.why_words import say
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

    URL is the conceptual URL, as the provider submitted it.
    """
    try:
        name = normalise(url)
    except UrlError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    with admin.database() as database:
        try:
            answer = database.interact(explain, admin.config, admin.now(), name, pid, fetch_url)
        except NoSuchProvider as error:
            raise Failed(str(error), SEE_PROVIDERS) from None
        add_searched(answer, admin.config, database)
    answer["pushes"] = []
    place = place_of(admin.config, PUSH)
    if place.is_there():
        with admin.database_at(place) as database:
            answer["pushes"] = database.interact(push_records, name)
    if as_json:
        click.echo(json.dumps(answer))
        return
    for line in say(answer):
        click.echo(clean(line))
