"""Jobs in real processes: arguments, environment, exit codes, effects."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import pytest_twisted

from lcc.model.tasks import FollowUp, JobNotice, JobSpec, JobState
from lcc.protocols.hello import Ready
from lcc.protocols.jobs import EndingsRecorded, Has, JobStatus, Kind, Started
from lcc.workers.executables import all_executables
from tests.support.waiting import until

from .kit import Make, Rig, alive


@pytest_twisted.ensureDeferred
async def test_arguments_output_and_exit_code_0(rig: Rig) -> None:
    await rig.start()
    work = rig.shell('echo "out $1"; echo "err $2" >&2; exit $3')
    done = await rig.run(work, "a b", "$(id)", "0")
    assert (done.state, done.exit_code, done.signal) == (JobState.COMPLETED, 0, 0)
    assert done.output == "out a b\nerr $(id)\n"
    assert done.message == "err $(id)"
    [started] = rig.of(Started)
    assert started.process and not alive(started.process)


@pytest_twisted.ensureDeferred
async def test_exit_codes(rig: Rig) -> None:
    await rig.start()
    work = rig.shell("test $1 = 0 || exit $1; kill -SEGV $$")
    one, two, five, crash = [await rig.run(work, code) for code in ("1", "2", "5", "0")]
    assert (one.state, one.exit_code, one.message) == (JobState.TEMPORARY, 1, "")
    assert (two.state, two.exit_code, two.message) == (JobState.PERMANENT, 2, "")
    assert (five.state, five.exit_code) == (JobState.TEMPORARY, 5)
    assert "should be mended" in five.message
    assert (crash.state, crash.exit_code, crash.signal) == (JobState.PERMANENT, None, 11)
    assert "SIGSEGV" in crash.message


@pytest_twisted.ensureDeferred
async def test_the_environment_is_clean(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_MANAGER", "x")
    rig = make('environment = ["COLOUR=blue"]', "nobody")
    await rig.start()
    work = rig.shell("env; pwd; ls -A; id -un; umask; ulimit -n; ls /proc/self/fd | tr '\\n' ' '")
    done = await rig.run(work, task=9)
    lines = done.output.splitlines()
    names = dict(line.partition("=")[::2] for line in lines if "=" in line)
    assert names["LCC_JOB_ID"] == names["SSSCRAPE_JOB_ID"] == "1"
    assert names["LCC_TASK_ID"] == names["SSSCRAPE_TASK_ID"] == "9"
    assert names["COLOUR"] == "blue" and names["HOME"] == names["TMPDIR"] == names["PWD"]
    assert names.keys() <= {
        *("PATH", "LANG", "COLOUR", "LCC_JOB_ID", "SSSCRAPE_JOB_ID", "LCC_TASK_ID", "SSSCRAPE_TASK_ID"),
        *("LCC_JOB_MARK", "HOME", "TMPDIR", "PWD", "_", "OLDPWD", "SHLVL"),
    }
    rest = lines[-5:]
    assert rest[0] == names["HOME"]
    assert rest[1:4] == ["nobody" if os.geteuid() == 0 else rest[1], "0077", "256"]
    assert rest[4].split() == ["0", "1", "2", "3", "4"]  # the last is that of ls itself
    assert not Path(names["HOME"]).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest_twisted.ensureDeferred
async def test_a_folder_that_the_user_of_workers_cannot_enter(make: Make) -> None:
    rig = make("", "nobody")
    await rig.start()
    work = rig.shell("true")
    rig.workers.chmod(0o700)
    done = await rig.run(work)
    assert done.state is JobState.PERMANENT
    assert f"Permission denied; [manager] user cannot enter {rig.workers}: name a folder" in done.message
    rig.workers.chmod(0o755)
    (rig.workers / work).chmod(0o700)
    assert f"cannot execute {rig.workers / work} (chmod 755)" in (await rig.run(work)).message


@pytest_twisted.ensureDeferred
async def test_what_a_shell_script_says(rig: Rig) -> None:
    await rig.start()
    work = rig.shell("""
set -e
lcc-job status half
lcc-job log --level warn 'no title'
printf 'two\nlines' | lcc-job log -
test "$(lcc-job show data)" = before
test "$(lcc-job show args)" = "http://site/a page"
lcc-job show | grep 'resource: *site'
lcc-job period 2h
lcc-job add --after 12h --key k1 --data later -- other.sh "$1" -x
lcc-job add --resource '' --kind feed --at 4000000000 --on deny:here
lcc-job notify --source feed "http://site/b?c=d&e"
lcc-job store '{"id": "a7", "text": "<ü>"}'
lcc-job store --data after
""")
    done = await rig.run(work, "http://site/a page", task=3, data="before", resource="site")
    assert done.state is JobState.COMPLETED, done
    assert done.message == "half"
    effects = done.effects
    assert [(row.level, row.text) for row in effects.logs] == [("warn", "no title"), ("info", "two\nlines")]
    assert effects.every_seconds == 7200 and effects.data == "after"
    other = JobSpec("command", "other.sh", ("http://site/a page", "-x"), "site", data="later")
    assert effects.followups == (
        FollowUp(other, "k1", 43200),
        FollowUp(JobSpec("feed", on=("deny:here",)), at_time=4000000000),
    )
    assert effects.notices == (JobNotice("http://site/b?c=d&e", "feed"),)
    assert [json.loads(item) for item in effects.items] == [{"id": "a7", "text": "<ü>"}]
    assert rig.of(JobStatus)[0].text == "half"


PYTHON = """
from lcc.worker import *

def main(job):
    info = job.show()
    assert info.args == ("x",) and info.attempt == 1 and info.input == {"key": "00"}, info
    for wrong in (
        lambda: job.notify("no url"),
        lambda: job.notify("http://site/", source="told"),
        lambda: job.notify("http://site/", op="eat"),
        lambda: job.set_period(5),
        lambda: job.add(""),
        lambda: job.log("x", level="loud"),
        lambda: job.store_data("x" * 20000),
        lambda: job.add("c", "x" * 20000),
    ):
        try:
            wrong()
        except JobError as error:
            job.log(f"{error.code}: {error}")
        else:
            raise AssertionError(wrong)
    job.store({"text": "x" * 900000 + "\\u00fc\\u0001\\ud800<&"})
    job.add("c.sh", key="c")
    if info.args:
        MORE

run(main)
"""


@pytest_twisted.ensureDeferred
async def test_what_python_says(rig: Rig) -> None:
    await rig.start()
    work = rig.python(PYTHON.replace("MORE", "pass"))
    done = await rig.run(work, "x", input='{"key": "00"}')
    assert done.state is JobState.COMPLETED, done
    assert [row.text.partition(":")[0] for row in done.effects.logs] == [*["invalid"] * 6, "too-much", "invalid"]
    [item] = done.effects.items
    assert json.loads(item)["text"][899_998:] == "xx\u00fc\u0001\ufffd<&"
    assert [added.key for added in done.effects.followups] == ["c"]


@pytest.mark.parametrize(
    ("more", "state", "message"),
    [
        ("raise TemporaryError('later', after_seconds=77)", JobState.TEMPORARY, "later"),
        ("raise PermanentError('never')", JobState.PERMANENT, "never"),
        ("1 / 0", JobState.TEMPORARY, "ZeroDivisionError: division by zero"),
        ("job.status('so far'); raise SystemExit(2)", JobState.PERMANENT, "so far"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_fails_has_no_effects_but_a_log(rig: Rig, more: str, state: JobState, message: str) -> None:
    await rig.start()
    done = await rig.run(rig.python(PYTHON.replace("MORE", more)), "x", input='{"key": "00"}')
    assert (done.state, done.message) == (state, message)
    assert done.retry_after_seconds == (77 if message == "later" else None)
    assert len(done.effects.logs) == 8
    assert not (done.effects.items or done.effects.followups)


@pytest_twisted.ensureDeferred
async def test_commits(rig: Rig) -> None:
    rig.records = False
    await rig.start()
    work = rig.shell("""
lcc-job notify http://site/1 && lcc-job store --data one && lcc-job commit && echo committed
lcc-job notify http://site/2
exit 1
""")
    order = rig.give(work)
    await until(lambda: rig.results)
    commit = rig.results[0]
    assert (commit.state, commit.commit, commit.effects.data) == (JobState.RUNNING, 1, "one")
    assert [notice.url for notice in commit.effects.notices] == ["http://site/1"]
    [job] = rig.engine.jobs
    assert not job.output.total_bytes  # it waits until that is recorded
    rig.records = True
    rig.links[0].say(EndingsRecorded(1))
    done = await rig.ended(order)
    assert done.output == "committed\n" and done.state is JobState.TEMPORARY
    assert not done.effects.notices


@pytest_twisted.ensureDeferred
async def test_kinds_and_executables_are_told(make: Make) -> None:
    rig = make('kinds = ["feed jobs=2 seconds=60", "clean jobs=0"]\nscan_interval = 0.1')
    rig.shell("true", "one.sh")
    (rig.workers / "no").write_text("not executable")
    await rig.start()
    await until(lambda: rig.of(Ready))
    assert {kind.name: (kind.jobs, kind.seconds) for kind in rig.of(Kind)} == {
        "*": (4, 300),
        "feed": (2, 60),
        "clean": (0, 300),
    }
    # No more jobs come than it runs at once: another manager may have room.
    assert [hello.capacity for hello in rig.hellos] == [8]
    assert [has.command for has in rig.of(Has)] == ["one.sh"]
    faults = all_executables([str(rig.workers)], [os.geteuid()])[1]
    assert faults == {"no": f"{rig.workers}/no is not executable (chmod +x)"}
    rig.shell("true", "two.sh")
    (rig.workers / "one.sh").unlink()
    await until(lambda: len(rig.of(Has)) == 3)
    assert rig.of(Has)[1:] == [Has("two.sh"), Has("one.sh", gone=True)]


@pytest_twisted.ensureDeferred
async def test_what_may_not_be_run(rig: Rig) -> None:
    outside = rig.folder / "outside.sh"
    outside.write_text("#!/bin/sh\necho no")
    outside.chmod(0o755)
    (rig.workers / "link.sh").symlink_to(outside)
    rig.shell("echo no", "open.sh")
    (rig.workers / "open.sh").chmod(0o777)
    rig.shell("echo no", "plain.sh")
    (rig.workers / "plain.sh").chmod(0o644)
    rig.worker("odd", "#!/no/such/interpreter\n")
    rig.worker("noise", "neither a script nor a program")
    rig.shell("echo no", "theirs.sh")
    os.chown(rig.workers / "theirs.sh", 12345, 12345)
    await rig.start()
    for command, why in (
        ("../outside.sh", "'..'"),
        ("sub/../../outside.sh", "'..'"),
        (str(outside), "leads out of"),
        ("/bin/sh", "leads out of"),
        ("link.sh", "leads out of"),
        ("open.sh", "others than its owner can write"),
        ("plain.sh", "not executable"),
        ("missing.sh", "no such worker"),
        ("", "names no command"),
        ("theirs.sh", "belongs to user 12345"),
        ("odd", "No such file"),
        ("noise", "Exec format error"),
    ):
        done = await rig.run(command)
        assert (done.state, done.exit_code, done.output) == (JobState.PERMANENT, None, ""), command
        assert why in done.message, (command, done.message)
    (rig.workers / "sub").mkdir()
    assert (await rig.run(rig.shell("echo yes", "sub/in.sh"))).output == "yes\n"
    rig.workers.chmod(0o777)
    assert "others than its owner can write" in (await rig.run("sub/in.sh")).message
