"""The configuration: ``lcc.toml`` to frozen objects.

Every setting is declared once, in its section, with its default, its bounds, its unit and its meaning; ``lcc-admin
config --defaults`` prints this table.  :func:`load_config` reports every fault of a file at once.

``{home}`` in an endpoint string stands for the home folder.  Paths are relative to the folder of the file.
"""

from __future__ import annotations

from lcc.config.access import CU_SOCKET, CuConfig, MailConfig, ManholeConfig, RsConfig, TlsConfig
from lcc.config.defaults import describe_defaults
from lcc.config.endpoints import (
    content_address,
    content_source,
    is_local_endpoint,
    is_local_host,
    leads_to_this_machine,
    unix_socket_path,
)
from lcc.config.frontend import FeConfig, FeUnsConfig
from lcc.config.intake import DatabaseConfig, QmConfig, UnsConfig
from lcc.config.load import (
    DEFAULT_FILE,
    NAME_CHARS,
    examine_config,
    load_config,
    parse_config,
    read_config,
    sublcc_name_fault,
)
from lcc.config.manager import ManagerConfig
from lcc.config.monitor import WebConfig
from lcc.config.mysql_url import mysql_password
from lcc.config.push import PushConfig
from lcc.config.robots import BotConfig, BotmConfig
from lcc.config.root import DEFAULT_MIMETYPES, ROLES, Config
from lcc.config.search import SearchConfig
from lcc.config.setting import MANHOLE, METRICS, setting
from lcc.config.spider import SpiderConfig
from lcc.config.tasks import SchedulerConfig
from lcc.config.telemetry import LogConfig, MetricsConfig
from lcc.config.watched import WatchedConfig

__all__ = [
    "CU_SOCKET",
    "DEFAULT_FILE",
    "DEFAULT_MIMETYPES",
    "MANHOLE",
    "METRICS",
    "NAME_CHARS",
    "ROLES",
    "BotConfig",
    "BotmConfig",
    "Config",
    "CuConfig",
    "DatabaseConfig",
    "FeConfig",
    "FeUnsConfig",
    "LogConfig",
    "MailConfig",
    "ManagerConfig",
    "ManholeConfig",
    "MetricsConfig",
    "PushConfig",
    "QmConfig",
    "RsConfig",
    "SchedulerConfig",
    "SearchConfig",
    "SpiderConfig",
    "TlsConfig",
    "UnsConfig",
    "WatchedConfig",
    "WebConfig",
    "content_address",
    "content_source",
    "describe_defaults",
    "examine_config",
    "is_local_endpoint",
    "is_local_host",
    "leads_to_this_machine",
    "load_config",
    "mysql_password",
    "parse_config",
    "read_config",
    "setting",
    "sublcc_name_fault",
    "unix_socket_path",
]
