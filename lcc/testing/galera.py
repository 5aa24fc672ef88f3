"""A private Galera cluster for tests: three MariaDB servers that have the same databases, on loopback, or each on a
host of its own.

Needs what :mod:`lcc.testing.mariadb` needs, and Galera's library (Debian: galera-4).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import attrs
import pymysql

from lcc.testing.mariadb import MariaDbMissing, PrivateMariaDb

LIBRARIES = tuple(
    Path(place) / "libgalera_smm.so"
    for place in ("/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera", "/usr/lib/galera-4")
)
NODES = 3
PORTS = 3 * NODES
USER, PASSWORD = "lcc", "secret"
_TRANSFER = "lcc"
_SCRIPT = """#!/bin/sh
# What a node that joins has to be told: from where on the other one sends what it lacks.  (That itself goes by a
# connection between the two.  All that there is was never sent here: nodes begin alike.)
while [ $# -gt 0 ]; do
    case $1 in
    --role) role=$2 ;;
    --address) address=$2 ;;
    --gtid) gtid=$2 ;;
    --datadir) node=$(basename "$(dirname "$2")") ;;
    --parent) parent=$2 ;;
    --bypass) bypass=yes ;;
    esac
    shift
done
# All nodes have one address, and several may join at once: who joins names itself in it.
[ "$role" = joiner ] && address=$address/$node
told=FOLDER/${address##*/}
if [ "$role" = joiner ]; then
    rm -f "$told"
    echo "ready $address"
    while [ ! -e "$told" ]; do
        kill -0 "$parent" || exit 1  # the node has ended: the shell that it ran this with has not
        sleep 0.1
    done
    cat "$told"
else
    [ "$bypass" = yes ] || exit 1
    echo continue
    echo "$gtid" >"$told.new"
    mv "$told.new" "$told"
    echo "done $gtid"
fi
"""


@attrs.frozen
class Host:
    """Where a node runs.

    :ivar clients: its address for clients; ``group``: for the other nodes.
    :ivar command: stands before a command that is to run there.
    """

    clients: str = "127.0.0.1"
    group: str = "127.0.0.1"
    command: tuple[str, ...] = ()


class GaleraNode(PrivateMariaDb):
    """One of them.

    :param ports: for clients, for the other nodes, for what is sent to it when it joins.
    :param cluster: where all nodes listen for the others.
    :param scripts: folder with the script by which state is transferred, and for what that writes.
    """

    def __init__(
        self, name: str, host: Host, ports: Sequence[int], cluster: Sequence[str], scripts: Path, durable: bool
    ) -> None:
        super().__init__(durable=durable, log_mib=16, port=ports[0], address=host.clients)
        self.name = name
        self.host = host
        self.port = ports[0]
        self._ports = ports
        self._cluster = cluster
        self._scripts = scripts
        self._library = galera_library()
        self._first = self._crashed = False

    def install(self) -> None:
        super().install()
        self.bootstrap()

    def copy(self, other: GaleraNode) -> None:
        """Make the data folder a copy of another node's, which has been ended in order."""
        ours = ("galera.cache", "gvwstate.dat", "pid")
        shutil.copytree(other.data, self.data, ignore=shutil.ignore_patterns(*ours))
        owner = other.data.stat()
        for path in (self.folder, self.data, *self.data.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)

    def command(self) -> list[str]:
        command = self._options()
        position = [] if self._first and not self._crashed else self._position(command)
        command += [*position, *(["--wsrep-new-cluster"] if self._first else [])]
        self._first = self._crashed = False
        path = f"{self._scripts}:{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/bin"
        return ["env", f"PATH={path}", *command]

    def _options(self) -> list[str]:
        group, transfers = self._ports[1:]
        options = {
            "gmcast.listen_addr": f"tcp://{self.host.group}:{group}",
            "ist.recv_addr": f"{self.host.group}:{transfers}",
            "gcache.size": "128M",
            # Whoever has gone is waited for as long as it takes.
            "pc.wait_prim_timeout": "PT1H",
        }
        return [
            *self.host.command,
            *super().command(),
            *("--innodb-buffer-pool-size=64M", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"),
            # A statement that cannot be replicated is refused.
            *("--wsrep-on=ON", "--wsrep-mode=STRICT_REPLICATION,REQUIRED_PRIMARY_KEY"),
            f"--wsrep-provider={self._library}",
            "--wsrep-provider-options=" + ";".join(f"{name}={value}" for name, value in options.items()),
            "--wsrep-cluster-address=gcomm://" + ",".join(self._cluster),
            *(
                "--wsrep-cluster-name=lcc",
                f"--wsrep-node-name={self.name}",
                f"--wsrep-node-address={self.host.group}:{group}",
            ),
            f"--wsrep-sst-method={_TRANSFER}",
        ]

    def bootstrap(self) -> None:
        """Its next start begins a cluster, without the others."""
        self._first = True

    def bootstrap_after_crash(self) -> None:
        """The same, where all nodes have crashed: doc/galera.md."""
        self._first = self._crashed = True
        state = self.data / "grastate.dat"
        state.write_text(state.read_text().replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
        (self.data / "gvwstate.dat").unlink(missing_ok=True)

    def position(self) -> int:
        """The number of its last transaction, while it does not run; -1: nobody knows."""
        found = self._position(self._options())
        return int(found[0].rpartition(":")[2]) if found else -1

    @staticmethod
    def _position(command: list[str]) -> list[str]:
        """Where it goes on after a crash, as Debian's unit finds it out."""
        done = subprocess.run([*command, "--wsrep-recover"], capture_output=True, text=True, check=False)
        found = re.search(r"Recovered position: ([0-9a-f-]+:\d+)", done.stdout + done.stderr)
        return [f"--wsrep-start-position={found[1]}"] if found else []

    def serves(self) -> bool:
        """Whether it is up to date, and together with most of the others."""
        return self.listens() and self.status("wsrep_ready") == "ON"

    def status(self, name: str) -> str:
        """A value of its status; empty: it does not tell."""
        try:
            rows = self.execute(f"SHOW STATUS LIKE '{name}'")
        except (OSError, pymysql.err.Error):
            return ""
        return str(rows[0][1]) if rows else ""


class PrivateGalera:
    """The cluster; a context manager.

    :param ports: :data:`PORTS` that nobody listens on.
    :param durable: as of :class:`lcc.testing.mariadb.PrivateMariaDb`.
    :param hosts: of its nodes.
    :ivar nodes: those of them that were killed included.
    :raises MariaDbMissing: something is not installed, or does not start.
    """

    def __init__(
        self, ports: Sequence[int], *, durable: bool = False, hosts: Sequence[Host] = (Host(),) * NODES
    ) -> None:
        self._durable = durable
        self._hosts = hosts
        self._ports = [ports[number::NODES] for number in range(NODES)]
        self.nodes: list[GaleraNode] = []
        self._scripts = Path(tempfile.mkdtemp(prefix="lcc-galera-"))
        self._databases = 0

    def __enter__(self) -> PrivateGalera:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        script = self._scripts / f"wsrep_sst_{_TRANSFER}"
        script.write_text(_SCRIPT.replace("FOLDER", str(self._scripts)))
        script.chmod(0o755)
        # The nodes may run as another user.
        self._scripts.chmod(0o777)
        places = list(zip(self._hosts, self._ports, strict=True))
        group = [f"{host.group}:{ports[1]}" for host, ports in places]
        for number, (host, ports) in enumerate(places, 1):
            self.nodes.append(GaleraNode(f"node{number}", host, ports, group, self._scripts, self._durable))
        self.nodes[0].start()
        self._begin_with(self.nodes[0])
        self.execute(f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'")
        self.execute(f"GRANT ALL ON *.* TO {USER}")

    def recover(self) -> None:
        """Begin again with the most advanced node, as an operator does where all of them were lost and find no
        majority by themselves.

        The others become copies of it.  What they lack may be more than it has kept to send, and a transfer of all
        that there is does not happen here.
        """
        for node in self.nodes:
            node.kill()
        first = max(self.nodes, key=GaleraNode.position)
        first.bootstrap_after_crash()
        first.start_again()
        self._begin_with(first)

    def _begin_with(self, first: GaleraNode) -> None:
        """The others become copies of this node, which is running, and join it."""
        first.end()
        others = [node for node in self.nodes if node is not first]
        for node in others:
            shutil.rmtree(node.data, ignore_errors=True)
            node.copy(first)
        first.bootstrap()
        for node in (first, *others):
            node.start_again()

    def stop(self) -> None:
        """End all nodes and remove everything."""
        for node in self.nodes:
            node.stop()
        shutil.rmtree(self._scripts, ignore_errors=True)

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement as the administrator, at a node that serves."""
        return next(node for node in self.nodes if node.serves()).execute(sql)

    def new_database(self) -> str:
        """Make an empty database; gives its URL, which names all nodes."""
        self._databases += 1
        name = f"lcc{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database that :meth:`new_database` made."""
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]}")

    def url(self, name: str, *nodes: GaleraNode) -> str:
        """The URL of a database, with these nodes in this order; none: all."""
        servers = ",".join(f"{node.host.clients}:{node.port}" for node in nodes or self.nodes)
        return f"mysql://{USER}:{PASSWORD}@{servers}/{name}"


def galera_library() -> Path:
    """
    :raises MariaDbMissing: it is not installed.
    """
    for library in LIBRARIES:
        if library.exists():
            return library
    raise MariaDbMissing(
        "Galera's library is not installed; on Debian: apt-get install --no-install-recommends galera-4"
    )
