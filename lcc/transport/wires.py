"""Who may be at the other end of each port and link: one table, and the endpoint strings that follow from it.

``tls:`` in ``lcc.toml`` stands for an endpoint over TLS whose certificates are those of ``[tls]``, and whose peer has
a certificate for one of the wire's roles.  :func:`endpoint` writes all of that out (as
:mod:`lcc.transport.tls.endpoints` reads it).  A wire between roles that leaves the machine has to be one of these,
unless ``[tls] insecure`` says otherwise.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from twisted.logger import Logger

from lcc.config import ROLES, Config, is_local_endpoint, leads_to_this_machine, unix_socket_path
from lcc.errors import ConfigError
from lcc.model.notifiers import NOTIFIERS
from lcc.transport.tls.files import PREFIX, CertificateFiles

_log = Logger()


@attrs.frozen
class Wire:
    """One end of a connection.

    :ivar setting: its endpoint: table and key of ``lcc.toml``.
    :ivar role: whose end it is.
    :ivar listens: it listens; else it connects.
    :ivar peers: the roles at the other end; None: anybody (a public port).
    :ivar relay: a role that may pass on what they say, with its own certificate; empty: none.
    """

    setting: str
    role: str
    listens: bool
    peers: frozenset[str] | None
    relay: str = ""

    @property
    def program(self) -> str:
        """What runs the role."""
        return f"lcc-{self.role.replace('_', '-')}"

    def texts(self, config: Config) -> list[str]:
        """The endpoints as they are configured, with ``{home}`` filled in; of a UNIX socket that is named twice the
        last one."""
        section, _, key = self.setting.partition(".")
        value: str | tuple[str, ...] = getattr(getattr(config, section), key)
        texts = [config.endpoint(text) for text in ([value] if isinstance(value, str) else value) if text]
        return list({unix_socket_path(text) or text: text for text in texts}.values())

    def text(self, config: Config) -> str:
        """The endpoint of a wire that has one at most; empty: there is none."""
        return next(iter(self.texts(config)), "")


def _port(setting: str, *peers: str, relay: str = "") -> Wire:
    return Wire(setting, setting.partition(".")[0], True, frozenset(peers) or None, relay)


def _metrics(setting: str) -> Wire:
    """Whatever the role, it shows the same certificate there, and Prometheus one of the same kind: it is good for
    nothing else."""
    return Wire(setting, "metrics", True, frozenset(["metrics"]))


def _link(setting: str, *peers: str, relay: str = "") -> Wire:
    return Wire(setting, setting.partition(".")[0], False, frozenset(peers), relay)


WIRES: dict[str, Wire] = {
    wire.setting: wire
    for wire in (
        _port("uns.listen"),
        _link("uns.connect", "qm"),
        _port("uns.listen_notifiers", *NOTIFIERS, relay="fe_uns"),
        _port("uns.listen_gateway", "push"),
        _port("qm.listen", "uns", "botm"),
        _port("qm.listen_botm", "botm"),
        _port("botm.listen", "bot"),
        _link("botm.connect", "qm"),
        _link("botm.parent", "botm"),
        _port("botm.content_listen", "cu", "botm", "admin", "manager"),
        _link("bot.connect", "botm"),
        _port("bot.listen", "admin"),
        _port("cu.listen"),
        _port("cu.listen_xml"),
        _port("rs.listen"),
        _port("scheduler.listen", "manager"),
        _link("scheduler.connect", "uns", relay="fe_uns"),
        _port("web.listen"),
        _link("manager.connect", "scheduler"),
        _port("spider.listen"),
        _link("spider.connect", "uns", relay="fe_uns"),
        _port("push.listen"),
        _port("fe_uns.listen"),
        _port("fe_uns.listen_notifiers", *NOTIFIERS),
        _port("search.listen"),
        _link("push.connect", "uns", relay="fe_uns"),
        _link("push.connect_gateway", "uns"),
        *(_metrics(f"{role}.metrics") for role in ROLES),
        _metrics("metrics.listen"),
    )
}
"""All of them, by their settings."""
CENTRAL = _port("botm.listen", "botm")
"""``botm.listen`` of a central BOT-M."""


def wire_of(config: Config, setting: str) -> Wire:
    """The wire that this setting stands for."""
    if setting == CENTRAL.setting and config.botm.serves == "botms":
        return CENTRAL
    return WIRES[setting]


def endpoint(config: Config, setting: str) -> str:
    """The endpoint string of a wire, complete; empty: there is none.

    :param setting: table and key of ``lcc.toml``.
    :raises ConfigError: the wire leaves this machine unprotected.
    """
    return completed(config, setting, wire_of(config, setting).text(config))


def completed(config: Config, setting: str, text: str) -> str:
    """The same of one of its endpoints.

    :param text: as :meth:`Wire.texts` gives it.
    """
    return _complete(config, wire_of(config, setting), text, setting)


def sublcc_notifiers(config: Config, text: str, role: str) -> str:
    """The endpoint string of a sub-LCC's port of notifiers, complete, for the front end.

    :param text: as it is in the front end's database.
    :param role: of the notifier, which stands for ``{role}``.
    :raises ConfigError: it leaves this machine unprotected.
    """
    wire = Wire("notifiers", "fe_uns", False, frozenset(["uns"]))
    return _complete(config, wire, text.replace("{role}", role), f"{wire.setting} of a sub-LCC")


def _complete(config: Config, wire: Wire, text: str, setting: str) -> str:
    """
    :param setting: for messages.
    :raises ConfigError: the wire leaves this machine unprotected.
    """
    kind, _, rest = text.partition(":")
    if kind == "tls":
        return _written_out(config, wire, rest)
    if wire.peers is not None and leaves_machine(text):
        danger = _danger(wire)
        if not config.tls.insecure:
            raise ConfigError(
                [
                    f"{setting} = {text!r}: a wire between roles that leaves the machine must be tls:…, because "
                    f"{danger}; or say insecure = true in [tls]"
                ]
            )
        _log.warn("{setting} = {endpoint!r} is insecure: {danger}", setting=setting, endpoint=text, danger=danger)
    return text


def sublcc_endpoint(config: Config, text: str, timeout_seconds: float) -> str:
    """The endpoint string of a public port of a sub-LCC, complete, for who connects.

    :param text: as it is in the front end's database; over TLS its certificate is verified with the authorities of
        ``[fe_uns]``.
    :raises ConfigError: it leaves this machine unprotected.
    """
    kind, _, rest = text.partition(":")
    timeout = f":timeout={timeout_seconds:g}"
    if kind == "tls":
        authorities = config.fe_uns.authorities
        ca = f":ca={_quoted(str(config.under_home(authorities)))}" if authorities else ""
        return f"{PREFIX}:{rest}{ca}{timeout}"
    if leaves_machine(text) and not config.tls.insecure:
        raise ConfigError(
            [
                f"{text!r}: a connection to a sub-LCC that leaves the machine must be tls:HOST:PORT, because it "
                "carries passwords; or say insecure = true in [tls]"
            ]
        )
    return text + timeout


def endpoints(config: Config, setting: str) -> list[tuple[str, frozenset[str]]]:
    """The endpoint strings of a port, and the roles that may connect to each: where ``{role}`` stands in it, there is
    one for each of the roles; a UNIX socket cannot tell them apart otherwise.

    :raises ConfigError: as :func:`endpoint`; a UNIX socket without ``{role}``.
    """
    wire = wire_of(config, setting)
    peers = wire.peers or frozenset()
    found = []
    for configured in wire.texts(config):
        text = _complete(config, wire, configured, setting)
        if "{role}" in text:
            found += [(text.replace("{role}", role), frozenset([role])) for role in sorted(peers)]
        elif len(peers) > 1 and unix_socket_path(text):
            raise ConfigError([f"{setting} = {text!r}: {{role}} must stand in the path, for a socket for each role"])
        else:
            found.append((text, peers))
    return found


def _danger(wire: Wire) -> str:
    if wire.setting == "bot.listen":
        return "whoever reaches this port has URLs fetched"
    if wire.setting == "botm.content_listen":
        return "whoever reaches this port can read all content"
    if wire.role == "metrics":
        return "whoever reaches this port can read what goes on here"
    peers = " or ".join(sorted(wire.peers or ()))
    if wire.listens:
        return f"whoever reaches this port can pose as {peers}"
    return f"whoever is there, or in between, can pose as {peers}"


def _written_out(config: Config, wire: Wire, rest: str) -> str:
    given = set(re.findall(r"(?:^|(?<!\\):)(\w+)=", rest))
    arguments: list[tuple[str, str]] = []
    if wire.peers is None:
        files = CertificateFiles(
            None, config.under_home(config.tls.public_certificate), config.under_home(config.tls.public_key)
        )
    else:
        files = certificate_files(config, wire.role)
        arguments.append(("roles", "+".join(sorted(wire.peers.union(filter(None, [wire.relay]))))))
    paths: tuple[tuple[str, Path | None], ...] = (
        ("ca", files.ca),
        ("certificate", files.certificate),
        ("key", files.key),
    )
    arguments += [(name, str(path)) for name, path in paths if path is not None and name not in given]
    return ":".join([PREFIX, rest, *(f"{name}={_quoted(value)}" for name, value in arguments)])


def _quoted(text: str) -> str:
    return re.sub(r"([\\:=])", r"\\\1", text)


def certificate_files(config: Config, role: str) -> CertificateFiles:
    """What a role shows and whom it trusts, where other roles are concerned."""
    settings = config.tls
    certificate, key = (text.replace("{role}", role) for text in (settings.certificate, settings.key))
    return CertificateFiles(config.under_home(settings.ca), config.under_home(certificate), config.under_home(key))


def leaves_machine(text: str) -> bool:
    """Whether others than this machine may be at the other end of an endpoint; empty text: nobody is."""
    text = text.removeprefix("haproxy:")
    if not text or text.startswith(("unix:", "systemd:domain=UNIX")):
        return False
    return not (is_local_endpoint(text) or leads_to_this_machine(text))


def shown(text: str) -> str:
    """An endpoint string for a person: without what :func:`endpoint` added to it."""
    if not text.startswith(f"{PREFIX}:"):
        return text
    parts = re.split(r"(?<!\\):", text)[1:]
    added = ("roles", "ca", "certificate", "key", "timeout")
    kept = [part for part in parts if part.partition("=")[0] not in added]
    return ":".join(["tls", *kept])
