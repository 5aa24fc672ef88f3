"""Taking --pwd out of the command line."""

from __future__ import annotations

import pytest

from lcc.provider.hidden import values


@pytest.mark.parametrize(
    ("arguments", "hidden"),
    [
        (["lcccp", "--pid=1", "--pwd=secret"], ["secret"]),
        (["lcccp", "--pwd", "secret", "--pid=1"], ["secret"]),
        (["lcccp", "--pwd", "--pwd=x", "--pwd", "y"], ["--pwd=x", "y"]),
        (["lcccp", "--pwd-file=name", "--pwd-file", "name"], []),
        (["lcccp", "--pwd="], [""]),
        (["lcccp", "--pwd"], [""]),
        (["lcccp", "--", "--pwd=secret"], []),
        (["lcccp", "--pwd", "--", "--pid=1"], ["--"]),
        (["--pwd=ümlaut"], ["ümlaut"]),
        ([], []),
    ],
)
def test_where_the_values_stand(arguments: list[str], hidden: list[str]) -> None:
    shown = b"".join(argument.encode() + b"\0" for argument in arguments)
    found = [shown[place : place + length].decode() for place, length in values(shown, b"--pwd")]
    assert found == hidden
