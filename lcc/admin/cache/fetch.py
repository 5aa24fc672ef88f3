"""``lcc-admin fetch``: one fetch by the fetchers of the robots, looked at closely, and forgotten."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import attrs
import click
from twisted.internet.defer import CancelledError

from lcc.admin.context import SEE_CHECK, Admin, existing, pass_admin
from lcc.admin.output import json_option
from lcc.admin.values import PID
from lcc.commands.boottime import react
from lcc.commands.errors import Failed
from lcc.config import BotConfig
from lcc.domain.urls import Roots, normalise, scheme_of, site_of
from lcc.errors import ConfigError, FetchError, UrlError
from lcc.fetchers.registry import build_fetchers, choose_plugins
from lcc.interfaces import IWatchedFetcher
from lcc.model import Fetched, FetchOrder, FetchStep, Provider
from lcc.roles.bot.redirects import Redirects
from lcc.storage.disk.fetch_sinks import MeasuringSink
from lcc.storage.providers.providers import get_provider

TIMINGS = {"resolved": "resolve", "connected": "connect", "secured": "tls", "first-byte": "first_byte"}
"""Step -> what the time before it was needed for."""


class _Kept(MeasuringSink):
    """Writes the content to a file, too."""

    def __init__(self, file: BinaryIO | None) -> None:
        super().__init__()
        self._file = file

    def write(self, data: bytes) -> None:
        super().write(data)
        if self._file is not None:
            try:
                self._file.write(data)
            except click.FileError as error:  # it is opened only now
                raise OSError(error.format_message()) from None


@attrs.define
class Account:
    """All that is told of a fetch.

    :ivar began, ended: seconds, as those of the steps.
    """

    sink: MeasuringSink
    began: float = 0.0
    ended: float = 0.0
    steps: list[FetchStep] = attrs.field(factory=list)
    fetched: Fetched | None = None
    error: FetchError | None = None

    def ms(self, seconds: float) -> float:
        """Milliseconds from the beginning."""
        return round((seconds - self.began) * 1000, 1)

    def timings(self) -> dict[str, float | None]:
        """Milliseconds that each phase took, redirects together; None: there was no such phase."""
        times: dict[str, float | None] = dict.fromkeys(TIMINGS.values())
        before = self.began
        for step in self.steps:
            phase = TIMINGS.get(step.name)
            if phase is not None:
                times[phase] = round((times[phase] or 0.0) + (step.seconds - before) * 1000, 1)
            before = step.seconds
        times["total"] = self.ms(self.ended)
        return times


@click.command("fetch")
@click.argument("url")
@click.option("--provider", "pid", type=PID, help="Apply the roots and settings of this provider.")
@click.option("--allow-private", is_flag=True, help="Allow private and loopback addresses.")
@click.option("--insecure", is_flag=True, help="Do not verify TLS certificates.")
@click.option(
    "-o", "--output", type=click.File("wb", lazy=True), help="Write the content to this file (-: standard output)."
)
@json_option
@pass_admin
def fetch_command(
    admin: Admin, url: str, pid: int | None, allow_private: bool, insecure: bool, output: Any, as_json: bool
) -> None:
    """Fetch a URL as a robot would, and show every step.

    Nothing is queued or cached; --output saves the content.  Redirects are followed within the provider's roots, or
    without --provider within the URL's site.
    """
    if pid is not None and (allow_private or insecure):
        raise click.UsageError("--provider implies its own settings: leave out --allow-private and --insecure")
    try:
        url = normalise(url).partition("#")[0]
    except UrlError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    roots = site_of(url)
    if pid is not None:
        provider = _provider(admin, pid)
        roots, allow_private, insecure = " ".join(provider.roots), provider.allow_private, provider.insecure
        if not Roots(provider.roots).contains(url):
            raise Failed(
                f"{url} is outside the roots of provider {pid}: {roots}",
                "leave out --provider, or give another URL",
            )
    order = FetchOrder(pid or 0, url, private=allow_private, insecure=insecure)
    account = _fetch(admin.config.bot, order, roots, _Kept(output))
    to_stderr = output is not None and output.name == "-"
    if as_json:
        click.echo(json.dumps(as_object(account, order)), err=to_stderr)
    else:
        show(account, to_stderr)
    if account.error is not None:
        raise SystemExit(Failed.exit_code)


def _provider(admin: Admin, pid: int) -> Provider:
    with admin.database() as database:
        return existing(database.interact(get_provider, pid), pid)


def fetched_once(settings: BotConfig, order: FetchOrder, roots: str, file: BinaryIO) -> Account:
    """One fetch, as a robot would make it.

    :param roots: where redirects may lead, separated by spaces.
    :param file: gets the content.
    """
    return _fetch(settings, order, roots, _Kept(file))


def _fetch(settings: BotConfig, order: FetchOrder, roots: str, sink: MeasuringSink) -> Account:
    account = Account(sink)
    try:
        choose_plugins(settings.fetchers)
    except ConfigError as error:
        raise Failed(str(error), SEE_CHECK) from None

    async def run(reactor: Any) -> None:
        fetchers = build_fetchers(reactor, settings)
        account.began = reactor.seconds()
        try:
            fetcher = fetchers.get(scheme_of(order.url))
            if fetcher is None:
                raise FetchError("scheme-unsupported", f"there are {', '.join(fetchers)}")
            if IWatchedFetcher.providedBy(fetcher):
                fetcher.watch(account.steps.append)
            account.fetched = await fetcher.fetch(order, sink, Redirects().rule(roots))
        except FetchError as error:
            account.error = error
        except OSError as error:
            account.error = FetchError("store-failed", str(error))
        except CancelledError:
            account.error = FetchError("robot-error", "interrupted")
        account.ended = reactor.seconds()
        for fetcher in {id(fetcher): fetcher for fetcher in fetchers.values()}.values():
            await fetcher.close()

    try:
        react(run)
    except SystemExit as ended:
        if ended.code:
            raise
    return account


def as_object(account: Account, order: FetchOrder) -> dict[str, Any]:
    """What ``--json`` prints."""
    fetched, error = account.fetched, account.error
    told = fetched or Fetched(error.code if error is not None and error.code < 600 else 0, order.url)
    return {
        "url": order.url,
        "code": 0 if error is None else error.code,
        "text": "" if error is None else error.text,
        "status": told.status,
        "final_url": told.url,
        "mimetype": told.mimetype,
        "charset": told.charset,
        "modified": told.modified,
        "etag": told.etag,
        "size": account.sink.size_bytes,
        "md5": account.sink.md5 if fetched is not None else "",
        "wire": told.wire_bytes if error is None else error.wire_bytes,
        "timings_ms": account.timings(),
        "steps": [
            {"ms": account.ms(step.seconds), "name": step.name, "detail": step.detail, "lines": list(step.lines)}
            for step in account.steps
        ],
    }


def show(account: Account, to_stderr: bool) -> None:
    """Print the account for a person."""

    def line(text: str) -> None:
        # What servers send may hold anything; a terminal must not obey it.
        click.echo(
            "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text), err=to_stderr
        )

    for step in account.steps:
        line(f"{account.ms(step.seconds):>9.1f} ms  {step.name:<11} {step.detail}".rstrip())
        for text in step.lines:
            line(f"{'':<25}{text}")
    fetched, error, sink = account.fetched, account.error, account.sink
    if error is not None:
        told = f"error       {error.code} {error.entry.name}: {error.text}"
    else:
        assert fetched is not None
        kind = "; charset=".join(filter(None, (fetched.mimetype, fetched.charset))) or "no mime type"
        told = f"content     {sink.size_bytes} bytes, {kind}, md5 {sink.md5}"
    line(f"{account.ms(account.ended):>9.1f} ms  {told}")
    times = [
        f"{name.replace('_', ' ')} {'-' if ms is None else f'{ms:.1f} ms'}" for name, ms in account.timings().items()
    ]
    line(f"{'':<14}times       {', '.join(times)}")
