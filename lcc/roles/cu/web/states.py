"""``/states``: what became of URLs (:mod:`lcc.roles.cu.url_states`)."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.roles.access import Access
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.url_states import Notifier, check_states, parse_notifier, read_states
from lcc.roles.cu.web.line_questions import Answers, LineQuestions, Question
from lcc.roles.cu.web.listings import asked_pairs
from lcc.storage.database.transactions import Txn
from lcc.transport.http_server import BodyRequest


class States(LineQuestions):
    """``POST /states``."""

    def prepare(self, request: BodyRequest, access: Access, questions: Sequence[Question]) -> Answers:
        notifier = parse_notifier(asked_pairs(request)[0])
        check_states(questions)
        return lambda some: self.database.interact(_read, access, notifier, some)


def _read(txn: Txn, access: Access, notifier: Notifier, questions: Sequence[Question]) -> bytes:
    return JsonLines().rows(read_states(txn, access, notifier, questions)) if questions else b""
