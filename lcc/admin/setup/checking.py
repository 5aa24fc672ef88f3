"""``lcc-admin check``: every fault of a configuration at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from twisted.internet.endpoints import clientFromString, serverFromString

from lcc.admin.context import SEE_CHECK, Admin, pass_admin
from lcc.admin.processes.console import ALL, configured
from lcc.admin.setup.role_checks import search_lacks, sockets_not_there, spider_lacks, workers_not_run
from lcc.admin.values import scheme_fault
from lcc.commands.errors import Failed
from lcc.config import Config, examine_config, read_config, unix_socket_path
from lcc.console.credentials import UnsafeFile, read_trusted
from lcc.domain.fetches.hours import parse_hours
from lcc.domain.mimetypes import MimePatterns
from lcc.domain.timezones import timezone_fault
from lcc.domain.urls import normalise_root
from lcc.errors import ConfigError, UrlError
from lcc.feeds.text import has_trafilatura
from lcc.fetchers.registry import schemes_fetched
from lcc.insight.qm_state import read_live
from lcc.model import Provider
from lcc.model.shellwords import shell_command
from lcc.roles.botm.dispatcher import LEASE_SHARE, ROBOT_MARGIN_SECONDS
from lcc.storage.database.dialects import SqliteDialect, dialect_for
from lcc.storage.disk.free_space import Room
from lcc.storage.providers.providers import list_providers
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.transport.tls.certificates import describe, load, utc
from lcc.transport.tls.endpoints import files_of
from lcc.transport.wires import WIRES, completed, endpoints, leaves_machine, wire_of

SOCKET_PATH_MAX_BYTES = 107
"""Linux takes no longer names for UNIX sockets."""

PORT_MAX = 65535


@click.command("check")
@pass_admin
def check_command(admin: Admin) -> None:
    """Validate the configuration, home folder and database."""
    try:
        text, folder, source = read_config(admin.config_path)
        config, faults = examine_config(text, folder, source)
    except ConfigError as error:
        raise Failed(str(error), SEE_CHECK) from None
    admin.config = config  # with defaults in place of what is wrong
    for kind in (_mimetypes, _timezone, _home, _endpoints, _consoles, _certificates, _fetchers):
        faults += kind(config)
    faults += _database(admin)
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        raise SystemExit(Failed.exit_code)
    click.echo(f"{source or 'the defaults'}: no errors found")
    robot_seconds = int(config.qm.lease * LEASE_SHARE) - ROBOT_MARGIN_SECONDS
    if robot_seconds < config.bot.deadline:
        click.echo(
            f"qm.lease leaves a robot {robot_seconds} seconds for a fetch, less than bot.deadline "
            f"({config.bot.deadline:g}): slower fetches are cut off"
        )
    for note in (
        *_rooms(config),
        *_open_ports(config),
        *sockets_not_there(config),
        *workers_not_run(config),
        *spider_lacks(config),
        *search_lacks(config),
        *_text(),
    ):
        click.echo(note)
    if not config.bot.contact:
        click.echo("bot.contact is empty: webmasters cannot contact you about the robot")


def _text() -> Iterator[str]:
    if not has_trafilatura():
        yield "trafilatura is not installed here: lxml makes the text of pages (pip install 'dist/lcc-….whl[text]')"


def _mimetypes(config: Config) -> Iterator[str]:
    for pattern in config.mimetypes:
        try:
            MimePatterns([pattern])
        except ValueError as error:
            yield f"mimetypes: {error}"


def _timezone(config: Config) -> Iterator[str]:
    fault = timezone_fault(config.timezone)
    if fault:
        yield f"timezone: {fault}"


def _home(config: Config) -> Iterator[str]:
    home = config.home
    fault = _folder_fault(home)
    if fault:
        yield f"home: {fault}"
        return
    if home.exists() and home.stat().st_mode & 0o077:
        yield f"home: {home} is readable by others ({shell_command('chmod', 700, home)})"
    for key, name in (("uns.spool", config.uns.spool), ("botm.content", config.botm.content)):
        fault = _folder_fault(config.under_home(name))
        if fault:
            yield f"{key}: {fault}"


def _folder_fault(folder: Path) -> str:
    """Why this folder is not writable; empty if it is, or will be created at the first start."""
    try:
        if folder.exists() and not folder.is_dir():
            return f"{folder} is not a folder"
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        return str(error)
    if not place.is_dir():
        return f"{place} is not a folder"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"{place} is not writable by this user"


def _rooms(config: Config) -> Iterator[str]:
    """Roles that would have too little disk space here; they may run on other machines."""
    for name, reserve_bytes, setting, role in (
        (
            config.uns.spool,
            config.uns.spool_reserve,
            "uns.spool_reserve",
            "a UNS here tells providers to try again later",
        ),
        (
            config.botm.content,
            config.botm.content_reserve,
            "botm.content_reserve",
            "a BOT-M here gets no orders",
        ),
    ):
        folder = config.under_home(name)
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if missing := Room(place, reserve_bytes, setting).missing():
            yield f"{role}: {missing}"


def _endpoints(config: Config) -> Iterator[str]:
    for setting in WIRES:
        wire = wire_of(config, setting)
        for text in wire.texts(config):
            path = unix_socket_path(text.replace("{role}", max(wire.peers or ("",), key=len)))
            if len(os.fsencode(path)) > SOCKET_PATH_MAX_BYTES:
                yield f"{setting}: the socket path is longer than {SOCKET_PATH_MAX_BYTES} bytes: {path}"
            try:
                if setting == "uns.listen_notifiers":
                    endpoints(config, setting)
                complete = completed(config, setting, text)
                port = _port_of((serverFromString if wire.listens else clientFromString)(object(), complete))
                if not 0 <= port <= PORT_MAX:
                    yield f"{setting} = {text!r}: ports end at {PORT_MAX}"
            except ConfigError as error:
                yield from error.faults
            except Exception as error:  # the parsers raise whatever their conversions do
                yield f"{setting} = {text!r}: {error}"
            else:
                yield from _over_tls(setting, complete)


def _consoles(config: Config) -> Iterator[str]:
    for role, text in configured(config).items():
        setting = "manhole.listen" if role == ALL else f"{role}.manhole"
        if len(os.fsencode(unix_socket_path(text))) > SOCKET_PATH_MAX_BYTES:
            yield f"{setting}: the socket path is longer than {SOCKET_PATH_MAX_BYTES} bytes: {text}"
        try:
            if not 0 <= _port_of(serverFromString(object(), text)) <= PORT_MAX:
                yield f"{setting} = {text!r}: ports end at {PORT_MAX}"
        except Exception as error:  # the parsers raise whatever their conversions do
            yield f"{setting} = {text!r}: {error}"
    if configured(config):
        files = [config.under_home(name) for name in (config.manhole.keys, config.manhole.passwords)]
        try:
            if not any(read_trusted(path).strip() for path in files):
                yield f"manhole: nobody can log in to a console: neither {files[0]} nor {files[1]} has an entry"
        except UnsafeFile as error:
            yield f"manhole: {error}"


def _port_of(parsed: Any) -> int:
    return int(getattr(getattr(parsed, "endpoint", parsed), "_port", 0))


def _over_tls(setting: str, complete: str) -> Iterator[str]:
    """Faults of the certificates that an endpoint string names."""
    files = files_of(complete)
    if files is None:
        return
    try:
        loaded = load(files)
    except ConfigError as error:
        yield from (f"{setting}: {fault}" for fault in error.faults)
        return
    now = datetime.now(UTC)
    for certificate in (*loaded.chain, *loaded.authorities):
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            until = f"{utc(certificate.not_valid_before_utc)} to {utc(certificate.not_valid_after_utc)}"
            yield f"{setting}: the certificate {describe(certificate)} is valid from {until}, not now"
    if files.key is not None and files.key.stat().st_mode & 0o007:
        yield f"{setting}: {files.key} is readable by everybody ({shell_command('chmod', 600, files.key)})"


def _open_ports(config: Config) -> Iterator[str]:
    """Ports for providers and users that accept connections from other machines without TLS."""
    for setting, wire in WIRES.items():
        for text in wire.texts(config):
            if wire.peers is None and leaves_machine(text) and not text.startswith(("tls:", "ssl:")):
                yield (
                    f"{setting} = {text!r} is open to other machines without TLS: {wire.program} would receive "
                    f"passwords and tokens in clear text; restrict it with interface=127.0.0.1"
                )


def _certificates(config: Config) -> Iterator[str]:
    path = config.bot.extra_roots
    if path and not os.access(Path(path), os.R_OK):
        yield f"bot.extra_roots: cannot read {path}"


def _fetchers(config: Config) -> Iterator[str]:
    try:
        schemes_fetched(config.bot.fetchers)
    except ConfigError as error:
        yield from error.faults
    for folder in config.bot.file_folders:
        if not Path(folder).is_dir():
            yield f"bot.file_folders: {folder} is not a folder"


def _database(admin: Admin) -> Iterator[str]:
    settings = admin.config.database
    try:
        dialect = dialect_for(settings.url, admin.config.home, settings)
    except ConfigError as error:
        yield str(error)
        return
    try:
        if isinstance(dialect, SqliteDialect) and not dialect.path.exists() and admin.config.source is not None:
            # Made, with its folder, at the first start.
            fault = _folder_fault(dialect.path.parent)
            if fault and dialect.path.parent != admin.config.home:
                yield f"database.url: {fault}"
            return
    except OSError:
        pass  # what is wrong is told when it is used
    try:
        with admin.database() as database:
            providers = database.interact(list_providers)
            live = read_live(database.interact(saved_state), admin.now())
    except Failed as error:
        yield f"database.url: {error.message}: {error.then}"
        return
    try:
        schemes = schemes_fetched(admin.config.bot.fetchers)
    except ConfigError:
        schemes = []  # told before
    yield from live.refused  # as the queue manager that runs with this database sees it
    for provider in providers:
        yield from _provider(provider, admin.config.slots, schemes)


def _provider(provider: Provider, slots: int, schemes: list[str]) -> Iterator[str]:
    fault = scheme_fault(provider.roots, schemes) if schemes else ""
    if fault:
        yield f"provider {provider.pid}: its root {fault}"
    for root in provider.roots:
        try:
            if normalise_root(root) != root:
                yield f"provider {provider.pid}: its root {root} is not normalized"
        except UrlError as error:
            yield f"provider {provider.pid}: its root {root}: {error}"
    try:
        parse_hours(provider.hours, slots)
    except ValueError as error:
        yield f"provider {provider.pid}: its hours: {error}"
    fault = timezone_fault(provider.timezone)
    if fault:
        yield f"provider {provider.pid}: {fault}"
