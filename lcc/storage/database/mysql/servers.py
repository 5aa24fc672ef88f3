"""Connections to one of several servers with the same database: the nodes of a Galera cluster.

This module is a driver in the sense of :class:`lcc.storage.database.dialects.Dialect`: it connects to a node that is
ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from traceback import clear_frames
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from lcc.storage.database.mysql.connection import RowsConnection

# What PyMySQL says of itself: adbapi logs a warning about drivers that say nothing.
apilevel, threadsafety, paramstyle = pymysql.apilevel, pymysql.threadsafety, pymysql.paramstyle

NOT_READY = ER.UNKNOWN_COM_ERROR
"""Galera's error of a node that is cut off from the others, or not synced yet."""


class Servers:
    """Connects to the server that answered last, or else to the next one that is ready.

    :param addresses: host and port of each, the preferred one first.
    :ivar galera: they are nodes of a cluster, as far as known.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.addresses = tuple(addresses)
        self.galera = False
        self._current = 0

    def connect(self, **arguments: Any) -> Any:
        """A connection to one of them.

        :raises pymysql.err.Error: the reason for each server.
        """
        begin, reasons = self._current, []
        for number in [*range(begin, len(self.addresses)), *range(begin)]:
            host, port = self.addresses[number]
            try:
                connection = self._greeted(host, port, arguments)
            except (OSError, pymysql.err.Error) as error:
                if len(self.addresses) == 1:
                    raise
                reasons.append(f"{host}:{port}: {error.args[-1] if error.args else error}")
            else:
                self._current = number
                return connection
        raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, "; ".join(reasons))

    def _greeted(self, host: str, port: int, arguments: dict[str, Any]) -> Any:
        """A connection; the connect timeout covers the whole handshake.

        The kernel of a hung server still accepts connections; PyMySQL would wait for the greeting as long as for the
        longest statement.
        """
        seconds = arguments["connect_timeout"]
        limits = {"read_timeout": seconds, "write_timeout": seconds}
        try:
            connection = self._serving(RowsConnection(host=host, port=port, **{**arguments, **limits}))
        except BaseException as error:
            # PyMySQL's error is a local variable of a frame in its own traceback: garbage, with the whole connection.
            clear_frames(error.__traceback__)
            raise
        connection._read_timeout = arguments["read_timeout"]  # there is no public way
        connection._write_timeout = arguments["write_timeout"]
        return connection

    def _serving(self, connection: Any) -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SHOW VARIABLES LIKE 'wsrep_on'")
                self.galera = dict(cursor.fetchall()).get("wsrep_on") == "ON"
                if self.galera:
                    cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
                    if dict(cursor.fetchall()).get("wsrep_ready") != "ON":
                        raise pymysql.err.OperationalError(NOT_READY, "the node is not ready")
        except BaseException:
            connection.close()
            raise
        return connection


def connect(servers: Servers, **arguments: Any) -> Any:
    """A connection to one of these servers; ``arguments`` as for ``pymysql.connect``."""
    return servers.connect(**arguments)
