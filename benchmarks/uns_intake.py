"""How fast a UNS takes a set in: parsed, checked, spooled; beside bare expat counting the elements of the same bytes.

``python benchmarks/uns_intake.py [--urls N] [--runs N] [--odd 0.0]`` runs both in turn, each in a process of its own,
and prints medians and the ratio.  Counted is CPU time, so that what else the machine does matters
little.  ``--odd``: such a part of the elements is not plain (:mod:`lcc.domain.notices.normal_values`): their URLs
have to be made normal first.  It writes only to a temporary folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

from common import argument_parser, scratch
from rows import Row, add_options, at_least, give

PIECE_BYTES = 65536
ROOT = "http://www.site.example/"
PASSWORD = "0123456789abcdef0123456789abcdef"


def write_set(path: Path, count: int, odd: float = 0.0) -> None:
    """A set as ``lcccp`` sends it, with a handful of URLs that are refused.

    :param odd: part of the elements whose URLs are not normal.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f'<lococa:set set="full" urlprefix="{ROOT}">\n')
        for i in range(count):
            name = f"section{i % 97}/page-{i}.html" if i % 10_000 else "http://elsewhere.example/"
            if i * odd % 1 + odd >= 1:
                name = f"sect\u00eden{i % 97}/page-{i}.html"
            file.write(
                f'<url c="{name}" m="text/html" md5="{i:032x}" len="{1000 + i % 9000}" mtime="{10**9 + i}"/>\n'
            )
        file.write("</lococa:set>\n")


def pieces(path: Path) -> Iterator[bytes]:
    """The file as a transport delivers it."""
    with path.open("rb", buffering=0) as file:
        while data := file.read(PIECE_BYTES):
            yield data


def count_with_expat(path: Path) -> dict[str, Any]:
    """The floor: expat with one handler that counts."""
    count = 0

    def start(_name: str, _attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1

    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = start
    parser.Parse(b'<r xmlns:lococa="http://www.lococa.org/1.0">', False)
    begin = time.process_time()
    for data in pieces(path):
        parser.Parse(data, False)
    return {"seconds": time.process_time() - begin, "urls": count - 2}


def take_in(path: Path, folder: Path) -> dict[str, Any]:
    """A whole UNS but for its sockets: session, feed, checks, spool."""
    from twisted.internet.defer import Deferred, maybeDeferred, succeed
    from twisted.internet.task import Clock
    from twisted.internet.testing import StringTransport

    from lcc.config import Config, UnsConfig
    from lcc.model import FullSetKey, Provider, ProviderStatus, Session, SetStart
    from lcc.protocols.cp_uns_client import init
    from lcc.roles.uns.engine import Uns
    from lcc.roles.uns.port import ProviderPort
    from lcc.services.common import collect_garbage_rarely
    from lcc.storage.disk.spool import Spool
    from lcc.storage.providers.passwords import hash_password

    class Database:
        def login(self, pid: int) -> Deferred[tuple[Provider, ProviderStatus] | None]:
            provider = Provider(pid, (ROOT,), hash_password(PASSWORD, generated=True))
            return succeed((provider, ProviderStatus(0, 0, None, "", 0, 0, (), 0)))

        def status(self, pid: int, errors_max: int) -> Deferred[ProviderStatus]:
            return succeed(ProviderStatus(0, 0, None, "", 0, 0, (), 0))

        def open_session(self, pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
            return succeed(Session(1, "", 1))

        def begin_sets(self, starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
            return succeed([start.held for start in starts])

        def end_full_sets(self, keys: Collection[FullSetKey]) -> Deferred[None]:
            return succeed(None)

        def keep_full_sets(self, here: Collection[FullSetKey], now: int) -> Deferred[None]:
            return succeed(None)

    collect_garbage_rarely()
    settings = UnsConfig(spool_max_bytes=1 << 40)
    spool = Spool(folder, "uns", settings.spool_max_bytes, lambda: "epoch")
    clock, database = Clock(), Database()
    uns = Uns(
        settings,
        Config().mimetypes,
        spool,
        database,  # type: ignore[arg-type]
        database,  # type: ignore[arg-type]
        clock,
        lambda: 0,
        maybeDeferred,
    )
    uns.start()
    stream: Any = ProviderPort(uns).buildProtocol(None)
    transport = StringTransport()
    stream.makeConnection(transport)
    stream.dataReceived(init(7, PASSWORD).encode())
    clock.advance(0)
    begin = time.process_time()
    for data in pieces(path):
        stream.dataReceived(data)
        clock.advance(0)
    seconds = time.process_time() - begin
    assert b"<set_accepted" in transport.value(), transport.value()[-300:]
    return {"seconds": seconds, "urls": uns.counters.urls_received + uns.counters.urls_refused}


def run(kind: str, path: Path, folder: Path) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--file", str(path), "--folder", str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--odd", type=float, default=0.0)
    parser.add_argument("--child", choices=["expat", "uns"])
    parser.add_argument("--file", type=Path)
    parser.add_argument("--folder", type=Path)
    add_options(parser)
    options = parser.parse_args()
    if options.child:
        kind = options.child
        result = count_with_expat(options.file) if kind == "expat" else take_in(options.file, options.folder)
        print(json.dumps(result))
        return
    results: dict[str, list[dict[str, Any]]] = {"expat": [], "uns": []}
    with scratch() as temporary:
        path = temporary / "set.xml"
        write_set(path, options.urls, options.odd)
        for number in range(options.runs):
            for kind, found in results.items():
                found.append(run(kind, path, temporary / f"spool{number}"))
                assert found[-1]["urls"] == options.urls, found[-1]
    rates = {kind: [result["urls"] / result["seconds"] for result in found] for kind, found in results.items()}
    odd = f", {options.odd:.0%} not plain" if options.odd else ""
    note = f"a set of {options.urls:,}{'' if odd else ', all spelled alike and right as they are'}"
    give(
        options,
        [
            Row(
                f"UNS: parse, check, spool{odd}",
                "URLs/s",
                rates["uns"],
                "bare expat, counting",
                rates["expat"],
                None if odd else at_least(0.25),
                note=f"one core, by CPU time; {note}",
            ),
        ],
    )


if __name__ == "__main__":
    main()
