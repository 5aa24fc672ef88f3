"""Which plugin fetches which scheme; plugins in other folders of the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.plugin import IPlugin
from zope.interface import implementer
from zope.interface.verify import verifyClass, verifyObject

from lcc.errors import ConfigError
from lcc.fetchers.file import FileFetcher
from lcc.fetchers.ftp import FtpFetcher
from lcc.fetchers.http import HttpFetcher
from lcc.fetchers.registry import choose_plugins, installed_plugins, schemes_fetched
from lcc.interfaces import IFetcherPlugin, IWatchedFetcher


@implementer(IPlugin, IFetcherPlugin)
@attrs.frozen
class Named:
    name: str
    schemes: tuple[str, ...]

    def build(self, reactor: Any, settings: Any) -> Any:
        raise NotImplementedError


A, B, C = Named("a", ("x", "y")), Named("b", ("y", "z")), Named("c", ("w",))


def test_ours_are_plugins_like_any_other() -> None:
    plugins = installed_plugins()
    assert [(plugin.name, *plugin.schemes) for plugin in plugins] == [
        ("file", "file"),
        ("ftp", "ftp"),
        ("http", "http", "https"),
    ]
    for plugin in plugins:
        verifyObject(IFetcherPlugin, plugin)
    for kind in (HttpFetcher, FtpFetcher, FileFetcher):
        verifyClass(IWatchedFetcher, kind)


def test_which_plugin_fetches_a_scheme() -> None:
    assert choose_plugins((), [A, C]) == {"x": A, "y": A, "w": C}
    assert choose_plugins(("c",), [A, C]) == {"w": C}
    # The names say which goes first, and which are not used at all.
    assert choose_plugins(("b", "a"), [A, B, C]) == {"y": B, "z": B, "x": A}
    assert choose_plugins(("a", "b"), [A, B, C]) == {"x": A, "y": A, "z": B}


def test_two_plugins_for_a_scheme_need_a_decision() -> None:
    with pytest.raises(ConfigError) as caught:
        choose_plugins((), [A, B])
    assert caught.value.faults[0].startswith("y is fetched by 'a' and by 'b'")


def test_names_that_are_none_or_two() -> None:
    with pytest.raises(ConfigError) as caught:
        choose_plugins(("a", "q"), [A, Named("a", ("v",))])
    assert "two fetcher plugins are named 'a'" in caught.value.faults[0]
    assert caught.value.faults[1] == "bot.fetchers: there is no fetcher 'q'; there are a"


PLUGIN = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from lcc.interfaces import IFetcherPlugin

@implementer(IPlugin, IFetcherPlugin)
class Plugin:
    name = "theirs"
    schemes = ("news",)
    def build(self, reactor, settings): ...

plugin = Plugin()
"""
SHOW = "from lcc.fetchers.registry import choose_plugins; print(sorted(choose_plugins(())))"


def show(*path: Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)))
    return subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_plugin_in_another_folder_of_the_path(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "lcc" / "fetchers" / "plugins"
    theirs.mkdir(parents=True)
    (theirs / "news.py").write_text(PLUGIN)
    done = show(tmp_path / "theirs")
    assert (done.returncode, done.stdout) == (0, f"{sorted([*schemes_fetched(()), 'news'])}\n"), done.stderr
    # From the cache this time; and without it again when it has gone.
    assert show(tmp_path / "theirs").stdout == done.stdout
    (theirs / "news.py").unlink()
    assert show(tmp_path / "theirs").stdout == f"{schemes_fetched(())}\n"


def test_a_plugin_that_cannot_be_imported_harms_no_other(tmp_path: Path) -> None:
    for name, text in (("broken", "import there_is_no_such_module\n"), ("theirs", PLUGIN)):
        folder = tmp_path / name / "lcc" / "fetchers" / "plugins"
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(text)
    done = show(tmp_path / "broken", tmp_path / "theirs")
    assert (done.returncode, done.stdout) == (0, f"{sorted([*schemes_fetched(()), 'news'])}\n"), done.stderr
    assert "there_is_no_such_module" in done.stderr
