"""What doc/queue.md says is what the code does."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path

import attrs
from click import Command, Context, Group

from lcc.admin.cli import main
from lcc.config import Config, QmConfig, UnsConfig
from lcc.errors import ERRORS, GONE_STATUSES, RETRYABLE_STATUSES, Remedy, entry_for

DOC = Path(__file__).parents[2] / "doc"
TEXT = (DOC / "queue.md").read_text(encoding="utf-8")
REMEDIES = {
    Remedy.HOLD_PROVIDER: "provider delayed",
    Remedy.RETRY: "retried",
    Remedy.WAIT: "postponed",
    Remedy.KEEP: "final, content kept",
    Remedy.DELETE: "final, content deleted",
}
NO_ERRORS = frozenset({200, 203, 206, 304})
"""Content; and what was not asked for, which has a code of its own."""


def test_each_code_of_a_fetch() -> None:
    rows = re.findall(r"^\| (\d{4}) \| `([a-z0-9-]+)` \| (.*) \| (.*) \|$", TEXT, re.MULTILINE)
    told = {int(code): (name, text, then) for code, name, text, then in rows}
    entries = [entry_for(code) for code in ERRORS]
    assert told == {
        entry.code: (entry.name, entry.text, REMEDIES[entry.remedy])
        for entry in entries
        if entry.remedy is not Remedy.NONE
    }
    assert not [entry for entry in entries if entry.remedy is Remedy.NONE and 1300 <= entry.code < 1600]


def test_each_http_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \| (.*) \|$", TEXT, re.MULTILINE)
    told = {int(status): then for status, _text, then in rows}
    known = {status.value for status in HTTPStatus if status >= 201} - NO_ERRORS
    assert known | RETRYABLE_STATUSES | GONE_STATUSES <= told.keys()
    assert told == {status: REMEDIES[entry_for(status).remedy] for status in told}
    for status in set(range(201, 600)) - told.keys():
        assert REMEDIES[entry_for(status).remedy] == "final, content kept"
    assert set(REMEDIES.values()) == set(
        re.findall(
            r"^\| ([a-z, ]+) \| ", TEXT[TEXT.index("## Errors") : TEXT.index("### What each HTTP")], re.MULTILINE
        )
    ) - {"what the queue does"}


def test_each_setting_exists() -> None:
    settings = {field.name for kind in (Config, QmConfig, UnsConfig) for field in attrs.fields(kind)}
    named = set(re.findall(r"`(?:\[qm\] )?([a-z]+_[a-z_]+)`", TEXT))
    others = {"allow_private", "interval_by", "hours_by"}
    assert named - others <= settings, named - others - settings


def test_each_command_exists() -> None:
    for words in re.findall(r"`lcc-admin ([a-z -]+)", TEXT):
        command: Command = main
        for word in words.split():
            if word.startswith("-") or not isinstance(command, Group):
                break
            inner = command.get_command(Context(command), word)
            assert inner is not None, words
            command = inner
        for option in re.findall(r"--[a-z-]+", words):
            assert any(option in parameter.opts for parameter in command.params), words
