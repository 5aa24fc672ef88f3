"""What XML cannot carry is refused where it is told; it never becomes something else on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint

from lcc.client.blocking import Refused
from lcc.client.cache import CacheClient
from lcc.provider.client import submit
from tests.support.roles.chain import PASSWORD, PID, ROOT, World

from .hostile import UNSPEAKABLE

ELEMENT = {"c": "page", "m": "text/html"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, None, users=True)
    world.origin.pages = {f"{ROOT}page": b"page", f"{ROOT}": b"root"}
    yield world
    world.stop()


def tell(world: World, password: str = PASSWORD, urlprefix: str = ROOT, **more: str) -> Any:
    endpoint = UNIXClientEndpoint(world.net, world.address("uns"))
    urls = [ELEMENT, ELEMENT | more]
    return world.result_of(submit(world.net, endpoint, PID, password, urls, urlprefix=urlprefix))


@pytest.mark.parametrize("text", UNSPEAKABLE, ids=ascii)
def test_nothing_is_told_that_cannot_be(world: World, text: str) -> None:
    for name in ("c", "s", "note"):
        with pytest.raises(ValueError, match=rf"{name}: U\+[0-9A-F]{{4,}} cannot be told"):
            tell(world, **{name: text})
    with pytest.raises(ValueError, match=r"the password: U\+"):
        tell(world, password=text)
    with pytest.raises(ValueError, match=r"urlprefix: U\+"):
        tell(world, urlprefix=ROOT + text)
    world.net.skip(5)
    assert not world.left()
    assert not world.cached()


@pytest.mark.parametrize("name", ["", "a b", 'a"', "a=", "a\nb", "<", "&a;", "/", "\x01"], ids=ascii)
def test_names_that_are_none(world: World, name: str) -> None:
    with pytest.raises(ValueError, match=r"no name of an attribute|cannot be told"):
        tell(world, **{name: "x"})
    assert not world.cached()


def test_a_replacement_character_is_one(world: World) -> None:
    assert tell(world, s="type:\ufffd").accepted
    world.drain()
    assert world.cached()[f"{ROOT}page"].subtype == "type:\ufffd"


@pytest.mark.parametrize("text", UNSPEAKABLE, ids=ascii)
def test_questions(world: World, text: str) -> None:
    """Over HTTP anything can be asked: there is nothing of that subtype, and no such prefix."""
    client = CacheClient(world.net, f"unix:{world.address('cu')}")
    world.net.settle()

    async def ask(**fields: str) -> list[Any]:
        return [row async for row in await client.urls(**fields)]

    try:
        for fields in ({"prefix": ROOT + text}, {"subtype": text}, {"mimetype": text}, {"since": text}, {text: "x"}):
            try:
                assert world.result_of(Deferred.fromCoroutine(ask(**fields))) == []
            except (Refused, UnicodeEncodeError) as error:
                assert str(error)
    finally:
        client.close()
        world.net.skip(100)
