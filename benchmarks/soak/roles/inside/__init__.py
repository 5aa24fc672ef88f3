"""What processes of a soak tell of their own memory: ``--inside``.

They are asked by a signal, which ``sitecustomize.py`` of this folder handles.  It collects garbage first, so the
figures say what is still referred to.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent


class Inside:
    """Asks processes that are started after it was made.

    :param folder: gets a file PID.jsonl for each, and ``names``.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._names = folder / "names"
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        os.environ["SOAK_INSIDE"] = str(folder.resolve())

    def ask(self, processes: Iterable[tuple[str, int]]) -> None:
        """Ask each of these, by name and id."""
        processes = list(processes)
        self._names.write_text("".join(f"{pid} {name}\n" for name, pid in processes))
        for _, pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR2)
