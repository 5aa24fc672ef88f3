"""What roles would lack that run here: sockets that nobody listens on, workers that the manager does not run, what
spider and search need.

Notes rather than faults: a configuration may be of some of the roles only.
"""

from __future__ import annotations

import pwd
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from lcc.config import Config, content_source, unix_socket_path
from lcc.spider.extractors.poppler import TEXT_PROGRAM
from lcc.spider.stores.warc import missing_packages
from lcc.transport.wires import WIRES, wire_of
from lcc.workers.executables import all_executables, barred_at, hint

_EXTRA = "pip install 'dist/lcc-….whl[search]'"
_READERS = {
    "cu.content": "botm.content_listen",
    "manager.content": "botm.content_listen",
    "spider.cache": "cu.listen",
    "search.cache": "cu.listen",
}
"""Where a role reads over HTTP -> the port that it reads from."""


def sockets_not_there(config: Config) -> Iterator[str]:
    """Links to a UNIX socket on which, as configured here, nobody listens."""
    ports = [wire_of(config, setting) for setting, wire in WIRES.items() if wire.listens]
    for setting, read in (*((wire.setting, "") for wire in WIRES.values() if not wire.listens), *_READERS.items()):
        role, _, key = setting.partition(".")
        peers = WIRES[setting].peers or frozenset() if not read else frozenset()
        text = getattr(getattr(config, role), key)
        text = content_source(config, text) if key == "content" else config.endpoint(text)
        path = unix_socket_path(text)
        given = [
            (port.setting, text.replace("{role}", role))
            for port in ports
            if port.setting == read
            or (port.role in peers and role in (port.peers or ()) and port.setting not in _READERS.values())
            for text in port.texts(config)
        ]
        if not path or not given or any(text.startswith("systemd:") for _, text in given):
            continue
        if all(unix_socket_path(text) != path for _, text in given):
            name, text = given[-1]
            remedy = f'set {setting} = "{_leading_to(text, is_http=bool(read))}"'
            yield (
                f"{setting} = 'unix:{path}': nobody listens there, because {name} = {text!r}; "
                f"if lcc-{role} runs here (as in twistd lcc), {remedy}"
            )


def _leading_to(listens: str, *, is_http: bool) -> str:
    """How to connect to a port; HOST stands for its name."""
    path = unix_socket_path(listens)
    if path:
        return f"unix:{path}"
    kind = "tls" if listens.startswith(("tls:", "ssl:")) else "tcp"
    number = re.search(r":(?:port=)?(\d+)", listens)
    place = f"HOST:{number[1] if number else 'PORT'}"
    if is_http:
        return f"{'https' if kind == 'tls' else 'http'}://{place}"
    return f"{kind}:{place}"


def workers_not_run(config: Config) -> Iterator[str]:
    """Files in the worker folders that a manager with this home refuses, or that its workers' user cannot reach."""
    settings = config.manager
    try:
        owner = config.home.stat().st_uid
        folders = [str(path) for each in settings.workers if (path := config.under_home(each)).is_dir()]
    except OSError:
        return  # told of the home
    found, faults = all_executables(folders, [owner])
    for fault in faults.values():
        yield f"manager.workers: not run: {fault}"
    if owner != 0:
        return
    try:
        user = pwd.getpwnam(settings.user)
    except KeyError:
        yield f"manager.user = {settings.user!r}: no such user, as whom workers run if the manager runs as root"
        return
    if barred_at(sys.executable, user.pw_uid, user.pw_gid):
        yield (
            f"manager.user = {settings.user!r}: cannot execute {Path(sys.executable).resolve()}: workers in Python, "
            "lcc-job and feeds will fail; install the LCC where everybody can read it, or set another user"
        )
    for folder in folders:
        barred = barred_at(folder, user.pw_uid, user.pw_gid)
        if barred:
            yield f"manager.workers: {folder}: {hint(barred)}"
            continue
        for command in found:
            file = f"{folder}/{command}"
            try:
                barred = barred_at(file, user.pw_uid, user.pw_gid)
            except OSError:
                continue  # in another folder
            if barred:
                yield f"manager.workers: {file}: {hint(barred)}"


def spider_lacks(config: Config) -> Iterator[str]:
    """The token of the spider's HTTP interface, and what its stores need."""
    settings = config.spider
    token = config.under_home(settings.listen_token_file)
    if settings.listen and not token.is_file():
        yield f"spider.listen_token_file: there is no {token}, and lcc-spider does not start: write a token into it"
    if "warc" in settings.stores and (missing := missing_packages()):
        yield (
            f"spider.stores: the store warc needs {' and '.join(missing)}, not installed here: it keeps nothing"
            " (pip install 'dist/lcc-….whl[warc]')"
        )


def search_lacks(config: Config) -> Iterator[str]:
    """What the search server needs."""
    if not config.search.listen:
        return
    if find_spec("tantivy") is None:
        yield f"search.listen: tantivy is not installed, and lcc-search does not start: {_EXTRA}"
    if find_spec("py3langid") is None:
        yield f"search.listen: py3langid is not installed: languages are what pages say ({_EXTRA})"
    if shutil.which(TEXT_PROGRAM) is None:
        yield f"search.listen: {TEXT_PROGRAM} is not installed: PDF documents have no text (install poppler-utils)"
