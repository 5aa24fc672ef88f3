"""``lcc-admin check`` looks at the certificates of all wires, at sockets and at workers."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from lcc.admin.cli import main
from lcc.admin.setup.authority import Authority
from lcc.admin.setup.role_checks import sockets_not_there, workers_not_run
from lcc.config import parse_config

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
    assert check(folder, 0).splitlines()[0].endswith(": no errors found")


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


def test_a_socket_on_which_nobody_listens(tmp_path: Path) -> None:
    """Where a port is moved, a role of the same machine is told to follow."""
    (tmp_path / "lcc.toml").write_text(
        'home = "home"\n[tls]\ninsecure = true\n[scheduler]\nlisten = "tcp:9500:interface=10.0.0.1"\n'
    )
    lines = [line for line in check(tmp_path, 0).splitlines() if "nobody listens" in line]
    assert [line.partition(" = ")[0] for line in lines] == ["manager.connect"]
    assert "because scheduler.listen = 'tcp:9500:interface=10.0.0.1'" in lines[0]
    assert lines[0].endswith('set manager.connect = "tcp:HOST:9500"')
    config = parse_config('[scheduler]\nlisten = "tls:9500"\n[botm]\ncontent_listen = "tls:9300"\n', tmp_path)
    ends = [line.rpartition(" = ")[2] for line in sockets_not_there(config)]
    assert ends == ['"tls:HOST:9500"', '"https://HOST:9300"', '"https://HOST:9300"']
    for more in ('content_url = "https://10.0.0.1:9300"', ""):
        kind = "tls" if more else "tcp"
        config = parse_config(f'[botm]\ncontent_listen = "{kind}:9300:interface=10.0.0.1"\n{more}\n', tmp_path)
        assert list(sockets_not_there(config)) == []  # the readers follow
    config = parse_config('[cu]\nlisten = "tls:9443"\n', tmp_path)
    assert list(sockets_not_there(config)) == []  # the socket in the home folder is open, too
    for moved in ('listen = "systemd:domain=UNIX:index=0"', 'listen = "unix:{home}/scheduler.sock:mode=660"'):
        assert not list(sockets_not_there(parse_config(f"[scheduler]\n{moved}\n", tmp_path)))


def test_workers_that_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = tmp_path / "home" / "workers"
    workers.mkdir(parents=True)
    (tmp_path / "lcc.toml").write_text('home = "home"\n')
    for name, mode in (("good", 0o755), ("open", 0o777), ("text", 0o644)):
        (workers / name).write_text("#!/bin/sh\n")
        (workers / name).chmod(mode)
    (tmp_path / "home").chmod(0o700)
    said = check(tmp_path, 0)
    assert f"manager.workers: not run: {workers}/open is not safe to run: others than its owner can write" in said
    assert f"manager.workers: not run: {workers}/text is not executable (chmod +x)" in said
    assert f"{workers}/good" not in said
    config = parse_config('home = "home"\n', tmp_path)
    if os.geteuid() == 0:
        assert (
            "manager.workers: " in said and "[manager] user cannot enter" in said and "in [manager] workers" in said
        )
        (tmp_path / "home" / "python").write_text("")
        monkeypatch.setattr("lcc.admin.setup.role_checks.sys.executable", str(tmp_path / "home" / "python"))
        assert [line for line in workers_not_run(config) if f"cannot execute {tmp_path}/home/python: " in line]
    else:
        assert not [line for line in workers_not_run(config) if "[manager] user" in line]
