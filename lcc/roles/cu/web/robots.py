"""``/robots``: what robots.txt of sites say (:mod:`lcc.roles.cu.site_robots`)."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.roles.access import Access
from lcc.roles.cu.site_robots import parse_sites
from lcc.roles.cu.web.line_questions import Answers, LineQuestions, Question
from lcc.transport.http.server import BodyRequest


class Robots(LineQuestions):
    """``POST /robots``."""

    lines_at_once = 20
    """Each may have half a megabyte."""

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        parse_sites(questions)
        return lambda some: self._answers(access, some)

    async def _answers(self, access: Access, questions: Sequence[Question]) -> bytes:
        return b"".join(await self.cache.robots(parse_sites(questions), access.providers))
