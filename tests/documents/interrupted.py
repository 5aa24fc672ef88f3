"""``python interrupted.py COMMAND…``: run a command, press Ctrl-C once it has shown something, give its exit code."""

import signal
import subprocess
import sys

with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE) as process:
    assert process.stdout is not None
    print(process.stdout.readline().decode(), end="")
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    sys.exit(process.wait())
