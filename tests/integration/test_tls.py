"""Every wire over TLS, between real processes; and a process that shows the certificate of another role."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from lcc.client.blocking import Cache
from tests.support.packages import Unpacked
from tests.support.ports import free_port, listens
from tests.support.processes.system import BIN, OriginServer, Site, System, files_of
from tests.support.waiting import wait_for

HOST = "127.0.0.1"
WIRES = ("uns", "qm", "qm_botm", "botm", "content", "cu", "cu_xml")


class TlsSystem(System):
    """All roles of one machine, and a content user API of another one; no wire is a UNIX socket.

    :ivar ports: of the wires.
    """

    def ask_admin(self, *arguments: str) -> str:
        """What lcc-admin says, in a process of its own: it asks over TLS."""
        command = [BIN / "lcc-admin", "--config", str(self.config), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def __init__(self, folder: Path, origin: OriginServer) -> None:
        super().__init__(folder, origin, None)
        self.ports = {name: free_port() for name in WIRES}
        listen = {name: f'"tls:{port}:interface={HOST}"' for name, port in self.ports.items()}
        connect = {name: f'"tls:{HOST}:{port}"' for name, port in self.ports.items()}
        self.config.write_text(
            f'home = "home"\n[uns]\nlisten = {listen["uns"]}\nconnect = {connect["qm"]}\n'
            f"[qm]\nlisten = {listen['qm']}\nlisten_botm = {listen['qm_botm']}\n"
            f"[botm]\nlisten = {listen['botm']}\nconnect = {connect['qm_botm']}\n"
            f'content_listen = {listen["content"]}\ncontent_url = "https://{HOST}:{self.ports["content"]}"\n'
            f"[bot]\nconnect = {connect['botm']}\n"
            f'[cu]\ncontent = "https://{HOST}:{self.ports["content"]}"\n'
        )
        # The content user API has no content of its own: it has to read it through the content port.
        self.elsewhere = folder / "elsewhere.toml"
        self.elsewhere.write_text(
            f'home = "elsewhere"\n[database]\nurl = "sqlite:{folder}/home/lcc.db"\n[botm]\nmachine = 9\n'
            f"[cu]\nlisten = {listen['cu']}\nlisten_xml = {listen['cu_xml']}\n"
            f'content = "https://{HOST}:{self.ports["content"]}"\n'
        )
        # Says that it is a robot, and has the certificate of a content user API.
        self.imposter = folder / "imposter.toml"
        self.imposter.write_text(
            f'home = "home"\n[bot]\nname = "imposter"\nconnect = {connect["botm"]}\n'
            '[tls]\ncertificate = "tls/cu.pem"\nkey = "tls/cu.key"\n'
        )
        authority = f"--folder={folder}/certificates"
        self.admin("certificates", "init", authority)
        self.admin("certificates", "add", authority, HOST, "qm", "uns", "botm", "bot", "cu", "admin", "public")
        for home in ("home", "elsewhere"):
            (folder / home).mkdir(mode=0o700, exist_ok=True)
            subprocess.run(["cp", "-R", folder / "certificates" / HOST, folder / home / "tls"], check=True)
        self.ca = folder / "certificates" / "ca.pem"

    def start_with(self, name: str, role: str, config: Path) -> None:
        """Start a role with a configuration of its own."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / "twistd", "-n", f"lcc-{role}", "--config", config], cwd=self.folder, stdout=log, stderr=log
            )

    def publish_over_tls(self, site: Site, *options: str) -> subprocess.CompletedProcess[str]:
        """As a provider does."""
        command = (
            f"{BIN}/file2url --find {site.folder} -type f | {BIN}/lcccpstate --statefile={site.state}"
            f" | {BIN}/lcccp --uns={HOST}:{self.ports['uns']} --pid={site.pid} --urlprefix={site.url}"
            f" {' '.join(options)}"
        )
        result = self.as_provider(site, command)
        assert result.returncode in (0, 4), f"{result.returncode}: {result.stderr}{self.log('uns')[-2000:]}"
        return result


@pytest.fixture
def lcc(tmp_path: Path, origin: OriginServer) -> Iterator[TlsSystem]:
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = TlsSystem(folder, origin)
    yield system
    system.stop_all()


def ask_xml(lcc: TlsSystem, token: str) -> Any:
    """What the XML interface tells of all URLs, with their content."""
    context = ssl.create_default_context(cafile=str(lcc.ca))
    plain = socket.create_connection((HOST, lcc.ports["cu_xml"]), timeout=60)
    with context.wrap_socket(plain, server_hostname=HOST) as secure:
        secure.sendall(f'<query xmlns="http://www.lococa.org/1.0" token="{token}" content="yes"/>'.encode())
        heard = b""
        while b"</answer>" not in heard and b"</rejected>" not in heard:
            piece = secure.recv(65536)
            assert piece, heard
            heard += piece
    return etree.fromstring(heard)


def test_a_whole_lcc_over_tls(lcc: TlsSystem, tmp_path: Path) -> None:
    (lcc.origin.root / "site").mkdir()
    for page in range(5):
        (lcc.origin.root / "site" / f"{page}.html").write_text(f"<p>page {page}</p>" * 1000)
    lcc.start("uns", "qm", "botm", "bot")
    lcc.start_with("cu", "cu", lcc.elsewhere)
    site = lcc.add_site("site")
    wait_for("the UNS answers", lambda: lcc.publish_over_tls(site, "--tls", "--ca-file", str(lcc.ca)).returncode == 0)
    refused = lcc.publish_over_tls(site, "--tls")
    assert refused.returncode == 4 and "is of an authority that is not trusted" in refused.stderr
    lcc.wait_cached(site)

    for name in ("cu", "cu_xml"):
        wait_for("the content user API listens", lambda name=name: listens(lcc.ports[name]))
    token = json.loads(lcc.admin("user", "add", "tests", "--json"))["token"]
    context = ssl.create_default_context(cafile=str(lcc.ca))
    expected = {f"{site.url}{path}": (site.folder / path).read_bytes() for path, _ in files_of(site.folder)}
    with Cache(f"https://{HOST}:{lcc.ports['cu']}", token=token, context=context) as cache:
        rows = list(cache.urls())
        assert {row["curl"]: cache.content(row).read() for row in rows} == expected
        package = b"".join(cache.package("tar").pieces())
    path = tmp_path / "package.tar"
    path.write_bytes(package)
    assert Unpacked(path.read_bytes()).contents() == expected
    assert len(ask_xml(lcc, token)) >= len(expected)

    url = sorted(expected)[0]
    assert lcc.ask_admin("show", url, "--output", "-").encode() == expected[url]
    assert '"found"' in lcc.ask_admin("fsck", "--json")

    lcc.start_with("imposter", "bot", lcc.imposter)
    wait_for("the BOT-M refuses it", lambda: "is not for the role bot" in lcc.log("botm"))
    wait_for("it is told so", lambda: "the other end refuses this one" in lcc.log("imposter"))
    assert f"tls:{HOST}:{lcc.ports['botm']} is unreachable" in lcc.log("imposter")
    assert f"(cu at {HOST}, by CN=LCC)" in lcc.log("botm")
    for name in ("imposter", "cu", "bot", "botm", "uns", "qm"):
        lcc.stop(name)
