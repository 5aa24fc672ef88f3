"""From a provider's folder to a search that finds it: each search engine behind a real LCC."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.engines import EACH_ENGINE, Engine
from tests.support.processes.system import BIN, Site, System
from tests.support.waiting import PATIENCE_SECONDS, wait_for

LayOut = Callable[[str, int], Path]


@pytest.fixture
def database_url() -> None:
    """SQLite: what is tested here never sees the database."""


@pytest.fixture(params=EACH_ENGINE)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    made: Engine = request.param(tmp_path)
    return made


def export(system: System, engine: Engine, *options: str, expect: int = 0) -> str:
    """Bring the engine up to date; gives what was said."""
    base = [str(BIN / "lcc-export"), "--config", str(system.config)]
    done = subprocess.run(
        engine.export(base, *options),
        capture_output=True,
        text=True,
        cwd=system.folder,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == expect, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def publish(system: System, site: Site) -> None:
    system.publish_when_up(site)
    system.wait_cached(site)


def test_what_is_published_is_found_and_what_is_deleted_is_not(
    system: System, engine: Engine, lay_out: LayOut
) -> None:
    lay_out("docs", 40)
    site = system.add_site("docs")
    system.start("all")
    (site.folder / "hello.html").write_text(
        "<html><head><title>Pindalove</title></head><body>zanzibolt caf&eacute; <a href='part0/'>x</a></body></html>"
    )
    (site.folder / "index.html").write_text("<title>Start</title> quiverdam thing", encoding="utf-8")
    (site.folder / "plain.txt").write_text("mumbletop word\n\nDurchschnittsgrößen\n", encoding="utf-8")
    publish(system, site)
    export(system, engine)
    hello, start, plain = (f"{site.url}{name}" for name in ("hello.html", "index.html", "plain.txt"))
    for word, url in (("zanzibolt", hello), ("quiverdam", start), ("mumbletop", plain), ("pindalove", hello)):
        assert engine.found(word) == {url}, word
    before = {word: engine.found(word) for word in ("python", "copyright", "module")}
    assert any(before.values())

    # Published a moment ago: changed, new, deleted.
    (site.folder / "hello.html").write_text("<html><body>rubyhollow café</body></html>", encoding="utf-8")
    (site.folder / "plain.txt").unlink()
    (site.folder / "new.html").write_text("<html><body>lanterfield</body></html>")
    publish(system, site)
    export(system, engine)
    assert engine.found("zanzibolt") == engine.found("mumbletop") == set()
    assert engine.found("rubyhollow") == {hello}
    assert engine.found("lanterfield") == {f"{site.url}new.html"}
    assert engine.found("quiverdam") == {start}, "what did not change is still there"
    assert {word: engine.found(word) for word in before} == before

    assert "nothing has changed" in export(system, engine)
    # It comes back, older than it ever was.
    (site.folder / "plain.txt").write_text("mumbletop again")
    publish(system, site)
    export(system, engine)
    assert engine.found("mumbletop") == {plain}
    for path in (site.folder / "new.html", site.folder / "plain.txt"):
        path.unlink()
    publish(system, site)
    export(system, engine)
    assert engine.found("lanterfield") == engine.found("mumbletop") == set()

    # From nothing, the same.
    export(system, engine, "--rebuild")
    assert {word: engine.found(word) for word in before} == before
    assert engine.found("lanterfield") == set()
    assert engine.found("rubyhollow") == {hello}
    system.stop("all")


def test_a_page_is_found_as_soon_as_it_is_there(system: System, engine: Engine, lay_out: LayOut) -> None:
    """``--wait``: the export that waits ends when something is there."""
    lay_out("docs", 5)
    site = system.add_site("docs")
    system.start("all")
    publish(system, site)
    export(system, engine)
    base = [str(BIN / "lcc-export"), "--config", str(system.config)]
    waiting = subprocess.Popen(engine.export(base, "--wait", "100"), cwd=system.folder)
    try:
        (site.folder / "hello.html").write_text("<html><body>zanzibolt</body></html>")
        publish(system, site)
        assert waiting.wait(PATIENCE_SECONDS) == 0
    finally:
        waiting.kill()
        waiting.wait()
    wait_for("it is found", lambda: export(system, engine) and engine.found("zanzibolt"))
