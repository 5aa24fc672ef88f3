"""The password that a file holds."""

from __future__ import annotations

import pytest

from lcc.domain.passwords import password_in


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("secret", "secret"),
        ("secret\n", "secret"),
        (" two words \r\nmore\n", "two words"),
        ("\ufeffsecret\r\n", "secret"),
        ("\nsecret\n", ""),
        ("  ", ""),
        ("\ufeff", ""),
        ("", ""),
    ],
)
def test_it_is_the_first_line_without_what_an_editor_adds(text: str, password: str) -> None:
    assert password_in(text) == password
