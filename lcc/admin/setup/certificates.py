"""``lcc-admin certificates``: a private certificate authority for the roles of an LCC on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from lcc.admin.output import Column, Listing, json_option
from lcc.admin.setup.authority import PUBLIC, Authority, AuthorityError, host_name
from lcc.commands.errors import Failed
from lcc.errors import ConfigError
from lcc.transport.tls.certificates import ROLES, hosts_of, read_certificates, roles_of

_ROLES = click.Choice([*ROLES, PUBLIC])

AUTHORITY_DAYS = 3650
DAYS = 365
WITHIN_DAYS = 30
DAYS_MAX = 36500
_COLUMNS = (
    Column("file", 36),
    Column("role", 9),
    Column("until", 19, "time", title="until (UTC)"),
    Column("days", 5, "number"),
    Column("state", 8),
    Column("hosts"),
)

folder_option = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certificates"),
    show_default=True,
    help="Folder of the authority.",
)
_Days = click.IntRange(1, DAYS_MAX)
days_option = partial(click.option, "--days", type=_Days)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@contextmanager
def _faults() -> Iterator[None]:
    """Report errors in one line."""
    try:
        yield
    except (AuthorityError, ConfigError) as error:
        raise Failed(str(error), "see lcc-admin certificates --help") from None


def _host(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    try:
        return tuple(map(host_name, value)) if isinstance(value, tuple) else host_name(value)
    except AuthorityError as error:
        raise click.BadParameter(str(error)) from None


@click.group("certificates")
def certificates_group() -> None:
    """Manage a private certificate authority.

    It secures connections between the hosts of an LCC.  Everything is stored in one folder, by default
    "certificates" in the current folder; no configuration or database is needed.  Keep it private: whoever has its
    key can join the LCC.
    """


@certificates_group.command("init")
@folder_option
@click.option("--name", default="LCC", show_default=True, help="Name of the authority, in its certificate.")
@days_option(default=AUTHORITY_DAYS, show_default=True, help="Validity.")
def init_command(folder: Path, name: str, days: int) -> None:
    """Create the certificate authority."""
    if not 0 < len(name) <= 64 or not name.isprintable():
        raise click.BadParameter("must be 1 to 64 printable characters", param_hint="--name")
    with _faults():
        Authority.create(folder, name, days, _now())
    click.echo(f"Created {folder / 'ca.pem'} and {folder / 'ca.key'}; back them up, and keep the key secret.")


@certificates_group.command("add")
@folder_option
@click.argument("host", callback=_host)
@click.argument("roles", nargs=-1, required=True, type=_ROLES, metavar="ROLES...")
@click.option("--also", multiple=True, callback=_host, help="Another name or address of the host (repeatable).")
@days_option(default=DAYS, show_default=True, help="Validity.")
def add_command(folder: Path, host: str, roles: tuple[str, ...], also: tuple[str, ...], days: int) -> None:
    """Issue the certificates of a host, one for each of its ROLES.

    HOST is its name or address as others connect to it.  "public" is for the ports of providers and content users;
    "admin" is for lcc-admin on that host.  A role that there is not lists all.
    """
    with _faults():
        authority = Authority(folder)
        for role in dict.fromkeys(roles):
            path = authority.add([*dict.fromkeys([host, *also])], role, days, _now())
            click.echo(f"Created {path} and its key.")
    click.echo(f"Copy {folder / host} to {host}, as the folder tls in its home folder.")


@certificates_group.command("renew")
@folder_option
@click.argument("hosts", nargs=-1, callback=_host)
@click.option("--within", type=click.IntRange(0, DAYS_MAX), default=WITHIN_DAYS, show_default=True)
@click.option("--all", "everything", is_flag=True, help="Renew all, however long they are valid.")
@days_option(help="Validity of the new certificates.  Default: that of the old ones.")
def renew_command(folder: Path, hosts: tuple[str, ...], within: int, everything: bool, days: int | None) -> None:
    """Replace certificates and keys that expire within --within days.

    Copy them to their hosts as before; running roles load them at the next connection.
    """
    now, count = _now(), 0
    with _faults():
        authority = Authority(folder)
        for path in [path for host in hosts or ("*",) for path in authority.issued(host)]:
            certificate = authority.own(path)
            due = everything or certificate.not_valid_after_utc < now + timedelta(days=within)
            if due and not authority.is_revoked(certificate):
                authority.renew(path, None if days is None else timedelta(days=days), now)
                click.echo(f"Renewed {path} and its key.")
                count += 1
    if not count:
        click.echo("nothing to renew")


@certificates_group.command("revoke")
@folder_option
@click.argument("host", callback=_host)
@click.argument("roles", nargs=-1, type=_ROLES, metavar="[ROLES]...")
def revoke_command(folder: Path, host: str, roles: tuple[str, ...]) -> None:
    """Revoke the certificates of a host: all, or those of the given ROLES.

    Copy ca.pem to every host afterwards.  Existing connections stay open: restart the roles connected to that host.
    """
    with _faults():
        authority = Authority(folder)
        paths = [path for path in authority.issued(host) if not roles or path.stem in roles]
        if not paths or {path.stem for path in paths} < set(roles):
            raise Failed(f"{folder / host} has no such certificates", "lcc-admin certificates show lists them")
        authority.revoke(paths, _now())
    for path in paths:
        click.echo(f"Revoked {path}.")
    click.echo(f"Copy {folder / 'ca.pem'} to every host now, as tls/ca.pem in its home folder.")


@certificates_group.command("show")
@folder_option
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--within",
    type=click.IntRange(0, DAYS_MAX),
    help="Exit with code 1 if one has expired or expires within this many days.",
)
@json_option
def show_command(folder: Path, files: tuple[Path, ...], within: int | None, as_json: bool) -> None:
    """List the authority's certificates, or those in the given files and folders."""
    now, late = _now(), False
    listing = Listing(_COLUMNS, as_json)
    with _faults():
        is_revoked: Callable[[Any], bool] = lambda _: False  # noqa: E731  # of the authority's own only
        paths = [inner for path in files for inner in ([path] if path.is_file() else sorted(path.rglob("*.pem")))]
        if not files:
            authority = Authority(folder)
            paths, is_revoked = [folder / "ca.pem", *authority.issued()], authority.is_revoked
        for path in paths:
            certificate = read_certificates(path)[0]
            until = certificate.not_valid_after_utc
            days = (until - now) // timedelta(days=1)
            late = late or (
                within is not None and until < now + timedelta(days=within) and not is_revoked(certificate)
            )
            state = "good" if certificate.not_valid_before_utc <= now else "not yet"
            state = "revoked" if is_revoked(certificate) else "expired" if until < now else state
            listing.row(
                {
                    "file": str(path),
                    "role": " ".join(sorted(roles_of(certificate))) or ("authority" if path.stem == "ca" else PUBLIC),
                    "until": int(until.timestamp()),
                    "days": days,
                    "state": state,
                    "hosts": hosts_of(certificate) or None,
                }
            )
    listing.end("no certificates")
    if late:
        raise SystemExit(Failed.exit_code)
