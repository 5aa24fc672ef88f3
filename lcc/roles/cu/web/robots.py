"""``/robots``: what robots.txt of sites say (:mod:`lcc.roles.cu.site_robots`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.site_robots import parse_origins, robots_answer
from lcc.roles.cu.web.line_questions import Answers, LineQuestions, Question
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.watched import roots_of_sites
from lcc.storage.tasks.robots import read_robots
from lcc.transport.http_server import BodyRequest


class Robots(LineQuestions):
    """``POST /robots``.

    :param tasks: the tables of tasks.
    :param order: orders that robots.txt of these sites are polled.
    """

    lines_at_once = 20
    """Each may have half a megabyte."""

    def __init__(
        self,
        cache: Cache,
        tasks: Reads,
        authenticator: Authenticator,
        clock: IReactorTime,
        stall_seconds: float,
        order: Callable[[Sequence[str]], Deferred[None]],
    ) -> None:
        super().__init__(cache, authenticator, clock, stall_seconds)
        self._tasks = tasks
        self._order = order

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        parse_origins(questions)
        return lambda some: self._answers(access, some)

    async def _answers(self, access: Access, questions: Sequence[Question]) -> bytes:
        origins = parse_origins(questions)
        roots = await self.cache.users.interact(roots_of_sites, sorted(set(origins)), access.providers)
        visible = set(origins if access.providers is None else roots)
        asked = [question["origin"] for question in questions]
        lines, unknown = await self._tasks.interact(_read, asked, origins, visible, roots)
        wanted = sorted(unknown.intersection(roots))
        if wanted:
            await self._order(wanted)
        return lines


def _read(
    txn: Txn,
    asked: Sequence[str],
    origins: Sequence[str],
    visible: set[str],
    roots: Mapping[str, Sequence[tuple[str, int]]],
) -> tuple[bytes, set[str]]:
    """The lines of the answer, and the sites that nobody polls."""
    known = read_robots(txn, sorted(visible))
    answers = [
        robots_answer(written, known.get(origin), roots.get(origin, ()))
        for written, origin in zip(asked, origins, strict=True)
    ]
    return JsonLines().rows(answers) if answers else b"", visible - known.keys()
