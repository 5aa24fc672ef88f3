"""An LCC with one provider, for tests of what ``lcc-admin`` tells: its rows are made by the queue manager's store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from lcc.storage.providers.providers import change_provider, get_provider
from tests.support.databases import result_of
from tests.support.queue import Queue

if TYPE_CHECKING:
    from tests.support.admin import Lcc


NOW = 1_700_000_000  # 2023-11-14 22:13:20 UTC, a tuesday
IDLE = {"run": 1, "time": NOW - 2, "interval": 5.0, "capacity": 8, "orders": []}


class Site:
    """An LCC with one provider, its queue, and a queue manager that says it is alive."""

    def __init__(self, lcc: Lcc, queue: Queue) -> None:
        self.lcc = lcc
        self.queue = queue
        self.say()

    def say(self, **more: Any) -> None:
        result_of(self.queue.store.save_state(json.dumps(IDLE | more)))

    def change(self, **changes: Any) -> None:
        database = self.queue.database
        provider = database.now(get_provider, self.queue.pid)
        assert provider is not None
        database.now(change_provider, attrs.evolve(provider, **changes))

    def why(self, path: str, *options: str) -> dict[str, Any]:
        """What is said as JSON of a page, of its one provider."""
        (answer,) = self.lcc.rows("why", *options, f"http://site/{path}")
        (provider,) = answer["providers"]
        return provider  # type: ignore[no-any-return]

    def view(self, path: str) -> dict[str, Any]:
        (view,) = self.why(path)["views"]
        return view  # type: ignore[no-any-return]

    def words(self, path: str, *options: str) -> str:
        return self.lcc.admin("why", *options, f"http://site/{path}").stdout
