"""A provider's way to tell sets by HTTP, through the push server (doc/push.md).

A request has an Idempotency-Key: one without an answer is sent again as it was, some times.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from twisted.internet.task import deferLater

from lcc.transport.http.client import HttpClient, HttpFailed

from .sites import Place, Site, Telling

HTTP_SHARE = 0.4
"""Of the sets of a site that tells by HTTP, too, those that it tells so."""
PATIENCE_SECONDS = 10.0
ATTEMPTS = 4
_ANSWER_BYTES_MAX = 1_000_000


class SetsByHttp:
    """See :mod:`tests.simulation.by_http`.

    :param server: address of the push server.
    :param order_of: gives the order number of a set, by its provider and Idempotency-Key; 0: none is known.
    :ivar wrong: what must not be, as it was seen.
    """

    def __init__(self, site: Site, server: str, order_of: Callable[[int, str], int]) -> None:
        self._site = site
        self._server = server
        self._order_of = order_of
        self.chance = site.timeline.random(f"by http {site.pid}")
        self.requests = self.accepted = 0
        self.wrong: list[str] = []

    def _headers(self) -> dict[str, str]:
        login = b64encode(f"{self._site.pid}:{self._site.password}".encode()).decode()
        return {"Authorization": f"Basic {login}"}

    async def greeting(self, client: HttpClient) -> Any | None:
        """What a UNS says at the beginning, as far as a provider looks at it; None: there was no answer."""
        try:
            answer = await client.get(self._server, "/status", self._headers())
            said = json.loads(await answer.read(_ANSWER_BYTES_MAX))
        except HttpFailed:
            return None
        if answer.status != 200:
            self._check_status(answer.status, said)
            return None
        return SimpleNamespace(
            errors=[SimpleNamespace(**error) for error in said["errors"]["urls"]],
            error_count=said["errors"]["count"],
            errors_upto=said["errors"]["upto"],
            full_set_wanted=said["full_set_wanted"] is not None,
            deletions_held=said["deletions_held"]["held"],
        )

    async def tell(
        self, reactor: Any, client: HttpClient, telling: Telling, errors_upto: int, deletions: bool
    ) -> Place | None:
        """Tell a set; its place if it was accepted, None: it was not, or nobody knows.

        :param errors_upto: of its greeting.
        :param deletions: all of its deletions are meant.
        """
        self.requests += 1
        site, key = self._site, f"set-{self.requests}"
        query = f"kind={'full' if telling.full else 'partial'}&urlprefix={site.root}&errors_upto={errors_upto}"
        if deletions or (telling.full and not telling.elements):
            query += "&deletions=yes"
        body = "".join(json.dumps(element) + "\n" for element in telling.elements).encode()
        for _ in range(ATTEMPTS):
            try:
                answer = await client.post(
                    self._server, f"/sets?{query}", body, {**self._headers(), "Idempotency-Key": key}
                )
                lines = (await answer.read(_ANSWER_BYTES_MAX)).decode().splitlines()
                said = json.loads(lines[-1])
            except (HttpFailed, ValueError):  # or it is cut off within a line
                said = {}
            if said.get("accepted"):
                self.accepted += 1
                return Place(0, 0, self._order_of(site.pid, key))
            if said and said.get("accepted", True) is not None:
                # What was not accepted is not sent again as it was: it may be another one by now.
                self._check_status(answer.status, said)
                return None
            await deferLater(reactor, self.chance.expovariate(1 / 1.5))
        return None

    def _check_status(self, status: int, said: dict[str, Any]) -> None:
        if status not in (200, 408, 409, 429, 503):
            self.wrong.append(f"{self._site.root} is answered {status} {said}")
