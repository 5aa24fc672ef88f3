"""Workers that do what none should: each is an error of its own job, said in words; nothing of it stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from lcc.model.tasks import OUTPUT_BYTES_MAX, JobState
from lcc.protocols.jobs import Started
from lcc.workers.folders import clear
from tests.support.waiting import until, wait_for

from .kit import Make, Rig, alive, launchers, sleeping, with_mark


def gone(mark: str) -> None:
    wait_for("its processes have ended", lambda: not with_mark(mark))


@pytest_twisted.ensureDeferred
async def test_it_hangs(make: Make) -> None:
    rig = make('kinds = ["slow seconds=3 grace_seconds=30"]')
    await rig.start()
    done = await rig.run(rig.shell("echo begun; exec sleep 3001"), kind="slow")
    assert (done.state, done.signal, done.exit_code) == (JobState.TEMPORARY, 15, None)
    assert done.message == "Timed out after 3 seconds; begun"
    gone(sleeping(3001))


@pytest_twisted.ensureDeferred
async def test_it_ignores_term_in_all_its_processes(make: Make) -> None:
    rig = make('kinds = ["slow seconds=3 grace_seconds=1"]')
    await rig.start()
    inner = "trap '' TERM; while :; do sleep 3002; done"
    body = f"trap '' TERM HUP INT\n(setsid sh -c \"{inner}\" &)\nwhile :; do sleep 3002; done"
    done = await rig.run(rig.shell(body), kind="slow")
    assert (done.state, done.signal) == (JobState.TEMPORARY, 9)
    gone(sleeping(3002))


MANY = "for _ in range(1500): os.mkdir('d'); os.chdir('d')"


@pytest_twisted.ensureDeferred
async def test_it_makes_folders_deeper_than_recursion(make: Make, tmp_path: Path) -> None:
    """They are gone with the job: else the manager could not clean up, nor begin again."""
    rig = make('kinds = ["command disk_bytes=0"]')
    await rig.start()
    done = await rig.run(rig.python(f"import os\n{MANY}\nos.symlink('/', 'root')\nprint('done')"))
    assert (done.state, done.output) == (JobState.COMPLETED, "done\n")
    left = tmp_path / "left"
    (left / "job").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", f"import os\nos.chdir({str(left / 'job')!r})\n{MANY}"], check=True)
    clear(left)
    assert list(left.iterdir()) == []


@pytest_twisted.ensureDeferred
async def test_it_hides_files_below_a_path_that_is_too_long(make: Make) -> None:
    rig = make('kinds = ["slow disk_bytes=100000"]')
    await rig.start()
    body = "import os, time\nfor _ in range(25): os.mkdir('deep' * 50); os.chdir('deep' * 50)\ntime.sleep(3005)"
    done = await rig.run(rig.python(body), kind="slow")
    assert done.state is JobState.PERMANENT and done.message.startswith("Used more than 100,000 bytes of disk")


@pytest_twisted.ensureDeferred
async def test_a_stopped_worker_is_ended(make: Make) -> None:
    rig = make('kinds = ["slow seconds=1 grace_seconds=30"]')
    await rig.start()
    done = await rig.run(rig.shell("kill -STOP $$"), kind="slow")
    assert (done.state, done.signal) == (JobState.TEMPORARY, 15)


@pytest.mark.skipif(os.geteuid() != 0, reason="the count of a user's processes would be this user's")
@pytest_twisted.ensureDeferred
async def test_it_is_a_fork_bomb(make: Make) -> None:
    rig = make('kinds = ["slow processes=50"]', "nobody")
    await rig.start()
    done = await rig.run(rig.shell("while :; do sleep 3003 & done"), kind="slow")
    assert "Cannot fork" in done.output  # and that is the end of this shell
    found = re.search("had left behind: ([0-9]+) processes", done.message)
    assert found and 40 <= int(found[1]) <= 51
    assert not with_mark(sleeping(3003))


@pytest_twisted.ensureDeferred
async def test_it_forks_faster_than_one_can_count(make: Make) -> None:
    """A bomb of double forks in sessions of their own, bounded by itself only."""
    rig = make('kinds = ["slow seconds=1 grace_seconds=0"]')
    await rig.start()
    bomb = """
import os, sys, time
end = time.monotonic() + 30
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < end:  # each keeps dying, and living on in its child
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
            time.sleep(0.005)
        os._exit(0)
time.sleep(3000)
"""
    name = rig.python(bomb, "hydra.py")
    done = await rig.run(name, kind="slow")
    assert done.state is JobState.TEMPORARY
    assert not with_mark("hydra.py")


@pytest_twisted.ensureDeferred
async def test_it_floods_its_output(rig: Rig) -> None:
    await rig.start()
    work = rig.shell("echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last")
    done = await rig.run(work)
    assert done.state is JobState.COMPLETED
    assert done.output.startswith("first\nxxx") and done.output.endswith("xxx\nlast\n")
    assert len(done.output.encode()) <= OUTPUT_BYTES_MAX
    assert "29,934,4" in done.output and "bytes left out" in done.output
    assert done.message == "last"


@pytest_twisted.ensureDeferred
async def test_it_floods_descriptor_3(make: Make) -> None:
    rig = make("requests_max = 3000")
    await rig.start()
    flood = """
import socket
s = socket.socket(fileno=3)
s.settimeout(60)
try:
    while True:
        s.sendall(b"<log text='x'/>" * 100)
except OSError as error:
    print(type(error).__name__)
"""
    done = await rig.run(rig.python(flood, "flood.py"))
    assert done.state is JobState.PERMANENT
    assert "more than 3,000 requests" in done.message
    assert len(done.effects.logs) == 1001 and "2,000 more rows" in done.effects.logs[-1].text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("this is no XML>", "well-formed"),
        ("this is no XML", "in the middle of a request"),
        ("<log text='x'", "in the middle of a request"),
        ("<eat what='me'/>", "<eat>"),
        ("<log/>", "without text"),
        ("<period seconds='soon'/>", "seconds='soon'"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><log text='&a;'/>", "document type"),
        ("<log text='x'><log text='y'/></log>", "deep"),
        ("<log text='" + "x" * 2_000_000 + "'/>", "more than"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_it_says_makes_no_sense(rig: Rig, text: str, why: str) -> None:
    await rig.start()
    (rig.workers / "say").write_text(f"<notify url='http://site/'/>{text}")
    done = await rig.run(rig.shell('cat "$(dirname "$0")/say" >&3; exit 0'))
    assert done.state is JobState.PERMANENT
    assert "descriptor 3" in done.message and why in done.message, done.message
    assert not done.effects.notices


@pytest_twisted.ensureDeferred
async def test_answers_that_nobody_reads_lose_nothing(rig: Rig) -> None:
    await rig.start()
    body = "i=0; while [ $i -lt 3000 ]; do echo \"<notify url='http://site/$i'/>\" >&3; i=$((i+1)); done"
    done = await rig.run(rig.shell(body))
    assert done.state is JobState.COMPLETED
    assert [notice.url for notice in done.effects.notices] == [f"http://site/{number}" for number in range(3000)]


@pytest_twisted.ensureDeferred
async def test_it_fills_the_disk(make: Make) -> None:
    rig = make('kinds = ["small file_bytes=100000 disk_bytes=1000000"]')
    await rig.start()
    one = await rig.run(rig.shell("exec head -c 200000 /dev/zero > big", "one.sh"), kind="small")
    assert (one.state, one.signal) == (JobState.PERMANENT, 25)
    assert "file_bytes" in one.message
    many = rig.shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 90000 /dev/zero > f$i; done; pwd; sleep 3004")
    done = await rig.run(many, kind="small")
    assert done.state is JobState.PERMANENT and "1,000,000 bytes of disk" in done.message
    assert not Path(done.output.strip()).exists()
    gone(sleeping(3004))


@pytest_twisted.ensureDeferred
async def test_it_uses_up_memory(make: Make) -> None:
    rig = make('kinds = ["small memory_bytes=100000000"]')
    await rig.start()
    done = await rig.run(rig.python("x = bytearray(10**9)"), kind="small")
    assert (done.state, done.message) == (JobState.TEMPORARY, "MemoryError")


@pytest_twisted.ensureDeferred
async def test_too_many_open_files(make: Make) -> None:
    rig = make('kinds = ["small open_files=20"]')
    await rig.start()
    done = await rig.run(rig.python("x = [open('/dev/null') for _ in range(100)]"), kind="small")
    assert "Too many open files" in done.message


@pytest_twisted.ensureDeferred
async def test_it_crashes(rig: Rig) -> None:
    await rig.start()
    done = await rig.run(rig.python("import ctypes; print('x', flush=True); ctypes.string_at(1)"))
    assert (done.state, done.signal, done.exit_code) == (JobState.PERMANENT, 11, None)


@pytest_twisted.ensureDeferred
async def test_it_writes_no_utf_8(rig: Rig) -> None:
    await rig.start()
    done = await rig.run(rig.shell(r"printf 'a\377b\0c\033[31md\303\274\n'"))
    assert done.output == "a\\xffb\\x00c\\x1b[31md\u00fc\n"


@pytest_twisted.ensureDeferred
async def test_it_names_the_job_of_another(rig: Rig) -> None:
    await rig.start()
    work = rig.shell("LCC_JOB_ID=99 lcc-job notify http://site/1; echo $?; lcc-job notify http://site/2")
    done = await rig.run(work)
    assert done.state is JobState.COMPLETED
    assert "descriptor 3 of job 1, not of job 99" in done.output and "\n1\n" in done.output
    assert [notice.url for notice in done.effects.notices] == ["http://site/2"]


@pytest_twisted.ensureDeferred
async def test_it_closes_descriptor_3(rig: Rig) -> None:
    await rig.start()
    work = rig.shell("lcc-job notify http://site/1; exec 3>&-; lcc-job show; echo $?")
    done = await rig.run(work)
    assert done.state is JobState.COMPLETED and len(done.effects.notices) == 1
    assert "descriptor 3 is no socket" in done.output and done.output.endswith("\n1\n")


@pytest_twisted.ensureDeferred
async def test_it_leaves_a_grandchild_that_holds_its_output_open(rig: Rig) -> None:
    await rig.start()
    done = await rig.run(rig.shell("(setsid sleep 3005 &) ; (setsid nohup sleep 3005 &); echo done"))
    assert done.state is JobState.COMPLETED
    assert done.message == "done; killed what it had left behind: 2 processes"
    assert not with_mark(sleeping(3005))


@pytest_twisted.ensureDeferred
async def test_it_exits_while_its_pipe_is_full(rig: Rig) -> None:
    await rig.start()
    done = await rig.run(rig.shell("head -c 60000 /dev/zero | tr '\\0' y"))
    assert done.output == "y" * 60000


@pytest_twisted.ensureDeferred
async def test_it_kills_its_shepherd(rig: Rig, logged: list[Any]) -> None:
    """As root may; what it has forked is found."""
    await rig.start()
    done = await rig.run(rig.shell("(setsid sleep 3006 &); sleep 0.2; kill -9 $PPID; sleep 3006"))
    assert done.state is JobState.TEMPORARY and "watches over the worker was killed" in done.message
    gone(sleeping(3006))
    assert any("has died" in str(event.get("log_format")) for event in logged)
    assert (await rig.run(rig.shell("echo next"))).output == "next\n"


@pytest_twisted.ensureDeferred
async def test_the_launcher_dies(rig: Rig) -> None:
    """Jobs run on; the next one gets a new launcher."""
    await rig.start()
    order = rig.give(rig.shell("while [ ! -e go ]; do sleep 0.05; done; echo went"))
    await until(lambda: rig.of(Started))
    [launcher] = launchers()
    os.kill(launcher, 9)
    await until(lambda: not alive(launcher))
    assert (await rig.run(rig.shell("echo next", "next.sh"))).output == "next\n"
    (Path(f"/proc/{rig.of(Started)[0].process}/cwd") / "go").touch()
    assert (await rig.ended(order)).output == "went\n"


@pytest_twisted.ensureDeferred
async def test_effects_that_are_too_many(make: Make) -> None:
    rig = make("effects_max = 10\neffects_bytes = 70000")
    await rig.start()
    work = rig.shell("for i in 1 2 3 4 5 6 7 8 9 10 11; do echo \"<notify url='http://site/$i'/>\" >&3; done")
    done = await rig.run(work)
    assert done.state is JobState.PERMANENT and "more than 10 effects" in done.message
    assert not done.effects.notices
    body = "from lcc.worker import run\ndef main(j):\n    for i in range(5): j.store({'x': 'y' * 16000})\nrun(main)"
    done = await rig.run(rig.python(body, "big.py"))
    assert "more than 70,000 bytes" in done.message and done.state is JobState.PERMANENT


@pytest_twisted.ensureDeferred
async def test_many_effects_go_through_a_file(rig: Rig) -> None:
    await rig.start()
    work = rig.python("from lcc.worker import *\nj = Job()\nfor i in range(40): j.store({'i': i, 'x': 'y' * 50000})")
    done = await rig.run(work)
    assert [f'"i":{number},' in item for number, item in enumerate(done.effects.items)] == [True] * 40
    assert not list((rig.home / "manager").glob("effects-*"))
