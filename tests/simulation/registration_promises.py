"""What is promised of sites that register (P19): each has one provider or none, whatever fails in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lcc.model.frontend.places import AtHome
from lcc.storage.providers.passwords import verify_password

from .front import FrontEnd
from .newcomers import Newcomer
from .one_lcc import Lcc
from .sites import Site

_REGISTERED = (
    "SELECT r.root, p.pid, p.password FROM proots r JOIN pidb p ON p.pid = r.pid"
    " WHERE p.removed = 0 AND p.watched = 0"
)


class RegistrationPromises:
    """Watches newcomers.

    :param sites: all others.
    :param front: None: there is one LCC.
    :param broken: told what was, with the promise that it breaks.
    """

    def __init__(
        self,
        newcomers: Sequence[Newcomer],
        sites: Sequence[Site],
        lccs: Sequence[Lcc],
        front: FrontEnd | None,
        broken: Callable[[str, str], None],
    ) -> None:
        self._newcomers = {newcomer.root: newcomer for newcomer in newcomers}
        self._sites = [site for site in sites if site.root not in self._newcomers]
        self._front = front
        self._broken = broken
        self._there: dict[Lcc, dict[str, set[int]]] = {lcc: {} for lcc in lccs}
        """Root of a newcomer -> its providers."""
        self._seen: dict[str, int] = {}
        self._answers = 0
        self.appeared: Callable[[Lcc], object] = lambda lcc: None
        """Called when a newcomer has its provider, with the LCC that has it."""

    @property
    def counts(self) -> dict[str, int]:
        """What there was of registrations."""
        quitters = [root for root, newcomer in self._newcomers.items() if newcomer.is_gone]
        return {
            "newcomers": len(self._newcomers),
            "newcomers registered": len(self._seen),
            "newcomers given up": len(quitters),
            "newcomers given up, registered": sum(root in self._seen for root in quitters),
            "registrations answered": self._answers,
        }

    @property
    def abandoned(self) -> set[int]:
        """Providers of newcomers that have given up."""
        return {pid for root, pid in self._seen.items() if self._newcomers[root].gives_up}

    # While it runs.

    def committed(self, lcc: Lcc) -> None:
        """A transaction has written tables of an LCC."""
        there: dict[str, set[int]] = {}
        for root, pid, password in lcc.rows(_REGISTERED):
            newcomer = self._newcomers.get(root)
            if newcomer is None:
                continue
            there.setdefault(root, set()).add(pid)
            if root not in self._seen:
                self._appears(newcomer, pid, password)
                self.appeared(lcc)
        if there == self._there[lcc]:
            return
        self._there[lcc] = there
        for root, seen in self._seen.items():
            pids = self._pids(root)
            if pids != {seen}:
                self._broken("P19", f"{root} has the providers {sorted(pids)}, it had {seen}")

    def _pids(self, root: str) -> set[int]:
        return set().union(*(there.get(root, set()) for there in self._there.values()))

    def _appears(self, newcomer: Newcomer, pid: int, password: str) -> None:
        others = {site.pid: site.root for site in self._sites} | {seen: root for root, seen in self._seen.items()}
        if pid in others:
            self._broken("P19", f"{newcomer.root} is provider {pid}, which is that of {others[pid]}")
        if not newcomer.proven:
            self._broken("P19", f"{newcomer.root} is provider {pid}, and its secret was not read")
        if not verify_password(newcomer.password, password):
            self._broken("P19", f"{newcomer.root} is provider {pid}, of another registration than it has proven")
        self._seen[newcomer.root] = pid

    def answered(self, newcomer: Newcomer, pid: int) -> None:
        """A newcomer was told that it is this provider."""
        self._answers += 1
        if self._seen.get(newcomer.root) != pid:
            self._broken("P19", f"{newcomer.root} is told that it is {pid}, it is {self._seen.get(newcomer.root)}")

    # In the end.

    def undone(self) -> list[str]:
        """What is left to be done."""
        left = [
            f"{root} has not registered"
            for root, newcomer in self._newcomers.items()
            if not (newcomer.pid or newcomer.is_gone)
        ]
        if self._front is not None:
            making = self._front.rows(f"SELECT pid FROM pmdb WHERE state = '{AtHome.MAKING.value}'")
            left += [f"provider {pid} is being made" for (pid,) in making]
        return left

    def check_the_end(self) -> None:
        """Everything has healed and drained."""
        for root, newcomer in self._newcomers.items():
            pids = self._pids(root)
            if pids - {newcomer.pid} and not newcomer.gives_up:
                self._broken("P19", f"{root} has the providers {sorted(pids)}, it knows of {newcomer.pid}")
            for pid in pids if self._front is not None else ():
                self._check_place(root, pid)

    def _check_place(self, root: str, pid: int) -> None:
        assert self._front is not None
        home = self._front.home(pid)
        if pid not in self._there[home].get(root, set()):
            self._broken("P19", f"{root} is provider {pid}, which is in sub-LCC {home.name}, says PMDB, and is not")
