"""``lcc-admin web-user``: who may log in at the web monitor."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcc.storage.providers.passwords import is_slow, verify_password
from lcc.storage.providers.web_users import WebUser, get_web_user
from tests.support.admin import Lcc


def user(lcc: Lcc, name: str) -> WebUser:
    database = lcc.database()
    try:
        found: WebUser | None = database.interact(get_web_user, name)
    finally:
        database.close()
    assert found is not None
    return found


def test_add_list_remove(lcc: Lcc, tmp_path: Path) -> None:
    assert "nobody may log in" in lcc.admin("web-user", "list").output
    (added,) = lcc.rows("web-user", "add", "ann", "--operate")
    assert verify_password(added["password"], user(lcc, "ann").password_hash)
    (tmp_path / "password").write_text("correct horse\n")
    chosen = lcc.admin("web-user", "add", "guest", "--password-file", str(tmp_path / "password"))
    assert "as given" in chosen.output and "horse" not in chosen.output
    guest = user(lcc, "guest")
    assert verify_password("correct horse", guest.password_hash) and is_slow(guest.password_hash)
    rows = lcc.rows("web-user", "list")
    assert [(row["name"], row["operates"]) for row in rows] == [("ann", True), ("guest", False)]
    assert "$" not in str(rows)
    (again,) = lcc.rows("web-user", "add", "ann")
    assert not user(lcc, "ann").operates and again["password"] != added["password"]
    lcc.admin("web-user", "remove", "ann")
    assert "no web user ann" in lcc.admin("web-user", "remove", "ann", code=1).output


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb", "a\x00"])
def test_what_is_no_name(lcc: Lcc, name: str) -> None:
    assert "NAME" in lcc.admin("web-user", "add", name, code=2).output
