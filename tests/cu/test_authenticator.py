"""Wrong tokens are throttled; whoever has the right one is not kept out by them."""

from __future__ import annotations

import pytest
import pytest_twisted

from lcc.roles.access import access_token
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.providers.passwords import generate_password, hash_password
from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.roles.content_users import Api

WRONG = f"1-{'0' * 32}"


@pytest.fixture
def cu_settings() -> str:
    return "failed_tokens = 3\ntoken_window = 600"


def bearer(token: str) -> str:
    return f"Bearer {token}"


def new_user(cache: Cache, name: str) -> str:
    secret = generate_password()
    user = ContentUser(0, name, hash_password(secret, generated=True), None, True, 0)
    return access_token(cache.database.blocking.write(add_content_user, user), secret)


@pytest_twisted.ensureDeferred
async def test_wrong_tokens_are_throttled(api: Api, cache: Cache) -> None:
    good, other = new_user(cache, "good"), new_user(cache, "other")
    assert (await api.get("/urls", authorization=bearer(good))).status == 200
    for _ in range(3):
        assert (await api.get("/urls", authorization=bearer(WRONG))).status == 401
    reply = await api.get("/urls", authorization=bearer(WRONG))
    assert reply.status == 429 and 1 <= int(reply.headers["retry-after"]) <= 601
    # One that was right before is still let in; one that was not seen yet waits, as nobody can tell it from a guess.
    assert (await api.get("/urls", authorization=bearer(good))).status == 200
    assert (await api.get("/urls", authorization=bearer(other))).status == 429


@pytest_twisted.ensureDeferred
async def test_it_ends_with_its_window(backend: Backend, cache: Cache) -> None:
    api = Api(backend, "failed_tokens = 1\ntoken_window = 1")
    try:
        token = new_user(cache, "good")
        assert (await api.get("/urls", authorization=bearer(WRONG))).status == 401
        while (reply := await api.get("/urls", authorization=bearer(token))).status == 429:
            pass
        assert reply.status == 200
    finally:
        await api.stop()
