"""What ``lcc-admin status`` says of the search server and the push server of its machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest_twisted
from click.testing import CliRunner
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.admin.cli import main
from lcc.config import MetricsConfig
from lcc.metrics.site import build_site
from lcc.metrics.watched import Process, Watched
from lcc.model.metrics import Condition, Reading
from tests.support.admin import Lcc


class Told:
    """What a role says of itself."""

    background: tuple[Any, ...] = ()

    def __init__(self, *conditions: Condition) -> None:
        self._conditions = conditions

    def readings(self) -> Iterator[Reading]:
        return iter(())

    def conditions(self) -> Iterator[Condition]:
        return iter(self._conditions)


SEARCH = Told(
    Condition("reading", "lcc-cu is unreachable", "see [search] cache"),
    Condition("index", "", "", note="12 pages, 0.1 MiB, 5 s behind"),
)


async def status(lcc: Lcc) -> tuple[dict[str, Any], str]:
    def both() -> tuple[Any, str]:
        said = [
            CliRunner().invoke(main, ["--config", str(lcc.config_path), "status", *more]).stdout
            for more in (["--json"], [])
        ]
        return json.loads(said[0]), " ".join(said[1].split())

    found: tuple[dict[str, Any], str] = await deferToThread(both)
    return found


@pytest_twisted.ensureDeferred
async def test_search_and_push_server(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.admin("init")
    answer, screen = await status(lcc)
    assert answer["search"] is answer["push"] is None and "search" not in screen and "push" not in screen
    text = lcc.config_path.read_text()
    lcc.config_path.write_text(
        f'{text}[search]\nlisten = "unix:s"\nopen = true\nmetrics = "unix:{tmp_path}/m"\n'
        f'[push]\nlisten = "unix:{tmp_path}/p"\n'
    )
    answer, screen = await status(lcc)
    assert (answer["search"]["answers"], answer["push"]["answers"]) == (False, False)
    assert f"push unix:{tmp_path}/p: unreachable: No such file or directory" in screen
    core: Any = reactor
    process = Process([Watched("search", SEARCH, ()), Watched("qm", Told(), ())], reactor)
    site = build_site(process, MetricsConfig(), True, reactor)
    ports = [core.listenUNIX(f"{tmp_path}/{name}", site) for name in ("m", "p")]
    try:
        answer, screen = await status(lcc)
    finally:
        for port in ports:
            await port.stopListening()
    names = {each["name"]: each["ok"] for each in answer["search"]["conditions"]}
    assert names["reading"] is False and names["index"] is True and answer["search"]["answers"]
    assert "search unix:s: not ready; index: 12 pages, 0.1 MiB, 5 s behind" in screen
    assert "reading: lcc-cu is unreachable; see [search] cache" in screen
    assert answer["push"]["conditions"] is None and answer["push"]["answers"]
    assert f"push unix:{tmp_path}/p: listens; its conditions are known if [push] metrics is set" in screen
