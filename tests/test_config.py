"""The configuration: defaults, every fault at once, where each stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcc.config import DEFAULT_MIMETYPES, Config, describe_defaults, load_config, parse_config
from lcc.errors import ConfigError


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
        "hom: there is no such setting (did you mean 'home'?)",
        "mimetypes: must be a list",
        "uns.listen: must be a text, not 9000",
        "uns.spool_max_bytes = 1: must be at least 65536 bytes",
        "qm.listen = '9001': an endpoint string is kind:arguments",
        "bot.concurrency: must be a whole number",
        "'oracle' is neither sqlite nor mysql",
    ):
        assert part in text


def test_a_fault_of_syntax_names_its_line() -> None:
    assert "line 2" in faults_of("home = 'x'\nuns = = 3\n")[0]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_config(tmp_path / "absent.toml")


def test_the_home_folder_is_filled_into_endpoints() -> None:
    config = parse_config('home = "/srv/a:b"', Path("/"))
    assert config.endpoint(config.botm.connect) == r"unix:/srv/a\:b/qm-botm.sock"


def test_files_are_relative_to_home() -> None:
    config = parse_config('home = "h"\n[bot]\nextra_roots = "ca.pem"', Path("/srv"))
    assert config.bot.extra_roots == "/srv/h/ca.pem"


def test_defaults_without_a_file() -> None:
    config = load_config(None)
    assert isinstance(config, Config)
    assert config.home == Path.cwd() / "lcc-home"
