"""A provider moves while a notifier of the front end tells sets of it; real processes, which are killed meanwhile."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import SetBegin, SetEnd, write_url
from tests.support.processes.front_end import SubLccs
from tests.support.processes.system import OriginServer, Site
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS

LayOut = Callable[[str, int], Path]
_ACCEPTED = re.compile(rb'<accepted upto="([0-9]+)"/>').findall
PAGES = 300
_READ_SECONDS = 0.3


class Notifier:
    """Tells sets; what has no answer, again on each connection.

    :ivar told: number -> the set; those without an answer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.told: dict[int, bytes] = {}
        self._socket: socket.socket | None = None
        self._heard = b""

    def tell(self, site: Site, name: str) -> None:
        self.number += 1
        begin, url = SetBegin(self.number, site.pid, "polled").to_xml(), write_url({"c": site.url + name})
        self.told[self.number] = f"{begin}{url}{SetEnd(1).to_xml()}\n".encode()
        self._send(self.told[self.number])

    def work(self) -> None:
        """Connect, if need be, and read answers for a moment."""
        try:
            if self._socket is None:
                self._connect()
            assert self._socket is not None
            data = self._socket.recv(65536)
            if not data:
                self.close()
        except TimeoutError:
            return
        except OSError:
            self.close()
            return
        self._heard += data
        assert b"<rejected" not in self._heard, self._heard
        for upto in _ACCEPTED(self._heard):
            self.told = {number: told for number, told in self.told.items() if number > int(upto)}

    def _connect(self) -> None:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(_READ_SECONDS)
        self._socket, self._heard = link, b""
        link.connect(str(self.path))
        self._send(Hello(role="scheduler", name="n1", epoch="e1").open_tag().encode())
        for told in self.told.values():
            self._send(told)

    def _send(self, data: bytes) -> None:
        try:
            if self._socket is not None:
                self._socket.sendall(data)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@SQLITE_ALWAYS
def test_sets_of_a_notifier_follow_the_provider(
    tmp_path: Path, origin: OriginServer, lay_out: LayOut, sub_lccs: SubLccs
) -> None:
    front, one, two = sub_lccs
    notifier = Notifier(front.folder / "home" / "notify-scheduler.sock")
    try:
        moving, staying = lay_out("moving", PAGES), lay_out("staying", PAGES)
        names = {
            folder: sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
            for folder in (moving, staying)
        }
        for lcc in (one, two):
            lcc.start("all")
        mover = one.add_site("moving")
        for lcc in (one, two):
            lcc.join(front)
            front.admin("fe", "set", lcc.name, "--notifiers", f"unix:{lcc.folder}/home/notify-{{role}}.sock")
        stayer = two.add_site("staying")
        front.start("fe-uns")
        wait_for("both have reported", lambda: all(not row["stale"] for row in front.rows("fe", "list")))
        front.admin("move", str(mover.pid), "--to", "two")
        told = killed_after = 0

        def moved() -> bool:
            nonlocal told, killed_after
            if told < PAGES:
                for site, folder in ((mover, moving), (stayer, staying)):
                    notifier.tell(site, names[folder][told])
                told += 1
            notifier.work()
            if told == 3:
                front.kill("fe-uns")
                front.start("fe-uns")
            if told == 6:
                for lcc in (one, two):
                    lcc.kill("all")
                killed_after = len(origin.requests())
                for lcc in (one, two):
                    lcc.start("all")
            return told > 12 and front.rows("moves", "--all")[0]["state"] == "done"

        wait_for("it has moved", moved)
        for _ in range(3):
            moved()

        def answered() -> bool:
            notifier.work()
            return not notifier.told

        wait_for("all sets have their answers", answered)
        expected = {f"/{folder.name}/{name}" for folder in (moving, staying) for name in names[folder][:told]}
        wait_for("all pages were fetched", lambda: expected <= {each["path"] for each in origin.requests()})
        wait_for("nothing is queued", lambda: not any(row.get("queued") for row in two.rows("provider", "list")))
        origin.assert_each_once(expected, killed_after)
        for each, name in ((front, "fe-uns"), (one, "all"), (two, "all")):
            each.stop(name)
    finally:
        notifier.close()
