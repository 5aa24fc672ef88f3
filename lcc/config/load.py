"""Reads a configuration file, and finds every fault in it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import attrs

from lcc.config.endpoints import endpoint_fault, is_local_endpoint, is_local_host, mysql_hosts
from lcc.config.push import UNKNOWN_SITES
from lcc.config.root import ROLES, Config
from lcc.errors import ConfigError

DEFAULT_FILE = "lcc.toml"
"""Looked for in the current folder when no file is named."""
NAME_CHARS = 60
"""The longest name of a UNS, BOT-M or robot."""

_ENDPOINT_KEYS = (
    "listen",
    "connect",
    "listen_botm",
    "listen_notifiers",
    "listen_gateway",
    "connect_gateway",
    "content_listen",
    "parent",
    "listen_xml",
)

_is_notifier = re.compile(r"[A-Za-z0-9._@-]{1,40}").fullmatch
_is_sublcc_name = re.compile(r"[A-Za-z0-9._-]{1,40}").fullmatch

SectionT = TypeVar("SectionT")


def load_config(path: Path | None) -> Config:
    """Read a configuration file; None: ``lcc.toml`` in the current folder; where there is none, the defaults, with
    ``lcc-home`` in the current folder.

    :raises ConfigError: with every fault that was found.
    """
    text, folder, source = read_config(path)
    return parse_config(text, folder, source)


def read_config(path: Path | None) -> tuple[str, Path, Path | None]:
    """The text that :func:`load_config` would parse, the folder that paths in it are relative to, and its file.

    :raises ConfigError: when the file cannot be read.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return "", Path.cwd(), None
    try:
        return path.read_text(encoding="utf-8"), path.absolute().parent, path
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: {error}"]) from None


def parse_config(text: str, folder: Path, source: Path | None = None) -> Config:
    """The configuration that this text says.

    :param folder: what relative paths are relative to.
    :raises ConfigError: with every fault that was found.
    """
    config, faults = examine_config(text, folder, source)
    if faults:
        raise ConfigError(faults)
    return config


def examine_config(text: str, folder: Path, source: Path | None = None) -> tuple[Config, list[str]]:
    """Parse a configuration; invalid settings get their default.  Returns all faults as well.

    :raises ConfigError: when the text is no TOML at all.
    """
    name = str(source) if source else "configuration"
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: {error}"]) from None
    faults: list[str] = []
    config = _section(Config, data, "", faults)
    for where, endpoint in _endpoints(config):
        fault = endpoint_fault(endpoint)
        if fault:
            faults.append(f"{where} = {endpoint!r}: {fault}")
    for section in ("uns", "botm", "bot"):
        text = getattr(config, section).name
        if not text.strip() or not text.isprintable() or len(text) > NAME_CHARS:
            faults.append(f"{section}.name = {text[:80]!r}: must be 1 to {NAME_CHARS} printable characters")
    for section in ("spider", "push"):
        text = getattr(config, section).name
        if not _is_notifier(text):
            faults.append(f"{section}.name = {text[:80]!r}: must be 1 to 40 of A-Z a-z 0-9 . _ @ -")
    if config.push.unknown_sites not in UNKNOWN_SITES:
        faults.append(f"push.unknown_sites = {config.push.unknown_sites!r}: must be {', '.join(UNKNOWN_SITES)}")
    scheme = config.database.url.partition(":")[0]
    if scheme not in ("sqlite", "mysql"):
        faults.append("database.url: must begin with sqlite: or mysql:")
    faults += _front_end_faults(config)
    faults += _database_wire_faults(config)
    if config.slots not in (24, 168):
        faults.append(f"slots = {config.slots}: must be 24 (a day) or 168 (a week)")
        config = attrs.evolve(config, slots=24)
    if config.botm.serves not in ("bots", "botms"):
        faults.append(f"botm.serves = {config.botm.serves!r}: must be 'bots' or 'botms'")
    if config.cu.without_token not in ("", "nothing", "rows", "content"):
        faults.append(f"cu.without_token = {config.cu.without_token!r}: must be nothing, rows, content or empty")
    for section in ("rs", "web"):
        url = getattr(config, section).url
        if url and not re.fullmatch(r"https?://[^/?#\s@]+/(?:[!-~]*/)?", url):
            faults.append(f"{section}.url = {url!r}: must be http:// or https:// and a host, ending in /")
    if config.mail.security not in ("starttls", "tls", "none"):
        faults.append(f"mail.security = {config.mail.security!r}: must be starttls, tls or none")
    if config.mail.host and "@" not in config.mail.sender:
        faults.append("mail.sender: must be a mail address if mail.host is set")
    if config.mail.user and not config.mail.password_file:
        faults.append("mail.password_file: must be set if mail.user is")
    if config.log.format not in ("text", "json"):
        faults.append(f"log.format = {config.log.format!r}: must be text or json")
    for where, endpoint in _manholes(config):
        if endpoint and not is_local_endpoint(endpoint):
            faults.append(
                f"{where} = {endpoint!r}: a console must listen on a UNIX socket or on loopback "
                f"(tcp:PORT:interface=127.0.0.1)"
            )
    if config.qm.serial_by_host not in ("watched", "all", "no"):
        faults.append(f"qm.serial_by_host = {config.qm.serial_by_host!r}: must be watched, all or no")
    if 0 < config.qm.age_expired < config.qm.age_wanted:
        faults.append("qm.age_expired: must not be less than qm.age_wanted")
    for name in ("failing", "unreachable", "lag"):
        if getattr(config.web, f"{name}_bad") < getattr(config.web, f"{name}_warning"):
            faults.append(f"web.{name}_bad: must not be less than web.{name}_warning")
    home = config.home
    try:
        home = home.expanduser()
    except RuntimeError as error:
        faults.append(f"home = {str(home)!r}: {error}")
    config = attrs.evolve(config, home=home if home.is_absolute() else folder / home, source=source)
    if config.bot.extra_roots:
        extra_roots = str(config.under_home(config.bot.extra_roots))
        config = attrs.evolve(config, bot=attrs.evolve(config.bot, extra_roots=extra_roots))
    folders = tuple(str(config.under_home(folder)) for folder in config.bot.file_folders)
    config = attrs.evolve(config, bot=attrs.evolve(config.bot, file_folders=folders))
    return config, [f"{name}: {fault}" for fault in faults]


def _front_end_faults(config: Config) -> list[str]:
    settings, faults = config.fe, []
    if settings.database and settings.database.partition(":")[0] not in ("sqlite", "mysql"):
        faults.append("fe.database: must begin with sqlite: or mysql:")
    if settings.database and settings.database == config.database.url:
        faults.append("fe.database: must be a database of its own, not that of an LCC (database.url)")
    if settings.name and not settings.database:
        faults.append("fe.name: fe.database must be set, too")
    if settings.name and (fault := sublcc_name_fault(settings.name)):
        faults.append(f"fe.name = {fault}")
    for proxy in config.uns.proxies:
        if not _is_network(proxy):
            faults.append(f"uns.proxies: {proxy!r} is no IP address or network, such as 10.0.0.5 or 10.0.0.0/24")
    return faults


def sublcc_name_fault(text: str) -> str:
    """Why this cannot be the name of a sub-LCC; empty: it can."""
    return "" if _is_sublcc_name(text) else f"{text[:80]!r}: must be 1 to 40 of A-Z a-z 0-9 . _ -"


def _is_network(text: str) -> bool:
    """An IP address, or a network."""
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _database_wire_faults(config: Config) -> list[str]:
    if config.database.tls_authority or config.tls.insecure:
        return []
    return [
        f"{setting}: the database server {host} is on another machine and would be reached without TLS: set "
        f"database.tls_authority to the CA of its certificate, or insecure = true in [tls]"
        for setting, url in (("database.url", config.database.url), ("fe.database", config.fe.database))
        for host in mysql_hosts(url)
        if not is_local_host(host)
    ]


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of a section's settings."""
    return get_type_hints(kind)


def _section(kind: type[SectionT], data: dict[str, Any], prefix: str, faults: list[str]) -> SectionT:
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    values: dict[str, Any] = {}
    known = attrs.fields(kind)  # type: ignore[arg-type]  # it is one of attrs
    fields = {field.name: field for field in known if not field.metadata.get("internal")}
    for key, value in data.items():
        field = fields.get(key)
        where = f"{prefix}{key}"
        if field is None:
            faults.append(f"{where}: no such setting{_suggest(key, fields)}")
        elif attrs.has(hints[key]):
            if isinstance(value, dict):
                values[key] = _section(hints[key], value, f"{where}.", faults)
            else:
                faults.append(f"{where}: must be a table [{where}]")
        else:
            checked = _check(where, value, hints[key], field.metadata, field.default, faults)
            if checked is not None:
                values[key] = checked
    return kind(**values)


def _suggest(key: str, fields: dict[str, Any]) -> str:
    import difflib

    close = difflib.get_close_matches(key, fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _check(where: str, value: Any, kind: Any, metadata: Any, default: Any, faults: list[str]) -> Any:
    if isinstance(value, str) and "\0" in value:
        faults.append(f"{where}: must not contain a NUL character")
        return None
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    if kind == tuple[str, ...]:
        if metadata.get("or_one") and isinstance(value, str):
            value = [value] if value else []
        if (
            isinstance(value, list)
            and (value or default == ())
            and all(isinstance(item, str) and item and "\0" not in item for item in value)
        ):
            return tuple(value)
        faults.append(f"{where}: must be a list of strings, not {value!r}")
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", Path: "a path"}
        shown = "what was given" if metadata.get("secret") else repr(value)
        faults.append(f"{where}: must be {names.get(kind, kind)}, not {shown}")
        return None
    if kind is float and not math.isfinite(value):
        faults.append(f"{where}: must be a finite number, not {value!r}")
        return None
    minimum, maximum = metadata.get("minimum"), metadata.get("maximum")
    unit = f" {metadata['unit']}" if metadata.get("unit") else ""
    if minimum is not None and value < minimum:
        faults.append(f"{where} = {value}: must be at least {minimum:g}{unit}")
        return None
    if maximum is not None and value > maximum:
        faults.append(f"{where} = {value}: must be at most {maximum:g}{unit}")
        return None
    return value


def _endpoints(config: Config) -> Iterator[tuple[str, str]]:
    for section in (*ROLES, "manhole", "metrics"):
        for key in (*_ENDPOINT_KEYS, "manhole", "metrics"):
            value: str | tuple[str, ...] = getattr(getattr(config, section), key, "")
            for endpoint in [value] if isinstance(value, str) else value:
                if endpoint:
                    yield f"{section}.{key}", endpoint


def _manholes(config: Config) -> Iterator[tuple[str, str]]:
    yield "manhole.listen", config.manhole.listen
    for section in ROLES:
        yield f"{section}.manhole", getattr(config, section).manhole
