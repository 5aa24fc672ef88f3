"""What the services of all roles share: options, the configuration, the home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.python import usage

from lcc.config import Config, load_config
from lcc.errors import ConfigError
from lcc.storage.disk import Disk


class RoleOptions(usage.Options):
    """``--config FILE``.  The configuration is read when the options are complete; nothing else is touched."""

    optParameters = [["config", "c", None, "configuration file; without: lcc.toml in this folder, else the defaults"]]
    config: Config

    def postOptions(self) -> None:
        path = self["config"]
        try:
            self.config = load_config(None if path is None else Path(path))
        except ConfigError as error:
            raise usage.UsageError(str(error)) from None
        parent: Any = getattr(self, "parent", None)
        if parent is not None and parent.get("pidfile") == "twistd.pid":
            # Two roles started in one folder would clash over the default.
            parent["pidfile"] = ""


class HomeService(Service):
    """Creates the home folder at start, for this user alone, where it does not exist.

    Add it first to a role's services: they are started in the order in which they were added.
    """

    def __init__(self, home: Path, disk: Disk) -> None:
        self._home = home
        self._disk = disk

    def startService(self) -> None:
        self._disk.make_folder(self._home)
        super().startService()
