"""Sets that providers submit by HTTP: ``POST /sets``.

*Owns* the requests under way, and which Idempotency-Keys they have.

*Strategy.*  Each set goes through a conversation with the UNS (:mod:`lcc.roles.push.gateway`), element by element as
it comes: the UNS checks, orders, and stores it, and what it answers is what the client hears.  Nothing of a set is
kept here but what a transport holds.  A short body is read before its set begins; a long one, or one of unknown
length, is passed on while it arrives, and errors go back meanwhile.

*Idempotency.*  A request with a key is noted, with its order number, before the UNS has all of it, and its answer
before it is given (:mod:`lcc.storage.push.requests`).  One that comes again gets that answer.  Where none is known
(this process was killed, or the UNS went away), it is told again with the number that it had: so it is older than all
that the provider told after it.

*Failures.*  A client that disconnects, stalls, or sends what cannot be read leaves nothing.  The UNS is away: "try
again later".  Whether a set was accepted may be unknown then; the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.client.conversation import Conversation, NoVerdict, Refused, refused
from lcc.config import PushConfig
from lcc.domain.throttle import Throttle
from lcc.errors import StreamError, code, entry_for
from lcc.protocols.cp_uns import InitAccepted, SetAccepted
from lcc.protocols.cp_uns_client import set_begin
from lcc.protocols.set_bodies import SetBody
from lcc.roles.push.gateway import Account, Gateway
from lcc.roles.push.set_transfer import SetAnswer, Upload
from lcc.roles.standstills import Standstills
from lcc.storage.push.requests import ANSWER_BYTES_MAX, PURGED_AT_ONCE, SetRequest, SetRequests, digest_of, request_id
from lcc.transport.http.server import UploadRequest

KEYS_WINDOW_SECONDS = 3600.0
_BAD_ORDER = code("bad-order")


@attrs.frozen
class SetQuestion:
    """What a request asks for besides the elements.

    :ivar errors_upto: errors of earlier fetches up to this number have been read; 0: none.
    :ivar key: its Idempotency-Key; empty: it has none.
    """

    full: bool = False
    urlprefix: str = ""
    deletions: bool = False
    errors_upto: int = 0
    key: str = ""

    @property
    def digest(self) -> bytes:
        """Of all but the key."""
        return digest_of(f"{self.full} {self.deletions} {self.errors_upto} {self.urlprefix}")


class KeyConflict(Exception):
    """This Idempotency-Key cannot be used.

    :ivar status: of the answer.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


@attrs.define
class SetCounters:
    """
    :ivar accepted: sets, and ``urls`` of them that were valid.
    :ivar refused: sets.
    :ivar repeated: requests that got an answer given before.
    """

    accepted: int = 0
    urls: int = 0
    refused: int = 0
    repeated: int = 0


class SetIntake:
    """See :mod:`lcc.roles.push.sets`.

    :param ask: limits how long an answer of the database is waited for.
    """

    def __init__(
        self,
        gateway: Gateway,
        requests: SetRequests,
        ask: Callable[[Deferred[Any]], Deferred[Any]],
        clock: IReactorTime,
        now: Callable[[], float],
        settings: PushConfig,
    ) -> None:
        self.gateway = gateway
        self.counters = SetCounters()
        self._requests = requests
        self._ask = ask
        self._clock = clock
        self._now = now
        self._keep_seconds = settings.request_keys_keep
        self._keys = Throttle(settings.request_keys_max, KEYS_WINDOW_SECONDS)
        self._stall_seconds = settings.idle_timeout
        self._busy: set[bytes] = set()
        self._standstills = Standstills(clock)

    def start(self) -> None:
        """Look for standstills of this process."""
        self._standstills.watch(True)

    def stop(self) -> None:
        """Take no more."""
        self._standstills.watch(False)
        self.gateway.close()

    async def purge(self) -> bool:
        """Forget old keys; whether there are others."""
        return await self._requests.purge(int(self._now()) - self._keep_seconds) >= PURGED_AT_ONCE

    async def status(self, account: Account) -> InitAccepted:
        """What the UNS tells the provider at the beginning.

        :raises Refused: it does not let it in.
        """
        conversation, greeting = await self.gateway.enter(account, fresh=True)
        self.gateway.leave(account, conversation)
        assert greeting is not None
        return greeting

    async def submit(self, account: Account, question: SetQuestion, request: UploadRequest) -> None:
        """Take a set, and answer the request.

        :raises Refused: the set was not taken; nothing of the answer has been written.
        :raises NoVerdict: it may have been; likewise.
        :raises KeyConflict: it has a key that cannot be used; likewise.
        :raises StreamError: the body cannot be read; likewise.
        :raises StoreUnavailable: the database of keys is away; likewise.
        """
        began = self._standstills.certain_time()
        if not self._standstills.is_certain(began):
            raise refused("try-later", "the push server has stood still")
        body = SetBody()
        if not request.uploads:
            elements = body.receive(request.body()) + body.end()
            self._check(question, body)
        else:
            elements = ""
        # A full set needs to know what the UNS wants now.
        conversation, _ = await self.gateway.enter(account, fresh=question.full)
        ident = request_id(account.pid, question.key) if question.key else b""
        mine = False
        try:
            noted = None
            if ident:
                if ident in self._busy:
                    raise KeyConflict(409, "a request with this Idempotency-Key is under way")
                self._busy.add(ident)
                mine = True
                noted = await self._noted(account.pid, ident, question)
                if noted.status:
                    self.counters.repeated += 1
                    answer = SetAnswer(request, conversation, self._clock, self._stall_seconds)
                    answer.repeat(noted.status, noted.answer)
                    return
            await self._transfer(conversation, question, request, body, elements, noted)
        except BaseException as error:
            if not (isinstance(error, KeyConflict) and conversation.is_open):
                conversation.drop()
            raise
        finally:
            if mine:
                self._busy.discard(ident)
            self.gateway.leave(account, conversation)

    def _check(self, question: SetQuestion, body: SetBody) -> None:
        if question.full and not body.elements and not question.deletions:
            raise refused("names-nothing", "an empty full set deletes all pages; if that is meant, add deletions=yes")

    async def _noted(self, pid: int, ident: bytes, question: SetQuestion) -> SetRequest:
        """The request of before, or a new one.

        :raises KeyConflict: it was another one, or nobody knows what became of it.
        """
        found: SetRequest | None = await self._ask(self._requests.find(ident))
        now = int(self._now())
        if found is None or found.time <= now - self._keep_seconds:
            if self._keys.take([("provider", pid)], self._clock.seconds()):
                raise KeyConflict(429, "too many Idempotency-Keys of this provider, try again later")
            return SetRequest(ident, pid, question.digest, time=now)
        if found.query != question.digest:
            raise KeyConflict(422, "this Idempotency-Key was used for a request with another query")
        if not found.status and question.full:
            raise KeyConflict(
                409, "it is not known whether this full set was accepted: see /status, and send it with a new key"
            )
        return found

    async def _transfer(
        self,
        conversation: Conversation,
        question: SetQuestion,
        request: UploadRequest,
        body: SetBody,
        elements: str,
        noted: SetRequest | None,
    ) -> None:
        answer = SetAnswer(request, conversation, self._clock, self._stall_seconds)
        try:
            head = set_begin(
                question.full,
                question.urlprefix,
                deletions=question.deletions,
                errors_upto=question.errors_upto,
                order=noted.order if noted is not None else 0,
            )
        except ValueError as error:
            raise refused("bad-prefix", str(error)) from None
        conversation.begin(head, answer.fault)
        try:
            if noted is not None or request.uploads:
                order = await conversation.begun.get()
                if noted is not None and not noted.order:
                    noted = attrs.evolve(noted, order=order)
                    await self._ask(self._requests.save(noted))
            if request.uploads:
                upload = Upload(request, conversation, body, self._clock, self._stall_seconds)
                conversation.verdict.get().addErrback(upload.refused)
                request.take_upload(upload)
                await upload.done
                self._check(question, body)
            else:
                conversation.write(elements)
            conversation.end()
            answer.body_has_come()
            accepted = await conversation.verdict.get()
        except Refused as error:
            if noted is not None and noted.order:
                await self._ask(self._requests.forget(noted.id))
            if error.code == _BAD_ORDER:
                error = refused("try-later", "the database has been restored")
            self._refuse(answer, error)
        except (StreamError, NoVerdict) as error:
            self._refuse(answer, error)
        else:
            await self._accept(answer, accepted, noted)

    async def _accept(self, answer: SetAnswer, accepted: SetAccepted, noted: SetRequest | None) -> None:
        verdict = {"accepted": True, "received": accepted.received, "refused": answer.faults}
        if accepted.blanked_subtypes:
            verdict["blanked_subtypes"] = accepted.blanked_subtypes
        if noted is not None:
            kept = answer.kept(verdict, ANSWER_BYTES_MAX)
            await self._ask(self._requests.save(attrs.evolve(noted, status=200, answer=kept)))
        self.counters.accepted += 1
        self.counters.urls += accepted.received
        answer.finish(200, verdict)

    def _refuse(self, answer: SetAnswer, error: Refused | StreamError | NoVerdict) -> None:
        self.counters.refused += 1
        if not answer.has_begun:
            raise error
        answer.finish(200, verdict_of(error))


def verdict_of(error: Refused | StreamError | NoVerdict) -> dict[str, object]:
    """The last line of an answer."""
    if isinstance(error, NoVerdict):
        entry = entry_for(code("try-later"))
        text = "the UNS went away before its answer: the set may have been accepted; send it again"
        return {"accepted": None, "code": entry.code, "error": text}
    return {"accepted": False, "code": error.code, "error": error.text}
