"""One export: ask what has changed, note it, hand it to the consumer, move on.

The rows are all noted before the first content is asked for: a slow consumer does not keep the LCC waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs

from lcc.client.blocking import Cache, StartAgain
from lcc.commands.errors import Failed
from lcc.commands.progress import progress
from lcc.export.contents import Contents
from lcc.export.pages import Page
from lcc.export.source import NoLongerKnown
from lcc.export.state import MTIME_MAX, State
from lcc.model.states import CACHED

CHANGES, FULL = "changes", "full"
"""What a consumer is told in the environment variable ``LCC_EXPORT``."""
HELD_OVER_SECONDS = 10
"""After so long, pages whose content could not be had are tried again."""


class OtherSelection(Failed):
    """The state file belongs to another question."""

    exit_code = 2


class Engine(Protocol):
    """What a search engine wants."""

    dated: bool
    """It goes by dates: one that is not later than before says that nothing has changed."""

    def name_of(self, row: Mapping[str, Any]) -> str:
        """What it knows this row by."""
        ...

    def wants(self, row: Mapping[str, Any]) -> bool:
        """Whether it indexes this at all."""
        ...

    def hand_over(self, job: Job) -> None:
        """Hand over all that is pending.

        :raises Failed: the consumer did not take it.
        """
        ...


@attrs.frozen
class Job:
    """What is to be handed over.

    :ivar full: it is all there is; the consumer begins anew.
    """

    state: State
    contents: Contents
    full: bool

    @property
    def mode(self) -> str:
        """For ``LCC_EXPORT``."""
        return FULL if self.full else CHANGES


@attrs.frozen
class Asked:
    """What an export is about.

    :ivar fields: the selection (:data:`lcc.roles.cu.query.FIELDS`).
    :ivar form: all else that decides what the consumer has: the engine, its options.
    :ivar rebuild: everything anew.
    :ivar wait_seconds: for a change.
    """

    fields: Mapping[str, Any]
    form: Mapping[str, Any]
    rebuild: bool = False
    wait_seconds: int = 0

    def said(self) -> str:
        """The same for the same question, in whatever order its values stand."""
        fields = {
            name: sorted(set(value)) if isinstance(value, list) else value for name, value in self.fields.items()
        }
        return json.dumps([fields, self.form], sort_keys=True)


@attrs.frozen
class Outcome:
    """How it went.

    :ivar told: whether there was something to tell the consumer.
    :ivar held_over: how many pages have no content that can be had now.
    :ivar unread: how many are without text because that could not be read.
    :ivar fault: why, of the first of these, with its URL.
    """

    full: bool
    told: bool
    held_over: int
    unread: int = 0
    fault: str = ""


def export(cache: Cache, state: State, asked: Asked, engine: Engine) -> Outcome:
    """Bring the consumer up to date.

    :raises NoLongerKnown: the changes since the last time are no longer known.
    :raises CacheError: the LCC cannot be asked.
    :raises Failed: the consumer has failed.
    """
    token = None if asked.rebuild else state.get("token")
    before = state.get("asked")
    if before not in (None, asked.said()) and not asked.rebuild:
        raise OtherSelection(
            "the state file belongs to another selection or format",
            "choose another one, or start over with --rebuild",
        )
    full = token is None
    _note(cache, state, asked, engine, token)
    contents = Contents(cache)
    told = state.any_pending()
    if told:
        with progress("handing over", state.count_pending()) as state.told:
            engine.hand_over(Job(state, contents, full))
    if told or not full:
        # A consumer that was never told anything has nothing yet that changes could be added to.
        with state.changing():
            state.done(full, contents.held_over)
    return Outcome(full, told, len(contents.held_over))


def _note(cache: Cache, state: State, asked: Asked, engine: Engine, token: str | None) -> None:
    with state.changing():
        if token is None:
            state.begin_anew()
        state.keep("asked", asked.said())
        try:
            # Who still has to tell of some does not wait for long.
            wait = min(asked.wait_seconds, HELD_OVER_SECONDS) if state.any_pending() else asked.wait_seconds
            rows = cache.changes(token or "0", wait=wait, **asked.fields)
        except StartAgain as error:
            raise NoLongerKnown(str(error), "use --rebuild to export everything again") from None
        now = int(time.time())
        for row in _counted(rows):
            name = engine.name_of(row)
            if row["state"] == CACHED and engine.wants(row):
                state.put(name, Page.of(row))
            else:
                state.remove(name, row["key"])
            if engine.dated:
                state.stamp(name, max(0, min(row["mtime"] or row["fetched_time"] or 0, now, MTIME_MAX)))
        state.keep("next", rows.token)


def _counted(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    with progress("asking what has changed") as more:
        for row in rows:
            yield row
            more(1)
