"""The look for code that could not be simulated (``make check``) finds it, whatever it is called."""

from __future__ import annotations

import pytest

from scripts.check_environment import ALLOWED, faults, reaches


@pytest.mark.parametrize(
    "source",
    [
        "import time\nnow = time.time()",
        "from time import time as now\nnow()",
        "import time as clock\nclock.sleep(1)",
        "import time\ndef start(clock=time.monotonic): ...",
        "from datetime import datetime, UTC\ndatetime.now(UTC)",
        "import random\nrandom.random()",
        "from random import choice",
        "import attrs, secrets\nmake = attrs.Factory(secrets.token_hex)",
        "open('x')",
        "from pathlib import Path\nPath('x').read_bytes()",
        "from os import rename\nrename('a', 'b')",
        "import os.path\nos.path.exists('x')",
        "from threading import Thread\nThread(target=print).start()",
        "from twisted.internet import threads\nthreads.deferToThread(print)",
        "from twisted.internet.threads import deferToThread",
        "from twisted.internet.task import cooperate\ncooperate(iter([]))",
        "def start():\n    from twisted.internet import reactor",
    ],
)
def test_what_reaches_out_is_found(source: str) -> None:
    assert list(reaches(source))


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\ndef start(chance: Random) -> None: chance.random()",
        "def start(self): return self.outside.now() + self.reactor.seconds()",
        "def start(disk): disk.open('x'); disk.remove('y')",
        "from twisted.internet.task import deferLater",
        "import datetime\ndatetime.datetime.fromtimestamp(0, datetime.UTC)",
    ],
)
def test_what_is_given_may_be_used(source: str) -> None:
    assert not list(reaches(source))


def test_nothing_reaches_out() -> None:
    assert not list(faults())
    assert all(reason for _, reason in ALLOWED.values())
