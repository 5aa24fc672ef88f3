"""doc/ports.md has each port with its default; doc/troubles.md names codes and commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import attrs

from lcc.admin.help.programs import program
from lcc.config import CU_SOCKET, Config
from lcc.errors import ERRORS
from lcc.transport.wires import WIRES
from tests.support.documents import ROOT

PORTS = (ROOT / "doc" / "ports.md").read_text(encoding="utf-8")
TROUBLES = (ROOT / "doc" / "troubles.md").read_text(encoding="utf-8")
TABLE = {
    name: default
    for cell, default in re.findall(r"^\| (`\[.*?) \|(.*?)\|", PORTS.partition("## Behind nginx")[0], re.MULTILINE)
    for name in [re.sub(r"`\[(\w+)\] (\w+)`.*", r"\1.\2", cell)]
}


def test_each_port_stands_there_with_its_default() -> None:
    config = Config(home=Path("/home"))
    for setting, wire in WIRES.items():
        if not wire.listens or setting.endswith(".metrics"):
            continue
        section, key = setting.split(".")
        value = getattr(getattr(config, section), key)
        default = CU_SOCKET if setting == "cu.listen" else value.partition(":mode=")[0]
        assert TABLE.pop(setting).replace(", always", "").strip("` ") == default, setting
    assert set(TABLE) <= {"manhole.listen"}


def test_limits_are_the_defaults() -> None:
    found = 0
    for line in PORTS.partition("## Too many connections")[2].splitlines():
        sections = re.findall(r"\[(\w+)\]", line.partition("|")[2].partition("|")[0])
        for name, value in re.findall(r"`(\w+)` = (\d+)", line):
            for section in sections:
                settings = getattr(Config(home=Path("/home")), section)
                if name in {field.name for field in attrs.fields(type(settings))}:
                    assert getattr(settings, name) == int(value), (section, name)
                    found += 1
    assert found >= 10


def test_codes_of_troubles_exist() -> None:
    codes = {int(code) for code in re.findall(r"`(1\d{3})`", TROUBLES)}
    assert len(codes) > 5 and codes <= ERRORS.keys()


def test_commands_of_troubles_exist() -> None:
    commands = re.findall(r"`(?:sudo -u lcc )?lcc-admin ([^`]*)`", TROUBLES)
    assert len(commands) > 15
    for words in map(shlex.split, commands):
        if words[0] == "--config":
            words = words[2:]
        command = program("lcc-admin")
        for word in words:
            options = {option for each in command.params for option in each.opts}
            if word.startswith("-"):
                assert word in options, words
            elif hasattr(command, "get_command") and word != "…":
                command = command.get_command(None, word)
                assert command is not None, words
