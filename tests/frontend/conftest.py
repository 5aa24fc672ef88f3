"""Front ends over sub-LCCs, on each database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frontend.moving import Front, MakeFront
from tests.support.databases import Backend


@pytest.fixture
def make_front(backend: Backend, request: pytest.FixtureRequest) -> Iterator[MakeFront]:
    made: list[Front] = []
    urls: list[str] = []

    def make(**more: Any) -> Front:
        folder = backend.home / str(len(made))
        folder.mkdir()
        new_url = None
        if backend.kind != "sqlite":
            server = request.getfixturevalue(backend.kind)

            def new_url() -> str:
                urls.append(server.new_database())
                return urls[-1]

        made.append(Front(folder, new_url, **more))
        return made[-1]

    yield make
    for front in made:
        front.close()
    for url in urls:
        request.getfixturevalue(backend.kind).drop_database(url)
