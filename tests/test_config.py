"""The configuration: defaults, every fault at once, where each stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.endpoints import clientFromString, serverFromString

from lcc.config import (
    DEFAULT_MIMETYPES,
    Config,
    content_source,
    describe_defaults,
    load_config,
    parse_config,
    unix_socket_path,
)
from lcc.errors import ConfigError
from lcc.roles.qm.schedule.hosts import SERIAL


def faults_of(text: str) -> list[str]:
    """The faults that a configuration has."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, Path("/etc"))
    return caught.value.faults


def test_an_empty_file_is_a_running_lcc(tmp_path: Path) -> None:
    (tmp_path / "lcc.toml").write_text("")
    config = load_config(tmp_path / "lcc.toml")
    assert config.home == tmp_path / "lcc-home"
    assert config.mimetypes == DEFAULT_MIMETYPES
    assert config.database.url == "sqlite:lcc.db"


def test_the_printed_defaults_are_the_defaults() -> None:
    config = parse_config(describe_defaults(), Path("/srv"))
    assert config == parse_config("", Path("/srv"))


def test_every_fault_is_reported_at_once_with_its_key() -> None:
    faults = faults_of(
        'hom = "x"\nmimetypes = "text/html"\n[uns]\nlisten = 9000\nspool_max_bytes = 1\n'
        '[qm]\nlisten = "9001"\n[bot]\nconcurrency = true\n[database]\nurl = "oracle:x"\n'
    )
    text = "\n".join(faults)
    assert len(faults) == 7
    for part in (
        "hom: no such setting (did you mean 'home'?)",
        "mimetypes: must be a list",
        "uns.listen: must be a string, not 9000",
        "uns.spool_max_bytes = 1: must be at least 65536 bytes",
        "qm.listen = '9001': an endpoint is written kind:arguments",
        "bot.concurrency: must be a whole number",
        "database.url: must begin with sqlite: or mysql:",
    ):
        assert part in text


def test_red_is_beyond_amber() -> None:
    faults = faults_of("[web]\nfailing_warning = 0.6\nlag_bad = 60\nunreachable_bad = 1.5\n")
    assert [fault.partition(": ")[2] for fault in faults] == [
        "web.unreachable_bad = 1.5: must be at most 1",
        "web.failing_bad: must not be less than web.failing_warning",
        "web.lag_bad: must not be less than web.lag_warning",
    ]


def test_a_fault_of_syntax_names_its_line() -> None:
    assert "line 2" in faults_of("home = 'x'\nuns = = 3\n")[0]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_config(tmp_path / "absent.toml")


def test_the_home_folder_is_filled_into_endpoints() -> None:
    config = parse_config('home = "/srv/a:b"', Path("/"))
    assert config.endpoint(config.botm.connect) == r"unix:/srv/a\:b/qm-botm.sock"


@pytest.mark.parametrize("home", ["/srv/a:b", "/srv/a=b", "/srv/a b", "/srv/a\\b:", "/srv/=:\\"])
def test_any_home_folder_stands_in_endpoints(home: str) -> None:
    config = parse_config(f"home = '{home}'", Path("/"))
    client: Any = clientFromString(object(), config.endpoint(config.botm.connect))
    assert client._path == f"{home}/qm-botm.sock"
    server = config.endpoint(config.botm.listen)
    assert serverFromString(object(), server)._address == f"{home}/botm.sock"
    assert unix_socket_path(server) == f"{home}/botm.sock"


def test_the_path_of_a_socket() -> None:
    assert unix_socket_path("unix:address=/run/x.sock:mode=600") == "/run/x.sock"
    assert unix_socket_path("tcp:9000") == ""


def test_values_that_no_setting_can_have() -> None:
    faults = faults_of(
        'home = "~nobody-of-this-name/lcc"\n[database]\nurl = "sqlite:a\\u0000b"\n'
        "[qm]\nlease = nan\nhold_maximum = inf\n"
    )
    assert [fault.partition(": ")[2].split()[0].rstrip(":") for fault in faults] == [
        "database.url",
        "qm.lease",
        "qm.hold_maximum",
        "home",
    ]


@pytest.mark.parametrize("name", ["", " ", "a\\u0001", "a\\u009b", "x" * 61], ids=ascii)
def test_names_that_no_role_can_have(name: str) -> None:
    """Over a wire two of them could become one; in the database there is no room for the long ones."""
    for section in ("uns", "botm", "bot"):
        (fault,) = faults_of(f'[{section}]\nname = "{name}"\n')
        assert f"{section}.name" in fault
        assert fault.isprintable()


def test_which_providers_of_a_host_are_fetched_from_one_at_a_time() -> None:
    assert parse_config("", Path("/")).qm.serial_by_host == "watched"
    for value in SERIAL:
        assert parse_config(f'qm.serial_by_host = "{value}"', Path("/")).qm.serial_by_host == value
    with pytest.raises(ConfigError, match=r"qm\.serial_by_host = 'yes': must be watched, all or no"):
        parse_config('qm.serial_by_host = "yes"', Path("/"))


def test_files_are_relative_to_home() -> None:
    config = parse_config('home = "h"\n[bot]\nextra_roots = "ca.pem"', Path("/srv"))
    assert config.bot.extra_roots == "/srv/h/ca.pem"


def test_defaults_without_a_file() -> None:
    config = load_config(None)
    assert isinstance(config, Config)
    assert config.home == Path.cwd() / "lcc-home"


@pytest.mark.parametrize("name", ["", "two words", "x" * 41, "ä"])
def test_a_spider_has_a_name_that_a_notifier_may_have(name: str) -> None:
    with pytest.raises(ConfigError, match=r"spider\.name = .*: must be 1 to 40 of A-Z"):
        parse_config(f'[spider]\nname = "{name}"', Path("/x"))


@pytest.mark.parametrize(
    ("listens", "source"),
    [
        ("", "unix:/lcc/content.sock"),
        ('content_listen = "unix:/run/lcc/content.sock:mode=660"', "unix:/run/lcc/content.sock"),
        ('content_listen = "tcp:9120"', "http://127.0.0.1:9120"),
        ('content_listen = "tcp:9120:interface=0.0.0.0"', "http://127.0.0.1:9120"),
        ('content_listen = "tcp:port=9120:interface=10.0.0.1"', "http://10.0.0.1:9120"),
        (r"content_listen = 'tcp6:9120:interface=\:\:'", "http://[::1]:9120"),
        ('content_listen = "tls:9300"\ncontent_url = "https://10.0.0.2:9300"', "https://10.0.0.2:9300"),
    ],
)
def test_readers_of_content_follow_the_content_port(listens: str, source: str) -> None:
    config = parse_config(f'home = "/lcc"\n[botm]\n{listens}\n', Path("/"))
    assert content_source(config, config.cu.content) == source
    assert content_source(config, config.manager.content) == source
    assert content_source(config, "unix:{home}/other.sock") == "unix:/lcc/other.sock"
