"""A network between two hosts that loses, delays and reorders packets: a program.

``ether.py PID-A ADDRESS-A PID-B ADDRESS-B SEED``: the processes hold the network namespaces of the two hosts.  Each
gets a device ``lcc0`` (TUN) with its address in 10.77.0.0/24; what is sent to one comes out of the other, as each
line of JSON on the standard input says from then on:

* ``delay_ms``: how long a packet travels, one way;
* ``jitter_ms``: up to so much longer, at random: packets overtake each other;
* ``loss``: of so many none arrives, 0.01 for one of a hundred;
* ``parted``: ``"both"``: nothing arrives; ``"a"``, ``"b"``: nothing that this host sends.

The kernel has the same as ``tc netem``, but not every kernel has that.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
PACKET_BYTES_MAX = 65536
DEVICE = "lcc0"
_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int) -> None:
    """Go on in the network of this process."""
    with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
        if _libc.setns(namespace.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def device(pid: int, address: str) -> int:
    """A device in the network of this process; a packet is what one read or write has."""
    enter(pid)
    opened = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for command in (f"addr add {address}/24 dev {DEVICE}", f"link set {DEVICE} up", "link set lo up"):
        subprocess.run(["ip", *command.split()], check=True)
    return opened


def main() -> None:
    """Carry packets until the standard input ends."""
    pid_a, address_a, pid_b, address_b, seed = sys.argv[1:]
    ends = [device(int(pid_a), address_a), device(int(pid_b), address_b)]
    chance = random.Random(seed)
    weather = {"delay_ms": 0.0, "jitter_ms": 0.0, "loss": 0.0, "parted": ""}
    counts = {"carried": 0, "lost": 0}
    travelling: list[tuple[float, int, int, bytes]] = []
    print("up", flush=True)
    while True:
        wait = max(0.0, travelling[0][0] - time.monotonic()) if travelling else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], wait)
        now = time.monotonic()
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            weather.update(json.loads(line))
            print(json.dumps(counts), flush=True)
        for sender in (0, 1):
            if ends[sender] not in ready:
                continue
            for _ in range(100):
                try:
                    packet = os.read(ends[sender], PACKET_BYTES_MAX)
                except BlockingIOError:
                    break
                if weather["parted"] in ("both", "ab"[sender]) or chance.random() < weather["loss"]:
                    counts["lost"] += 1
                    continue
                counts["carried"] += 1
                seconds = (weather["delay_ms"] + chance.random() * weather["jitter_ms"]) / 1000
                heapq.heappush(travelling, (now + seconds, counts["carried"], 1 - sender, packet))
        while travelling and travelling[0][0] <= time.monotonic():
            *_, receiver, packet = heapq.heappop(travelling)
            try:
                os.write(ends[receiver], packet)
            except BlockingIOError:
                counts["lost"] += 1


if __name__ == "__main__":
    main()
