"""What a UNS and the registration server know of providers, and write of them.

Every method that returns a Deferred fails with StoreUnavailable if the database is unreachable (the caller retries
later).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from lcc.model import FullSetKey, Provider, ProviderStatus, Registration, Session, SetStart


class IProviderReader(Interface):
    """Providers, for a UNS."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots; None: unknown id, or being removed."""

    def login(pid: int) -> Deferred[tuple[Provider, ProviderStatus] | None]:
        """As :meth:`provider`, with its status, but for the errors themselves."""

    def has_left(pid: int) -> Deferred[bool]:
        """Whether it has moved to another sub-LCC."""

    def status(pid: int, errors_max: int) -> Deferred[ProviderStatus]:
        """The status in ``<init_accepted>``."""


class ISessionStore(Interface):
    """What a UNS writes: order numbers, connections, running full sets (:mod:`lcc.storage.providers.sessions`)."""

    def open_session(pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
        """Count a login; durable and unique among all UNSes when the Deferred fires.

        :param known: the highest order number of the provider that is known here."""

    def begin_sets(starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
        """The order numbers of these sets, which are given in the order in which they began; durable.  Calls must not
        overlap.

        Of two sets of a provider, one that began after the other had got its number has the same number or a higher
        one; the same only within one session.

        :returns: None for a full set that exceeds the limit; it may be noted all the same until
            :meth:`end_full_sets`.  0 for sets of a provider that is moving, or has moved."""

    def last_drawn(pids: Collection[int]) -> Deferred[dict[int, int]]:
        """The last order number that was drawn, here or where the provider was before, by provider."""

    def end_full_sets(keys: Collection[FullSetKey]) -> Deferred[None]:
        """These unsolicited full sets are counted by the queue manager, or abandoned.  On failure, they are included
        in the next call, and in :meth:`begin_sets`."""

    def keep_full_sets(here: Collection[FullSetKey], now: int) -> Deferred[None]:
        """Of this UNS these full sets are under way, and no others.  To be called before any set begins."""


class IRegistrationStore(Interface):
    """Registrations.  Methods fail with RegistrationRefused if a registration is not possible."""

    def open(registration: Registration) -> Deferred[int]:
        """Store a new one; returns its number."""

    def find(number: int, now: int) -> Deferred[Registration | None]:
        """The registration of this number; None: unknown or expired."""

    def prove(number: int, private: bool, now: int) -> Deferred[Registration]:
        """Its secret was found: carry it out, or let it wait for approval.  Idempotent.

        :param private: it was found on a private address."""

    def provider(pid: int) -> Deferred[Provider | None]:
        """The provider with its roots; None: unknown id, or being removed."""

    def approve(number: int, now: int) -> Deferred[Registration]:
        """The operator approves a proven registration: carry it out."""

    def remove_expired(now: int) -> Deferred[int]:
        """Delete expired registrations; returns their number."""
