"""``/states``: what became of URLs (:mod:`lcc.roles.cu.url_states`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from lcc.roles.access import Access
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.url_states import Notifier, asked_provider, check_states, parse_notifier, read_states
from lcc.roles.cu.web.line_questions import Answers, LineQuestions, Question
from lcc.roles.cu.web.listings import asked_pairs
from lcc.storage.database.transactions import Txn
from lcc.storage.views.moved import departed
from lcc.transport.http.server import BodyRequest


class States(LineQuestions):
    """``POST /states``."""

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        notifier = parse_notifier(asked_pairs(request)[0])
        check_states(questions)
        return partial(StateReader(self.cache).lines, access, notifier)


class StateReader:
    """Reads the states of URLs where each provider's rows are."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def lines(self, access: Access, notifier: Notifier, questions: Sequence[Question]) -> bytes:
        """The answers, a line each.

        :raises StoreUnavailable: nobody answers.
        """
        answers: list[dict[str, Any]] = [{}] * len(questions)
        homes: dict[int, Reads] = {}
        places = list(range(len(questions)))
        while places:
            pids = {asked_provider(questions[place]) for place in places}
            former, homes = homes, {pid: await self._cache.home(pid) for pid in sorted(pids)}
            by_home: defaultdict[Reads, list[int]] = defaultdict(list)
            for place in places:
                pid = asked_provider(questions[place])
                if homes[pid] is not former.get(pid):  # else nobody knows where it has gone
                    by_home[homes[pid]].append(place)
            places = []
            for home, some in by_home.items():
                found, gone = await home.interact(_states, access, notifier, [questions[place] for place in some])
                for place, answer in zip(some, found, strict=True):
                    answers[place] = answer
                places += [place for place in some if asked_provider(questions[place]) in gone]
        return JsonLines().rows(answers) if answers else b""


def _states(
    txn: Txn, access: Access, notifier: Notifier, questions: Sequence[Question]
) -> tuple[list[dict[str, Any]], set[int]]:
    """The answers, and the providers whose rows are leaving."""
    return read_states(txn, access, notifier, questions), departed(txn, {asked_provider(each) for each in questions})
