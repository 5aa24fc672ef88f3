"""Callbacks of subscribers of the hub of content users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

from twisted.internet.defer import Deferred, fail, succeed

from lcc.fetchers.guarded_client import Reply


class Callbacks:
    """In place of what asks callbacks.

    :ivar answers: host -> status, or the failure, or a Deferred: of deliveries there.
    :ivar questions: the fields of each GET.
    :ivar got: host -> bodies that were delivered.
    :ivar held: is the answer to the next question.
    :ivar hanging: hosts that never answer.
    :ivar denied: called when somebody is told that it is dropped.
    """

    def __init__(self) -> None:
        self.confirms = True
        self.held: Deferred[Reply] | None = None
        self.hanging: dict[str, list[Deferred[Reply]]] = {}
        self.denied: Callable[[], object] = lambda: None
        self.answers: dict[str, int | Exception | Deferred[Reply]] = {}
        self.questions: list[dict[str, str]] = []
        self.got: dict[str, list[bytes]] = {}
        self.headers: Mapping[str, str] = {}
        self.asked = 0

    def get(self, url: str) -> Deferred[Reply]:
        fields = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.questions.append(fields)
        challenge = fields.get("hub.challenge", "")
        if fields["hub.mode"] == "denied":
            self.denied()
        held, self.held = self.held, None
        if held is not None:
            return held
        host = urlsplit(url).hostname or ""
        if host in self.hanging:
            self.hanging[host].append(Deferred())
            return self.hanging[host][-1]
        return succeed(Reply(200, challenge.encode() if self.confirms else b"<html>welcome</html>"))

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Deferred[Reply]:
        host = urlsplit(url).hostname or ""
        self.headers, self.asked = headers, self.asked + 1
        if host in self.hanging:
            self.hanging[host].append(Deferred())
            return self.hanging[host][-1]
        answer = self.answers.get(host, 200)
        if isinstance(answer, Deferred):
            return answer
        if isinstance(answer, Exception):
            return fail(answer)
        if 200 <= answer < 300:
            self.got.setdefault(host, []).append(body)
        return succeed(Reply(answer, b""))
