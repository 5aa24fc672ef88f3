"""Endpoint strings as lcc.toml has them: what they become, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from lcc.config import Config, parse_config
from lcc.config.root import ROLES
from lcc.errors import ConfigError
from lcc.model.notifiers import NOTIFIERS
from lcc.transport.tls.endpoints import files_of
from lcc.transport.wires import WIRES, certificate_files, endpoint, endpoints, leaves_machine, shown, sublcc_endpoint


def parsed(text: str, folder: Path = Path("/lcc")) -> Config:
    return parse_config(text, folder)


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("", False),
        ("unix:/run/x.sock:mode=600", False),
        ("systemd:domain=UNIX:index=0", False),
        ("systemd:domain=INET:index=0", True),
        ("tcp:9000", True),
        ("tcp:9000:interface=10.0.0.1", True),
        ("tcp:9000:interface=127.0.0.1", False),
        ("tcp:9000:interface=127.0.0.1:backlog=5", False),
        ("tcp:9000:interface=127.0.0.1.example.org", True),
        ("tcp6:9000:interface=\\:\\:1", False),
        ("tcp:9000:interface=\\:\\:", True),
        ("tcp:9000:interface=localhost", False),
        ("haproxy:tcp:9000:interface=127.0.0.1", False),
        ("haproxy:tcp:9000", True),
        ("tcp:10.0.0.1:9000", True),
        ("tcp:127.0.0.1:9000", False),
        ("tcp:localhost:9000", False),
        ("tcp:host=127.0.0.1:port=9000", False),
        ("tcp:host=10.0.0.1:port=9000", True),
        ("tcp:port=9000:host=127.0.0.1", False),
        ("tcp:port=9000:host=10.0.0.1", True),
        ("tcp:9000:host=127.0.0.1", False),
        ("tcp:127.0.0.1:9000:host=10.0.0.1", False),  # Twisted goes by the place
        ("tcp:10.0.0.1:9000:host=127.0.0.1", True),
        ("tcp:host=\\:\\:1:port=9000:timeout=5", False),
        ("tcp:LOCALHOST:9000", False),
        ("tcp:ip6-localhost:9000", False),
        ("tcp:127.1:9000", False),
        ("tcp:127.0.0.1.example.org:9000", True),
        ("tcp:port=9000", True),
        ("tcp:localhost.example.org:9000", True),
        ("ssl:9000:privateKey=x:certKey=y", True),
        ("sim:somewhere", True),
        ("tcp:9100:interface=127.0.0.1:interface=0.0.0.0", True),  # Twisted takes the last one
        (":", True),
    ],
)
def test_what_leaves_the_machine(text: str, leaves: bool) -> None:
    assert leaves_machine(text) == leaves


def over_tcp(config: str, setting: str) -> list[str]:
    """Its endpoints but the socket that is open in any case."""
    return [text for text, _ in endpoints(parsed(config), setting) if not text.startswith("unix:")]


@pytest.mark.parametrize("setting", list(WIRES))
def test_a_wire_that_leaves_the_machine_is_tls_or_insecure(setting: str) -> None:
    section, _, key = setting.partition(".")
    wire = WIRES[setting]
    text = "tcp:9100:interface=10.0.0.1" if wire.listens else "tcp:10.0.0.1:9100"
    config = f'[{section}]\n{key} = "{text}"\n'
    if wire.peers is None:
        assert over_tcp(config, setting) == [text], "whom strangers may reach may be without"
    else:
        with pytest.raises(ConfigError, match=rf"{setting} = '{text}': .*must be tls:"):
            over_tcp(config, setting)
    with capturedLogs() as logged:
        assert over_tcp(f"{config}[tls]\ninsecure = true\n", setting) == [text]
    told = [str(formatEvent(event)) for event in logged]
    assert len(told) == (wire.peers is not None)
    assert all(f"{setting} = '{text}' is insecure" in line for line in told)


def test_every_endpoint_of_the_configuration_is_in_the_table() -> None:
    """A new one has to say who may be at its other end."""
    kinds = ("listen", "connect", "parent", "metrics")
    settings = {
        f"{section}.{name}"
        for section in (*ROLES, "metrics")
        for name in vars_of(getattr(Config(), section))
        if any(kind in name.split("_") for kind in kinds)
        and name not in {"listen_files", "listen_token_file", "connect_timeout"}
    }
    assert settings == set(WIRES)


def vars_of(section: object) -> list[str]:
    return [str(field.name) for field in section.__attrs_attrs__]  # type: ignore[attr-defined]


def test_what_stands_for_tls_is_written_out() -> None:
    config = parsed('home = "ho:me"\n[qm]\nlisten = "tls:9101:interface=10.0.0.1"\n[uns]\nlisten = "tls:9000"\n')
    written = endpoint(config, "qm.listen")
    assert written.startswith("lcctls:9101:interface=10.0.0.1:roles=botm+uns:ca=/lcc/ho\\:me/tls/ca.pem:")
    assert files_of(written) == certificate_files(config, "qm")
    assert shown(written) == "tls:9101:interface=10.0.0.1"
    public = endpoint(config, "uns.listen")
    assert public == "lcctls:9000:certificate=/lcc/ho\\:me/tls/public.pem:key=/lcc/ho\\:me/tls/public.key"
    assert shown("tcp:1") == "tcp:1" and files_of("tcp:1") is None


def test_an_endpoint_may_name_its_own_files() -> None:
    config = parsed('[uns]\nlisten = "tls:9000:certificate=/etc/a.pem:key=/etc/a.key"\n')
    assert endpoint(config, "uns.listen") == "lcctls:9000:certificate=/etc/a.pem:key=/etc/a.key"


def test_a_central_botm_serves_botms() -> None:
    for serves, peer in (("bots", "bot"), ("botms", "botm")):
        config = parsed(f'[botm]\nserves = "{serves}"\nlisten = "tls:9200"\n')
        assert f":roles={peer}:" in endpoint(config, "botm.listen")


def test_a_port_of_notifiers_for_each_role_or_one_for_all() -> None:
    roles = frozenset(NOTIFIERS)
    assert endpoints(parsed('home = "/h"\n'), "uns.listen_notifiers") == [
        (f"unix:/h/notify-{role}.sock", frozenset([role])) for role in ("push", "scheduler", "spider")
    ]
    assert endpoints(parsed('[uns]\nlisten_notifiers = ""\n'), "uns.listen_notifiers") == []
    near = "tcp:9200:interface=127.0.0.1"
    assert endpoints(parsed(f'[uns]\nlisten_notifiers = "{near}"\n'), "uns.listen_notifiers") == [(near, roles)]
    ((text, peers),) = endpoints(parsed('[uns]\nlisten_notifiers = "tls:9200"\n'), "uns.listen_notifiers")
    assert text.startswith("lcctls:9200:roles=fe_uns+push+scheduler+spider:") and peers == roles
    with pytest.raises(ConfigError, match="must be tls"):
        endpoints(parsed('[uns]\nlisten_notifiers = "tcp:9200"\n'), "uns.listen_notifiers")
    with pytest.raises(ConfigError, match=r"\{role\} must stand in the path"):
        endpoints(parsed('[uns]\nlisten_notifiers = "unix:{home}/n.sock"\n'), "uns.listen_notifiers")


@pytest.mark.parametrize(
    ("text", "settings", "complete"),
    [
        ("tcp:127.0.0.1:9000", "", "tcp:127.0.0.1:9000:timeout=5"),
        ("unix:/run/uns.sock", "", "unix:/run/uns.sock:timeout=5"),
        ("tls:lcc1.example.org:9001", "", "lcctls:lcc1.example.org:9001:timeout=5"),
        (
            "tls:h:9001",
            '[fe_uns]\nauthorities = "ca.pem"',
            "lcctls:h:9001:ca=/lcc/lcc-home/ca.pem:timeout=5",
        ),
        ("tcp:10.0.0.1:9000", "[tls]\ninsecure = true", "tcp:10.0.0.1:9000:timeout=5"),
        ("tcp:10.0.0.1:9000", "", None),
    ],
)
def test_ports_of_sub_lccs(text: str, settings: str, complete: str | None) -> None:
    config = parsed(settings)
    if complete is None:
        with pytest.raises(ConfigError, match="must be tls:HOST:PORT"):
            sublcc_endpoint(config, text, 5.0)
        return
    assert sublcc_endpoint(config, text, 5.0) == complete
    assert shown(complete).startswith("tls:" if complete.startswith("lcctls") else text[:4])
