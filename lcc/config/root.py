"""The whole configuration."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from lcc.config.access import CuConfig, MailConfig, ManholeConfig, RsConfig, TlsConfig
from lcc.config.frontend import FeConfig, FeUnsConfig
from lcc.config.intake import DatabaseConfig, QmConfig, UnsConfig
from lcc.config.manager import ManagerConfig
from lcc.config.monitor import WebConfig
from lcc.config.push import PushConfig
from lcc.config.robots import BotConfig, BotmConfig
from lcc.config.search import SearchConfig
from lcc.config.setting import setting
from lcc.config.spider import SpiderConfig
from lcc.config.tasks import SchedulerConfig
from lcc.config.telemetry import LogConfig, MetricsConfig
from lcc.config.watched import WatchedConfig

ROLES = ("uns", "qm", "botm", "bot", "cu", "rs", "web", "scheduler", "manager", "spider", "push", "search", "fe_uns")
"""Sections of roles; each has the settings ``metrics`` and ``manhole``."""

DEFAULT_MIMETYPES = (
    "text/*",
    "application/xhtml+xml",
    "application/xml",
    "application/json",
    "application/pdf",
    "application/msword",
    "image/*",
)


@attrs.frozen
class Config:
    """All of it.

    :ivar source: the file it came from; None: defaults only.
    """

    home: Path = setting(Path("lcc-home"), "folder of all data of the LCC, relative to the folder of this file")
    mimetypes: tuple[str, ...] = setting(DEFAULT_MIMETYPES, "accepted mime types, * for any subtype")
    timezone: str = setting("", "IANA time zone of the LCC; empty: that of the machine")
    slots: int = setting(24, "slots in the period of hours: 24 for a day, 168 for a week")
    slot_seconds: int = setting(3600, "length of a slot", unit="seconds", minimum=10, maximum=86400)
    database: DatabaseConfig = attrs.field(factory=DatabaseConfig)
    uns: UnsConfig = attrs.field(factory=UnsConfig)
    qm: QmConfig = attrs.field(factory=QmConfig)
    botm: BotmConfig = attrs.field(factory=BotmConfig)
    bot: BotConfig = attrs.field(factory=BotConfig)
    cu: CuConfig = attrs.field(factory=CuConfig)
    rs: RsConfig = attrs.field(factory=RsConfig)
    web: WebConfig = attrs.field(factory=WebConfig)
    watched: WatchedConfig = attrs.field(factory=WatchedConfig)
    scheduler: SchedulerConfig = attrs.field(factory=SchedulerConfig)
    manager: ManagerConfig = attrs.field(factory=ManagerConfig)
    spider: SpiderConfig = attrs.field(factory=SpiderConfig)
    push: PushConfig = attrs.field(factory=PushConfig)
    fe: FeConfig = attrs.field(factory=FeConfig)
    fe_uns: FeUnsConfig = attrs.field(factory=FeUnsConfig)
    search: SearchConfig = attrs.field(factory=SearchConfig)
    mail: MailConfig = attrs.field(factory=MailConfig)
    tls: TlsConfig = attrs.field(factory=TlsConfig)
    manhole: ManholeConfig = attrs.field(factory=ManholeConfig)
    metrics: MetricsConfig = attrs.field(factory=MetricsConfig)
    log: LogConfig = attrs.field(factory=LogConfig)
    source: Path | None = attrs.field(default=None, metadata={"internal": True})

    @property
    def is_front_end(self) -> bool:
        """This is the configuration of a front end, not of an LCC."""
        return bool(self.fe.database) and not self.fe.name

    def endpoint(self, text: str) -> str:
        """An endpoint string with ``{home}`` filled in."""
        return text.replace("{home}", re.sub(r"([\\:=])", r"\\\1", str(self.home)))

    def under_home(self, path: str) -> Path:
        """A path of the configuration that is relative to home."""
        return self.home / path
