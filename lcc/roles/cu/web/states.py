"""``/states``: what became of URLs (:mod:`lcc.roles.cu.url_states`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lcc.roles.access import Access
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.url_states import Notifier, asked_provider, check_states, parse_notifier, read_states
from lcc.roles.cu.web.line_questions import Answers, LineQuestions, Question
from lcc.roles.cu.web.listings import asked_pairs
from lcc.transport.http_server import BodyRequest


class States(LineQuestions):
    """``POST /states``."""

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        notifier = parse_notifier(asked_pairs(request)[0])
        check_states(questions)
        return lambda some: self._answers(access, notifier, some)

    async def _answers(self, access: Access, notifier: Notifier, questions: Sequence[Question]) -> bytes:
        by_home: defaultdict[Reads, list[int]] = defaultdict(list)
        homes: dict[int, Reads] = {}
        for place, question in enumerate(questions):
            pid = asked_provider(question)
            if pid not in homes:
                homes[pid] = await self.cache.home(pid)
            by_home[homes[pid]].append(place)
        answers: list[dict[str, Any]] = [{}] * len(questions)
        for home, places in by_home.items():
            asked = [questions[place] for place in places]
            found = await home.interact(read_states, access, notifier, asked)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return JsonLines().rows(answers) if answers else b""
