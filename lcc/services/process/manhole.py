"""The console of a process as a service: off unless its endpoint is set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.application.service import IService, MultiService

from lcc.config import Config, is_local_endpoint
from lcc.errors import ConfigError
from lcc.services.common import RoleService
from lcc.transport.links import PortService


def add_console(services: MultiService, config: Config, reactor: Any, endpoint: str, *roles: RoleService) -> None:
    """Add a console for these roles at this endpoint.

    :param services: to which the console is added, and which it shows.
    :param endpoint: empty: there is no console.
    """
    if endpoint:
        ManholeService(config, reactor, config.endpoint(endpoint), roles, services).setServiceParent(services)


class ManholeService(MultiService):
    """A console.

    :raises ConfigError: from ``startService``: it could be reached from elsewhere, nobody could log in, or a file
        that it depends on cannot be trusted.
    """

    def __init__(
        self, config: Config, reactor: Any, endpoint: str, roles: tuple[RoleService, ...], process: MultiService
    ) -> None:
        super().__init__()
        self._config = config
        self._reactor = reactor
        self._endpoint = endpoint
        self._roles = roles
        self._process = process
        self._factory: Any = None

    def startService(self) -> None:
        if not is_local_endpoint(self._endpoint):
            raise ConfigError([f"{self._endpoint!r}: a console must listen on a UNIX socket or on loopback"])
        self._factory = self._make_factory()
        PortService(self._reactor, self._endpoint, self._factory).setServiceParent(self)
        super().startService()

    def _make_factory(self) -> Any:
        # Late: it imports the global reactor.
        from lcc.console.credentials import UnsafeFile, read_trusted
        from lcc.console.hostkey import host_key
        from lcc.console.ssh import ConsoleFactory

        settings = self._config.manhole
        keys, passwords = (self._config.under_home(name) for name in (settings.keys, settings.passwords))
        try:
            with_keys, with_passwords = bool(read_trusted(keys).strip()), bool(read_trusted(passwords).strip())
            key = host_key(self._config.under_home(settings.host_key))
        except UnsafeFile as error:
            raise ConfigError([f"console: {error}"]) from None
        if not with_keys and not with_passwords:
            raise ConfigError(
                [
                    f"console: nobody can log in: put public keys into {keys}, or run "
                    f'"lcc-admin console-password NAME" ({passwords})'
                ]
            )
        names = [role.name for role in self._roles]
        engines = {role.name: role.commands.engine for role in self._roles}
        return ConsoleFactory(
            self._reactor,
            settings,
            key,
            keys,
            passwords if with_passwords else None,
            {role.name: role.commands for role in self._roles},
            {**engines, "services": named_services(self._process)},
            f"LCC console of {', '.join(names)} in {Path(self._config.home)}. help() lists the commands.",
        )

    def stopService(self) -> Any:
        if self._factory is not None:
            self._factory.drop_all()
        return super().stopService()


def named_services(parent: MultiService) -> Mapping[str, IService]:
    """The services of the roles here: ``qm.database``, ``qm.port``, ``qm.port2``, …"""
    prefix = f"{parent.name}." if isinstance(parent, RoleService) else ""
    found: dict[str, IService] = {}
    for service in parent:
        kind = re.sub(r"Service$", "", type(service).__name__).strip("_")
        name = base = prefix + (service.name if isinstance(service, RoleService) else kind.lower())
        number = 1
        while name in found:
            number += 1
            name = f"{base}{number}"
        found[name] = service
        if isinstance(service, RoleService):
            found.update(named_services(service))
    return found
