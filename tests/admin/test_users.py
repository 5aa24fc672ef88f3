"""``lcc-admin user``: who may read the cache."""

from __future__ import annotations

import pytest

from lcc.roles.access import EVERYTHING, ROWS, Access, AccessDenied, check_access
from tests.support.admin import Lcc


def add(lcc: Lcc, *arguments: str) -> tuple[int, str]:
    (added,) = lcc.rows("user", "add", *arguments)
    return added["cuid"], added["token"]


def access(lcc: Lcc, token: str | None, without_token: str = "nothing") -> Access:
    database = lcc.database()
    try:
        return database.interact(check_access, token, without_token)
    finally:
        database.close()


def test_add_list_remove(lcc: Lcc) -> None:
    assert "no content users" in lcc.admin("user", "list").output
    first, token = add(lcc, "search engine")
    second, limited = add(lcc, "partner", "--provider", "7", "--provider", "3", "--rows-only")
    assert access(lcc, token) == Access("search engine", None, True)
    assert access(lcc, limited) == Access("partner", frozenset({3, 7}), False)
    rows = lcc.rows("user", "list")
    assert [(row["cuid"], row["name"], row["providers"], row["content"]) for row in rows] == [
        (first, "search engine", None, True),
        (second, "partner", [3, 7], False),
    ]
    assert token.split("-")[1] not in str(rows)
    lcc.admin("user", "remove", str(first))
    with pytest.raises(AccessDenied, match="not known"):
        access(lcc, token)
    assert "no content user" in lcc.admin("user", "remove", str(first), code=1).output
    assert "partner" in lcc.admin("user", "list").output


def test_what_is_no_token(lcc: Lcc) -> None:
    cuid, token = add(lcc, "x")
    other = f"{cuid}-{'0' * 32}"
    for text in (
        "",
        "1",
        token + "0",
        token.replace("-", "_"),
        f"{cuid + 1}-{token.split('-')[1]}",
        other,
        "٣-" + token[2:],
    ):
        with pytest.raises(AccessDenied, match="not known"):
            access(lcc, text, "content")


def test_without_a_token(lcc: Lcc) -> None:
    lcc.admin("init")
    with pytest.raises(AccessDenied, match="a token is needed"):
        access(lcc, None)
    assert access(lcc, None, "rows") == ROWS
    assert access(lcc, None, "content") == EVERYTHING


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a" * 300])
def test_bad_names(lcc: Lcc, name: str) -> None:
    assert "NAME" in lcc.admin("user", "add", name, code=2).output
