"""Resources of jobs that have an interval: the list, and a form that adds or changes one."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.insight.task_inputs import INTERVAL_MAX, InputError, check_name
from lcc.model.tasks import Resource
from lcc.numbers import parse_number
from lcc.roles.web.pages.orders import OrderingPage, Told, bad_input, told
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.orders import RESOURCE_REMOVE, RESOURCE_SET
from lcc.storage.tasks.views import resources
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest


@attrs.frozen
class _Seen:
    """What the page shows."""

    resources: tuple[Resource, ...]
    told: Told | None


def see_resources(txn: Txn, order: int) -> _Seen:
    """All that the page shows."""
    return _Seen(tuple(resources(txn)), told(txn, order))


class ResourcesPage(OrderingPage):
    """``/resources``: what only one job at a time uses, with its interval; add, change, remove."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        seen = await self.asked(see_resources, self.asked_order(request))
        self.front.page(request, "resources", "Resources", resources=seen.resources, told=seen.told)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        do, name = fields.get("do", ""), fields.get("name", "").strip()
        body: dict[str, Any] = {"name": name}
        try:
            check_name(name)
            if do == "set":
                body["interval_seconds"] = _interval_of(fields.get("interval", "").strip())
        except InputError as error:
            raise bad_input(error) from None
        except ValueError as error:
            raise HttpError(400, f"Not done: {error}.") from None
        kinds = {"set": RESOURCE_SET, "remove": RESOURCE_REMOVE}
        if do not in kinds:
            raise HttpError(400, "This form is not known here.")
        self.same_page(request, await self.order(request, f"{do} resource {name}", kinds[do], 0, body))


def _interval_of(text: str) -> int:
    """
    :raises InputError: it is none.
    """
    try:
        return parse_number(text, INTERVAL_MAX)
    except ValueError:
        remedy = f"give 0 to {INTERVAL_MAX:,} seconds"
        raise InputError(f"{text[:40]!r} is no interval in seconds", remedy) from None
