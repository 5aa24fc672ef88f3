"""The registration server's engine.

Owns: nothing; what is under way is in the database, and counts of who asks too often are in memory.
Strategy: two steps.  The first gives out a secret, the file to put it in, a ticket that identifies the registration
in later requests, and a password; the database gets hashes of them only.  The second fetches the secret from the site
at once; when it is found, what was asked for is carried out in one transaction, or waits for the operator (``[rs]
approval``).
Failures: what cannot be is a RegistrationRefused, a secret that is not found a NotProven; both say
exactly why.  A database that cannot be reached is StoreUnavailable.  The process may be killed at any moment: the
second step is carried out once, however often it is asked for.
Diagnostics: each registration that is asked for or carried out is logged with its number, never with a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.config import RsConfig
from lcc.domain.registration.sites import is_provable
from lcc.domain.registration.wishes import Allowed, read_contact, read_site, read_wishes
from lcc.domain.urls import Roots
from lcc.errors import RegistrationRefused, StoreUnavailable
from lcc.interfaces import IRegistrationStore
from lcc.model import Progress, Proves, Provider, Registration, Wishes
from lcc.numbers import parse_number
from lcc.roles.asking import in_time
from lcc.roles.rs.challenge import Challenge
from lcc.roles.rs.mails import challenge_mail, done_mail
from lcc.roles.rs.prover import NotProven, Prover
from lcc.roles.rs.rate_limiter import RateLimiter
from lcc.storage.providers.passwords import DUMMY_HASH, hash_of, hash_password, is_slow, verify_password
from lcc.transport.mail import Mail

_log = Logger()
T = TypeVar("T")

SWEEP_SECONDS = 60.0
"""Between two looks at what has expired."""
_TICKET = re.compile(r"([1-9][0-9]{0,9})-([0-9a-f]{32})", re.ASCII).fullmatch
_NUMBER_MAX = 10**10
_PASSWORD_CHARS = 1024
_UNKNOWN = "no such registration, or it has expired"

Fields = Mapping[str, str]
"""What somebody has filled in: name of a field -> text."""


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics."""

    asked_for: int = 0
    proven: int = 0
    not_proven: int = 0
    expired: int = 0


class Registrar:
    """The engine of the registration server.

    :param allowed: what may be wished for.
    :param clock: the reactor or a clock.
    :param now: seconds since 1970.
    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param in_thread: calls a function that takes long, in a thread.
    :param send: sends a mail, and tells nobody how that went; None: there is no mail server.
    :ivar store: of registrations.
    :ivar paused_since: seconds since 1970; None: it is not paused.
    """

    def __init__(
        self,
        settings: RsConfig,
        allowed: Allowed,
        store: IRegistrationStore,
        prover: Prover,
        clock: IReactorTime,
        now: Callable[[], float],
        token: Callable[[], str],
        in_thread: Callable[..., Deferred[Any]],
        send: Callable[[Mail], None] | None = None,
    ) -> None:
        self.settings = settings
        self.allowed = allowed
        self.store = store
        self.prover = prover
        self._clock = clock
        self.now = now
        self.counters = Counters()
        self.paused_since: float | None = None
        self._token = token
        self._in_thread = in_thread
        self._send = send
        self._limiter = RateLimiter(settings, clock)
        self._sweeper = LoopingCall(self._sweep)
        self._sweeper.clock = clock

    @property
    def mails(self) -> bool:
        """Mails can be sent."""
        return self._send is not None

    def start(self) -> None:
        """Forget what expires, from now on."""
        self._sweeper.start(SWEEP_SECONDS)

    def stop(self) -> None:
        """End."""
        if self._sweeper.running:
            self._sweeper.stop()

    def pause(self) -> None:
        """Take nothing on, until :meth:`resume`."""
        if self.paused_since is None:
            self.paused_since = self.now()

    def resume(self) -> None:
        """End what :meth:`pause` began."""
        self.paused_since = None

    # Step one.

    async def ask_provider(self, fields: Fields, address: str = "") -> Challenge:
        """Somebody wants to be a provider.

        :param fields: ``contact``, ``site``, ``bandwidth``, ``hours``, ``timezone``, ``priority``; ``mail``, if what
            is given out shall be sent to the contact, too.
        :param address: where it was asked from; empty: nobody counts that.
        :raises RegistrationRefused: it cannot be.
        """
        faults: dict[str, str] = {}
        contact = read_contact(fields, faults)
        site = read_site(fields, self.allowed, faults)
        wishes = read_wishes(fields, self.allowed, faults)
        _check_faults(faults)
        self._limiter.ask(address, [site], contact if fields.get("mail") else "")
        return await self._give(Proves.PROVIDER, (site,), fields, contact=contact, wishes=wishes)

    async def ask_root(self, fields: Fields, address: str = "") -> Challenge:
        """A provider wants a further root.

        :param fields: ``pid``, ``password``, ``site``, ``mail``.
        :raises RegistrationRefused: it cannot be.
        """
        faults: dict[str, str] = {}
        pid = _read_pid(fields, faults)
        if not 0 < len(fields.get("password", "")) <= _PASSWORD_CHARS:
            faults["password"] = "the provider's password is required"
        site = read_site(fields, self.allowed, faults)
        _check_faults(faults)
        self._limiter.ask(address, [site])
        provider = await self._log_in(pid, fields["password"], address)
        if Roots(provider.roots).contains(site):
            _check_faults({"site": f"{site} is already a root of this provider, or lies within one"})
        return await self._give_root(provider, site, fields)

    async def root_for(self, pid: int, fields: Fields) -> Challenge:
        """The same for an operator, who needs no password.

        :param fields: ``site``.
        """
        faults: dict[str, str] = {}
        site = read_site(fields, self.allowed, faults)
        _check_faults(faults)
        provider = await self._ask(self.store.provider(pid))
        if provider is None or provider.watched:
            raise RegistrationRefused("unknown", f"there is no provider {pid} that is registered")
        if site in provider.roots:  # one within another is how an operator narrows what a provider may submit
            _check_faults({"site": f"{site} is already a root of this provider"})
        return await self._give_root(provider, site, fields)

    async def _give_root(self, provider: Provider, site: str, fields: Fields) -> Challenge:
        if len(provider.roots) >= self.settings.roots_max:
            raise RegistrationRefused("full", f"a provider may have {self.settings.roots_max} roots here")
        return await self._give(Proves.ROOT, (site,), fields, contact=provider.contact, pid=provider.pid)

    async def ask_password(self, fields: Fields, address: str = "") -> Challenge:
        """A provider has lost its password.  It has to prove all of its roots: the password is good for all of them.

        :param fields: ``pid``; ``site``, one of its roots, so that nobody else is told the others; ``mail``.
        :raises RegistrationRefused: it cannot be.
        """
        faults: dict[str, str] = {}
        pid = _read_pid(fields, faults)
        site = read_site(fields, attrs.evolve(self.allowed, any_port=True), faults)
        _check_faults(faults)
        self._limiter.ask(address, [site])
        provider = await self._ask(self.store.provider(pid))
        if provider is None or provider.watched or site not in provider.roots:
            raise RegistrationRefused("unknown", f"there is no provider {pid} with the root {site}")
        hopeless = [root for root in provider.roots if not is_provable(root)]
        if hopeless:
            text = f"{hopeless[0]}, one of its roots, cannot be proven here: ask the operator for a new password"
            raise RegistrationRefused("not-provable", text)
        return await self._give(Proves.PASSWORD, provider.roots, fields, contact=provider.contact, pid=pid)

    # Step two.

    async def look(self, ticket: str) -> Registration:
        """How far a registration is.

        :param ticket: as it was given out.
        :raises RegistrationRefused: there is none.
        """
        match = _TICKET(ticket)
        number, key = (parse_number(match[1], _NUMBER_MAX), match[2]) if match else (0, "")
        registration = await self._ask(self.store.find(number, int(self.now())))
        # One text and one cost, whatever is wrong with it.
        right = verify_password(key, DUMMY_HASH if registration is None else registration.ticket_hash)
        if registration is None or not right:
            raise RegistrationRefused("unknown", _UNKNOWN)
        return registration

    async def check(self, ticket: str, address: str = "") -> Registration:
        """Fetch the secret now, and go on if it is found.

        :returns: the registration, done or waiting for the operator.
        :raises NotProven: the secret was not found.
        :raises RegistrationRefused: it cannot be.
        """
        return await self._check(await self.look(ticket), address)

    async def check_number(self, number: int) -> Registration:
        """The same for an operator, who needs no ticket."""
        registration = await self._ask(self.store.find(number, int(self.now())))
        if registration is None:
            raise RegistrationRefused("unknown", _UNKNOWN)
        return await self._check(registration, "")

    async def _check(self, registration: Registration, address: str) -> Registration:
        if registration.state is not Progress.ASKED:
            return registration
        self._check_pause()
        self._limiter.check(address, registration.folders)
        try:
            private = await self.prover.prove(registration)
        except NotProven:
            self.counters.not_proven += 1
            raise
        self.counters.proven += 1
        proving = self.store.prove(registration.number, private, int(self.now()))
        # Whether or not who asked still waits: nobody may keep a provider from hearing of a new password.
        return await self._ask(proving.addCallback(self._tell))

    def _tell(self, done: Registration) -> Registration:
        """Log what has come of a registration, and write to its contact."""
        _log.info(
            "Registration {number} ({kind}) of {folders} proven: {state}, provider {pid}",
            number=done.number,
            kind=done.kind.value,
            folders=" ".join(done.folders),
            state=done.state.value,
            pid=done.pid,
        )
        if done.state is Progress.DONE and done.contact:
            self.send(done_mail(done, done.contact))
        return done

    def send(self, mail: Mail) -> None:
        """Send a mail, if there is a mail server."""
        if self._send is not None:
            self._send(mail)

    async def _log_in(self, pid: int, password: str, address: str) -> Provider:
        begun = self._clock.seconds()
        self._limiter.check_login(pid, address)
        provider = await self._ask(self.store.provider(pid))
        self._limiter.check_login(pid, address)  # others may have been tried while this one waited
        self._limiter.tried(pid, address)
        stored = hash_of(provider)
        if is_slow(stored):
            right = await self._in_thread(verify_password, password, stored)
        else:
            right = verify_password(password, stored)
        if provider is None or not right:
            await self._limiter.failed(address, begun)
            raise RegistrationRefused("denied", "unknown provider or wrong password")
        self._limiter.passed(pid, address)
        return provider

    async def _give(
        self,
        kind: Proves,
        folders: tuple[str, ...],
        fields: Fields,
        *,
        contact: str,
        wishes: Wishes = Wishes(),  # noqa: B008  # it is frozen
        pid: int = 0,
    ) -> Challenge:
        self._check_pause()
        now = int(self.now())
        key, secret = self._secret(), self._secret()
        password = "" if kind is Proves.ROOT else self._secret()
        registration = Registration(
            kind=kind,
            ticket_hash=hash_password(key, generated=True),
            secret_hash=hash_password(secret, generated=True),
            password_hash=hash_password(password, generated=True) if password else "",
            file=f"lcc-{self._token()}.txt",
            folders=folders,
            created=now,
            expires=now + self.settings.expiry,
            contact=contact,
            wishes=wishes,
            pid=pid,
        )
        number = await self._ask(self.store.open(registration))
        challenge = Challenge(attrs.evolve(registration, number=number), f"{number}-{key}", secret, password)
        self.counters.asked_for += 1
        _log.info(
            "Registration {number} ({kind}) of {folders} requested",
            number=number,
            kind=kind.value,
            folders=" ".join(folders),
        )
        # A new password is sent to nobody who has not proven anything: who asks sees it, the provider hears of it.
        if fields.get("mail") and kind is Proves.PROVIDER:
            self.send(challenge_mail(challenge, self.settings))
        return challenge

    def _check_pause(self) -> None:
        if self.paused_since is not None:
            raise RegistrationRefused("busy", "registrations are paused, try again later", {}, 60.0)

    def _secret(self) -> str:
        """128 bits."""
        return self._token() + self._token()

    async def _sweep(self) -> None:
        try:
            removed = await self.store.remove_expired(int(self.now()))
        except StoreUnavailable:
            return  # the store has logged it
        except Exception:
            _log.failure("Cannot remove expired registrations")
            return
        self.counters.expired += removed
        if removed:
            _log.info("Removed {removed} expired registrations", removed=removed)

    def _ask(self, question: Deferred[T]) -> Deferred[T]:
        return in_time(question, self._clock, self.settings.database_timeout)


def _read_pid(fields: Fields, faults: dict[str, str]) -> int:
    text = fields.get("pid", "").strip()
    try:
        return parse_number(text, _NUMBER_MAX, 1)
    except ValueError:
        faults["pid"] = "the number of the provider is required"
        return 0


def _check_faults(faults: dict[str, str]) -> None:
    if faults:
        raise RegistrationRefused("faults", "invalid request", faults)
