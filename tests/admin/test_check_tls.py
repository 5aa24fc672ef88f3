"""``lcc-admin check`` looks at the certificates of all wires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from lcc.admin.cli import main
from lcc.admin.setup.authority import Authority

TOML = """home = "home"
[bot]
contact = "webmaster@example.org"
[qm]
listen_botm = "tls:9100:interface=127.0.0.1"
[uns]
listen = "tls:9000"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An LCC whose QM has good certificates."""
    now = datetime.now(UTC)
    authority = Authority.create(tmp_path / "certificates", "LCC", 1000, now)
    for role in ("qm", "public"):
        authority.add(["127.0.0.1"], role, 100, now)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "certificates" / "127.0.0.1").rename(tmp_path / "home" / "tls")
    (tmp_path / "lcc.toml").write_text(TOML)
    return tmp_path


def check(folder: Path, code: int) -> str:
    result = CliRunner().invoke(main, ["--config", str(folder / "lcc.toml"), "check"])
    assert result.exit_code == code, result.output
    return result.output


def test_good_ones(folder: Path) -> None:
    assert check(folder, 0).endswith(": no errors found\n")


def test_what_is_wrong_with_them(folder: Path) -> None:
    tls = folder / "home" / "tls"
    (tls / "qm.key").chmod(0o644)
    assert f"qm.listen_botm: {tls}/qm.key is readable by everybody" in check(folder, 1)
    (tls / "qm.key").write_text("nonsense")
    (tls / "public.pem").unlink()
    said = check(folder, 1)
    assert f"qm.listen_botm: {tls}/qm.key holds no private key" in said
    assert f"uns.listen: {tls}/public.pem: No such file" in said
    authority = Authority(folder / "certificates")
    before = datetime.now(UTC) - timedelta(days=50)
    key, certificate = authority.issue(["127.0.0.1"], "qm", timedelta(days=10), before)
    (tls / "qm.key").write_bytes(key)
    (tls / "qm.key").chmod(0o600)
    (tls / "qm.pem").write_bytes(certificate)
    assert "qm.listen_botm: the certificate qm at 127.0.0.1, by CN=LCC is valid from" in check(folder, 1)


def test_wires_without_tls(folder: Path) -> None:
    text = TOML.replace("tls:9000", "tcp:9000")
    (folder / "lcc.toml").write_text(text)
    said = check(folder, 0)
    assert "uns.listen = 'tcp:9000' is open to other machines without TLS: lcc-uns would receive" in said
    (folder / "lcc.toml").write_text(text.replace("tcp:9000", "tcp:9000:interface=127.0.0.1"))
    assert "without TLS" not in check(folder, 0)
    text = text.replace("tls:9100:interface=127.0.0.1", "tcp:9100")
    (folder / "lcc.toml").write_text(text)
    assert "qm.listen_botm = 'tcp:9100': a wire between roles that leaves the machine must be tls:" in check(
        folder, 1
    )
    (folder / "lcc.toml").write_text(text + "[tls]\ninsecure = true\n")
    check(folder, 0)


def test_the_port_of_notifiers(folder: Path) -> None:
    def said(listen: str, code: int) -> str:
        (folder / "lcc.toml").write_text(TOML.replace("[uns]\n", f'[uns]\nlisten_notifiers = "{listen}"\n'))
        return check(folder, code)

    assert "uns.listen_notifiers = 'unix:" in said("unix:{home}/notify.sock", 1)
    assert "a wire between roles that leaves the machine must be tls:" in said("tcp:9200", 1)
    assert "the socket path is longer than" in said(f"unix:{{home}}/{80 * 'x'}/{{role}}", 1)
    said("unix:{home}/{role}.sock", 0)
