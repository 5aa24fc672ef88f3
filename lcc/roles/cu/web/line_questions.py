"""Questions that come as JSON lines in the body of a POST; the answer has a line for each, and an end mark."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.internet.interfaces import IReactorTime

from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.query import QueryError
from lcc.roles.cu.web.replies import Asked
from lcc.transport.http.replies import RETRY_SECONDS
from lcc.transport.http.server import BODY_BYTES_MAX, BodyRequest, GuardedSite
from lcc.transport.http.streaming import HttpWriter

LINES_MAX = 10_000
LINES_BYTES_MAX = 4 << 20
BODIES_BYTES_MAX = 64 << 20
"""Of all bodies that are arriving or being answered: whoever sends one has not shown a token yet."""
PATHS = (b"/states", b"/robots")
Question = Mapping[str, Any]
Answers = Callable[[Sequence[Question]], Awaitable[bytes]]


class UserRequest(BodyRequest):
    """A request of a content user: long bodies are for where one is expected, and for which there is room."""

    _counted_bytes = 0

    @property
    def body_bytes_max(self) -> int:  # type: ignore[override]  # there it is a constant
        channel: Any = self.channel
        asks = channel is not None and channel._path.partition(b"?")[0] in PATHS
        return LINES_BYTES_MAX if asks else BODY_BYTES_MAX

    def handleContentChunk(self, data: bytes) -> None:
        channel: Any = self.channel
        if not self._counted_bytes:
            self.notifyFinish().addBoth(self._forget, channel.site)
        self._counted_bytes += len(data)
        channel.site.bodies_bytes += len(data)
        super().handleContentChunk(data)
        if channel.site.bodies_bytes > BODIES_BYTES_MAX:
            self._forget(None, channel.site)
            channel.refuse(503, f"too many questions are being answered, ask again in {RETRY_SECONDS} seconds")

    def _forget(self, _: object, site: UserSite) -> None:
        """Its body is needed no longer."""
        site.bodies_bytes -= self._counted_bytes
        self._counted_bytes = 0
        self._pieces.clear()


class UserSite(GuardedSite):
    """The site of content users.

    :ivar bodies_bytes: of bodies that are arriving or being answered.
    """

    requestFactory = UserRequest
    bodies_bytes = 0


class LineQuestions(Asked):
    """``POST``: a question in JSON lines.  Override :meth:`prepare`.

    :param stall_seconds: who takes nothing for so long is dropped.
    """

    methods = (b"POST",)
    lines_at_once = 500
    """Answered in one transaction."""

    def __init__(self, cache: Cache, authenticator: Authenticator, clock: IReactorTime, stall_seconds: float) -> None:
        super().__init__(cache, authenticator)
        self._clock = clock
        self._stall = stall_seconds

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        """Check the questions; gives what answers some of them, as lines.

        :raises QueryError: one of them makes no sense.
        """
        raise NotImplementedError

    async def answer(self, request: Any, access: Access) -> None:
        questions = parse_lines(request.body())
        answers = self.prepare(request, access, questions)
        form = JsonLines()
        request.setHeader("content-type", form.media_type)
        request.setHeader("cache-control", "no-store")
        # What can go wrong at the beginning is told by a status.
        begun = await answers(questions[: self.lines_at_once])
        writer = HttpWriter(request, self._clock, self._stall)
        writer.write(begun)
        for start in range(self.lines_at_once, len(questions), self.lines_at_once):
            await writer.room()
            writer.write(await answers(questions[start : start + self.lines_at_once]))
        writer.write(form.end(None))
        writer.finish()


def parse_lines(body: bytes) -> list[Question]:
    """The objects of these lines.

    :raises QueryError: there are too many, or one is no object.
    """
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > LINES_MAX:
        raise QueryError([f"more than {LINES_MAX} lines"])
    questions: list[Question] = []
    for number, line in enumerate(lines, 1):
        try:
            question = json.loads(line)
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            raise QueryError([f"line {number} is no JSON object"])
        questions.append(question)
    return questions
