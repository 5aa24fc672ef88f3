"""More disks that fail under real processes: read-only, without inodes, of logs, of temporary and state files."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.system import BIN, ROLES, OriginServer, Site, System, files_of
from tests.support.small_disk import SmallDisk
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .test_full_disks import MIB, REJECTED, assert_well, new_system, queued, wait_status, with_content_on

__all__ = ["new_system"]

pytestmark = pytest.mark.long

LayOut = Callable[[str, int], Path]
SmallDisks = Callable[..., SmallDisk]
NewSystem = Callable[..., System]


def run(system: System, command: list[str | Path], site: Site | None = None, **environment: str) -> Any:
    """Run one of our programs."""
    password = {} if site is None else {"LCC_PASSWORD": site.password}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=system.folder,
        env=dict(system.environment, **password, **environment),
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_content_read_only_and_without_inodes(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    disk = small_disk(64 * MIB, files=4000)
    system = with_content_on(new_system, disk, MIB)
    lay_out("a", 10)
    site = system.add_site("a")
    system.start(*ROLES)
    system.publish_when_up(site)
    system.wait_cached(site)
    faults: list[tuple[Callable[[], None], Callable[[], None], str]] = [
        (lambda: disk.set_read_only(True), lambda: disk.set_read_only(False), "Read-only file system"),
        (disk.use_up_files, disk.make_room, "no inodes left"),
    ]
    for number, (begin, end, words) in enumerate(faults):
        begin()
        wait_status(system, "cannot store content", f"{disk.path}/content", words)
        asked = len(origin.requests())
        (site.folder / f"more{number}.txt").write_text(f"more {number}")
        system.publish(site)
        wait_for("it waits", lambda: queued(system) > 0)
        time.sleep(1.0)
        assert len(origin.requests()) == asked
        end()
        system.wait_cached(site)
    assert_well(system, origin)


def test_spool_read_only_and_without_inodes(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    disk = small_disk(16 * MIB, files=2000)
    spool = disk.path / "spool"
    system = new_system(uns=f'spool = "{spool}"\nspool_reserve = {MIB}\n')
    lay_out("a", 10)
    site = system.add_site("a")
    system.start("uns")
    system.publish_when_up(site)
    disk.use_up_files()
    assert "1012" in system.publish(site, expect=(REJECTED,), options="--full").stderr
    wait_status(system, "accepts no more sets", "no inodes left")
    disk.make_room()
    (site.folder / "new.txt").write_text("new")
    system.publish(site)
    disk.set_read_only(True)
    assert "1012" in system.publish(site, expect=(REJECTED,), options="--full").stderr
    wait_status(system, "accepts no more sets", "Read-only file system")
    # What is in the spool goes on to the queue manager all the same; it cannot be removed yet.
    system.start("qm", "botm", "bot")
    system.wait_cached(site)
    assert len(list(spool.glob("*.set"))) == 2
    disk.set_read_only(False)
    (site.folder / "newer.txt").write_text("newer")
    system.publish(site)
    system.wait_cached(site)
    # What could not be removed comes again after a restart, and changes nothing.
    change = system.rows("status")[0]["cache"]["change"]
    system.kill("uns")
    system.start("uns")
    wait_for("it is gone", lambda: not list(spool.glob("*.set")))
    assert system.rows("status")[0]["cache"]["change"] == change
    assert_well(system, origin)


def test_full_log_disks(small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer) -> None:
    """Nothing but the lines of that time is lost."""
    disk = small_disk(4 * MIB)
    system = new_system()
    for name in ROLES:
        (system.folder / f"{name}.log").symlink_to(disk.path / f"{name}.log")
    lay_out("a", 20)
    site = system.add_site("a")
    system.start(*ROLES)
    system.publish_when_up(site)
    system.wait_cached(site)
    disk.fill()
    for number in range(5):
        lay_out("a", 20 * (number + 2))
        system.publish(site)
        system.wait_cached(site)
    before = {name: len(system.log(name)) for name in ROLES}
    disk.make_room()
    system.kill("qm")
    system.start("qm")
    for name in ("uns", "botm"):
        wait_for(f"{name} logs again", lambda name=name: "Connected to" in system.log(name)[before[name] :])
    (site.folder / "new.txt").write_text("new")
    system.publish(site)
    system.wait_cached(site)
    assert_well(system, origin)


def test_roles_that_start_on_a_full_disk_say_what_is_wrong(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    """Those that cannot work at all end with one clear line; the others start, and go on when there is room."""
    disk = small_disk(4 * MIB)
    new_system()  # its configuration names the folders that the others share
    elsewhere = disk.path / "home"
    config = disk.path / "lcc.toml"
    config.write_text(f'home = "{elsewhere}"\n')
    disk.use_up_files()

    def start(command: str) -> Any:
        done = subprocess.run(
            [BIN / command, "--config", config, *(["init"] if command == "lcc-admin" else [])],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, done.stderr

    for command in ("lcc-admin", "lcc-uns", "lcc-qm", "lcc-botm", "lcc-cu"):
        code, said = start(command)
        assert code == 1, (command, code, said)
        assert "No space left on device" in said and str(elsewhere) in said, (command, said)
        assert "Traceback" not in said, (command, said)
    disk.make_room()
    assert start("lcc-admin")[0] == 0


def test_temporary_files_of_packages(
    small_disk: SmallDisks, new_system: NewSystem, origin: OriginServer, tmp_path: Path
) -> None:
    disk = small_disk(8 * MIB)
    system = new_system()
    folder = origin.root / "a"
    folder.mkdir()
    (folder / "large.txt").write_bytes(os.urandom(3 * MIB).hex().encode())
    (folder / "small.txt").write_text("small")
    site = system.add_site("a")
    system.start(*ROLES)
    system.publish_when_up(site)
    system.wait_cached(site)
    # To this one all content is that of another machine, which it reads through a temporary file.
    config = system.folder / "cu.toml"
    config.write_text(f'{system.config.read_text()}[botm]\nmachine = 99\n[cu]\ntemporary = "{disk.path}/tmp"\n')
    with (system.folder / "cu.log").open("ab") as log:
        system.processes["cu"] = subprocess.Popen(
            [BIN / "twistd", "-n", "lcc-cu", "--config", config],
            cwd=system.folder,
            stdout=log,
            stderr=log,
            env=system.environment,
        )
    wait_for("it listens", lambda: (system.folder / "home" / "cu.sock").exists())
    disk.fill()
    package = tmp_path / "package.tar"
    command: list[str | Path] = [BIN / "lcc-export", "--config", config, "tar", "-o", package]
    for _ in range(12):  # more often than packages may be made at once: none of them stays behind
        failed = run(system, command)
        assert failed.returncode == 4 and not package.exists(), failed
        assert "no room to make packages" in failed.stderr or "cut off" in failed.stderr, failed
    said = system.log("cu")
    assert f"Cannot make a package: no temporary file can be written in {disk.path}/tmp" in said
    assert "make room" in said
    disk.make_room()
    done = run(system, [*command, "--json"])
    assert done.returncode == 0 and json.loads(done.stdout)["missing"] == 0, done
    assert_well(system, origin)


def test_state_and_temporary_files_of_tools(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    disk = small_disk(4 * MIB)
    system = new_system()
    lay_out("a", 30)
    site = system.add_site("a")
    site.state = disk.path / "a.state"
    system.start(*ROLES, "cu")
    system.publish_when_up(site)
    system.wait_cached(site)
    export = disk.path / "export.state"
    out = system.folder / "out.ndjson"
    command: list[str | Path] = [
        *(BIN / "lcc-export", "--config", system.config, "ndjson", "--index", "lcc"),
        *("--since", export, "sh", "-c", f"cat >> {out}"),
    ]
    first = run(system, command)
    assert first.returncode == 0, first
    known, files = site.state.read_bytes(), dict(files_of(site.folder))
    disk.fill()
    # The provider's state: nothing is sent, and the state stays what it was.
    lay_out("a", 60)
    pipe = (
        f"set -o pipefail; {BIN}/file2url --find {site.folder} -type f | {BIN}/lcccpstate --statefile={site.state}"
        f" | {BIN}/lcccp --uns=127.0.0.1:{system.port} --pid={site.pid} --urlprefix={site.url}"
    )
    failed = run(system, ["bash", "-c", pipe], site)
    assert failed.returncode != 0 and "No space left on device" in failed.stderr, failed
    assert "nothing is sent" in failed.stderr and "Traceback" not in failed.stderr, failed
    assert site.state.read_bytes() == known and not Path(f"{site.state}.pending").exists()
    # The place where lcccp keeps a stream until it is complete.  (Python goes elsewhere if there is no room at all.)
    disk.make_room()
    disk.fill(16384)
    urls = "".join(f"<url c='x{n}' m='text/plain'/>" for n in range(20_000))
    (system.folder / "urls").write_text(urls)
    plain = f"{BIN}/lcccp --no-end-mark --uns=127.0.0.1:{system.port} --pid={site.pid} --urlprefix={site.url} < urls"
    failed = run(system, ["bash", "-c", plain], site, TMPDIR=str(disk.path))
    assert failed.returncode != 0 and "Traceback" not in failed.stderr, failed
    assert "No space left" in failed.stderr, failed
    # The state of an export: the consumer gets nothing new, and all of it the next time.
    disk.make_room()
    system.publish(site)
    system.wait_cached(site)
    out.unlink()
    disk.fill()
    failed = run(system, command)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr, failed
    assert str(export) in failed.stderr and "full" in failed.stderr, failed
    disk.make_room()
    assert run(system, command).returncode == 0
    told = out.read_text()
    new = [row["curl"] for path, row in system.cached(site).items() if path not in files]
    assert len(new) > 30 and all(curl in told for curl in new)
    assert_well(system, origin)
