"""The engine with all that it works with: what the registration server and ``lcc-admin register`` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred, DeferredList

from lcc.config import BotConfig, Config
from lcc.domain.registration.wishes import Allowed
from lcc.interfaces import IFetcher, IRegistrationStore
from lcc.roles.proof_files import fetch_settings
from lcc.roles.rs.prover import Prover
from lcc.roles.rs.registrar import Registrar
from lcc.transport.mail import PostOffice


@attrs.frozen
class Means:
    """What the engine needs from its surroundings.

    :ivar reactor: connects, resolves, and is the clock.
    :ivar now: seconds since 1970.
    :ivar token: gives 16 hexadecimal digits that nobody can guess, never the same twice.
    :ivar read: the text of a file, by its path relative to home.
    :ivar in_thread: calls a function that takes long, in a thread.
    :ivar fetchers: URL scheme -> fetcher, for this reactor and configuration.
    """

    reactor: Any
    now: Callable[[], float]
    token: Callable[[], str]
    read: Callable[[str], str]
    in_thread: Callable[..., Deferred[Any]]
    fetchers: Callable[[Any, BotConfig], dict[str, IFetcher]]


class Assembly:
    """The engine with its fetchers and its mail queue.

    :param store: of registrations.
    :ivar registrar: the engine.
    """

    def __init__(self, config: Config, store: IRegistrationStore, means: Means) -> None:
        settings = config.rs
        fetchers = means.fetchers(means.reactor, fetch_settings(config.bot, settings))
        self._fetchers = list({id(fetcher): fetcher for fetcher in fetchers.values()}.values())
        self._post: PostOffice | None = None
        if config.mail.host:
            self._post = PostOffice(config.mail, means.reactor, means.now, means.token, means.read)
        self.registrar = Registrar(
            settings,
            Allowed(settings.bandwidth_max, settings.priority_max, settings.any_port, config.slots),
            store,
            Prover(fetchers["http"], settings),
            means.reactor,
            means.now,
            means.token,
            means.in_thread,
            None if self._post is None else self._post.send,
        )

    def close(self) -> Deferred[None]:
        """End; mails that are on their way are waited for."""
        self.registrar.stop()
        ends = [fetcher.close() for fetcher in self._fetchers]
        if self._post is not None:
            ends.append(self._post.close())
        return DeferredList(ends).addCallback(lambda _: None)
