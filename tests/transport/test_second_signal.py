"""A role that is told twice to stop ends at once, and says so."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_ROLE = """
import os, sys
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.logger import globalLogBeginner, textFileLogObserver
from lcc.services.common import RoleService
from lcc.services.process.environment import real_environment

def drain():
    os.write(1, b"draining\\n")
    return Deferred()  # somebody does not read his last answer

globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)])
reactor = real_environment().reactor
role = RoleService("uns", None, None, drain)
reactor.addSystemEventTrigger("before", "shutdown", role.stopService)
reactor.callWhenRunning(role.startService)
reactor.callWhenRunning(os.write, 1, b"running\\n")
reactor.run()
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_it_at_once(second: signal.Signals) -> None:
    command = [sys.executable, "-c", _ROLE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.terminate()
        assert process.stdout.readline() == "draining\n"
        process.send_signal(second)
        log = process.communicate(timeout=60)[1]
    assert process.returncode == -second
    assert f"Received {second.name} while stopping: exiting at once" in log and "Traceback" not in log
