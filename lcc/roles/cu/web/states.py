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
from lcc.storage.database.transactions import Txn
from lcc.storage.views.moved import departed
from lcc.transport.http_server import BodyRequest


class States(LineQuestions):
    """``POST /states``."""

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        notifier = parse_notifier(asked_pairs(request)[0])
        check_states(questions)
        return lambda some: self._answers(access, notifier, some)

    async def _answers(self, access: Access, notifier: Notifier, questions: Sequence[Question]) -> bytes:
        answers: list[dict[str, Any]] = [{}] * len(questions)
        homes: dict[int, Reads] = {}
        open_places = list(range(len(questions)))
        while open_places:
            by_home: defaultdict[Reads, list[int]] = defaultdict(list)
            former, homes = homes, {}
            for place in open_places:
                pid = asked_provider(questions[place])
                if pid not in homes:
                    homes[pid] = await self.cache.home(pid)
                if homes[pid] is not former.get(pid):  # else it has left for somewhere that nobody knows
                    by_home[homes[pid]].append(place)
            open_places = []
            for home, places in by_home.items():
                asked = [questions[place] for place in places]
                found, gone = await home.interact(_states, access, notifier, asked)
                for place, answer in zip(places, found, strict=True):
                    answers[place] = answer
                open_places += [place for place in places if asked_provider(questions[place]) in gone]
        return JsonLines().rows(answers) if answers else b""


def _states(
    txn: Txn, access: Access, notifier: Notifier, questions: Sequence[Question]
) -> tuple[list[dict[str, Any]], set[int]]:
    """The answers, and the providers whose rows are leaving."""
    return read_states(txn, access, notifier, questions), departed(txn, {asked_provider(each) for each in questions})
