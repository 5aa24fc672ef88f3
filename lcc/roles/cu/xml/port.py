"""The port of the XML interface."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory

from lcc.config import CuConfig
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.authenticator import Authenticator
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.roles.cu.xml.contents import OpensContent
from lcc.roles.cu.xml.session import Session
from lcc.transport.connection_limits import party_of
from lcc.transport.stream import XmlStream


class XmlUsers(Factory):
    """Builds a session for each connection.

    :param content: reads content files.
    :param without_token: what those who have no token may see (:data:`lcc.roles.cu.access.WITHOUT_TOKEN`).
    """

    noisy = False

    def __init__(
        self,
        database: Reads,
        watcher: ChangeWatcher,
        content: OpensContent,
        settings: CuConfig,
        without_token: str,
        clock: IReactorTime,
    ) -> None:
        self.database = database
        self.watcher = watcher
        self.content = content
        self.settings = settings
        self.authenticator = Authenticator(database, without_token, settings, clock)
        self.clock = clock
        self.sessions: set[Session] = set()

    def buildProtocol(self, addr: IAddress | None) -> XmlStream:
        return Session(self, party_of(addr)).build_stream()

    def drop_all(self) -> None:
        """Cut all connections."""
        for session in list(self.sessions):
            session.drop()
