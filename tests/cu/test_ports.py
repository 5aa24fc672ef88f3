"""``[cu] listen``: a list, beside which the socket in the home folder is always open."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.client.blocking import UnixConnection
from lcc.config import parse_config
from lcc.errors import ConfigError
from lcc.services import cu
from lcc.services.process.environment import real_environment
from lcc.transport.links import PortService
from tests.support.databases import Backend

HOME = "unix:{home}/cu.sock"


@pytest.mark.parametrize(
    "written", ["", "[]", '""', f'"{HOME}"', f'["{HOME}:mode=660"]', '"tls:9443"', '["tcp:1", "tcp:2"]']
)
def test_the_home_socket_is_always_among_them(written: str, tmp_path: Path) -> None:
    listen = parse_config(f"[cu]\nlisten = {written}\n" if written else "", tmp_path).cu.listen
    assert sum(text.startswith(HOME) for text in listen) == 1
    assert all(text in written for text in listen if not text.startswith(HOME))


def test_what_is_no_list_of_endpoints(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cu\.listen: must be a list of strings, not 9443"):
        parse_config("[cu]\nlisten = 9443\n", tmp_path)
    with pytest.raises(ConfigError, match=r"cu\.listen = 'nine': an endpoint is written kind:arguments"):
        parse_config('[cu]\nlisten = ["tcp:1", "nine"]\n', tmp_path)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_each_asks_for_what_it_needs(backend: Backend) -> None:
    """A token over TCP, none over a UNIX socket; each has a name in metrics."""
    tcp = "tcp:0:interface=127.0.0.1"
    config = parse_config(
        f'home = "."\n[cu]\nlisten = ["{tcp}", "unix:{{home}}/other.sock", "tcp:port=0:interface=127.0.0.1"]\n',
        backend.home,
    )
    services = cu.build(config, real_environment(reactor))
    services.startService()
    try:
        ports = {port.setting: port for port in services if isinstance(port, PortService)}
        assert sorted(ports) == ["cu.listen", "cu.listen:2", "cu.listen:3", "cu.listen:home", "cu.listen_xml"]
        for name in ("cu.listen", "cu.listen:3"):
            number = ports[name].bound_port.getHost().port
            assert await deferToThread(status, http.client.HTTPConnection("127.0.0.1", number, timeout=30)) == 401
        for socket in ("cu.sock", "other.sock"):
            assert await deferToThread(status, UnixConnection(str(backend.home / socket), 30)) == 200
    finally:
        await services.stopService()


def status(connection: http.client.HTTPConnection) -> int:
    try:
        connection.request("GET", "/urls")
        return connection.getresponse().status
    finally:
        connection.close()
