"""A link with a delay between this machine and a network namespace of it: two TUN devices and a process between them.

`tc netem` does the same where the kernel has it; TUN devices are in nearly every kernel. Packets keep the kernel's
segmentation offload (IFF_VNET_HDR, TUNSETOFFLOAD): TCP has the segments of an Ethernet, and the process in between
moves up to 64 KB at once. Linux, as root, with iproute2.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

NEAR, FAR = "10.77.0.1", "10.77.0.2"
_TUN_SET_IFF, _TUN_SET_OFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_OFFLOAD = 0x01 | 0x02
"""TUN_F_CSUM, TUN_F_TSO4."""
_PACKET_BYTES_MAX = 65_600
_QUEUE_PACKETS = 10_000


class NoLink(Exception):
    """Why this machine has no such link."""


class Link:
    """The far end is the namespace; the near end is this machine, at `NEAR`. Packets pass once `set_round_trip` was called."""

    def __init__(self, namespace: str, descriptors: tuple[int, int]) -> None:
        self._namespace, self._descriptors = namespace, descriptors
        self._relay: subprocess.Popen[bytes] | None = None

    def set_round_trip(self, milliseconds: float) -> None:
        """How long a packet and its answer are under way."""
        self.cut()
        arguments = [*map(str, self._descriptors), str(milliseconds / 2)]
        self._relay = subprocess.Popen([sys.executable, __file__, *arguments], pass_fds=self._descriptors)

    def inside(self, *command: str) -> list[str]:
        """A command line that runs in the namespace, whose clients reach `NEAR` across the link."""
        return ["ip", "netns", "exec", self._namespace, *command]

    def cut(self) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()


@contextmanager
def delayed_link() -> Iterator[Link]:
    """A link, gone at the end. Raises NoLink."""
    namespace = f"yak-bench-{os.getpid()}"
    with ExitStack() as made:
        made.callback(subprocess.run, ["ip", "netns", "del", namespace], capture_output=True, check=False)
        _run("ip", "netns", "add", namespace)
        near, far = _tun("yaknear"), _tun("yakfar")
        made.callback(os.close, near)
        made.callback(os.close, far)
        _run("ip", "link", "set", "yakfar", "netns", namespace)
        for device, address, prefix in (("yaknear", NEAR, ()), ("yakfar", FAR, ("-n", namespace))):
            _run("ip", *prefix, "addr", "add", f"{address}/24", "dev", device)
            _run("ip", *prefix, "link", "set", device, "txqueuelen", str(_QUEUE_PACKETS), "up")
        link = Link(namespace, (near, far))
        made.callback(link.cut)
        yield link


def _run(*command: str) -> None:
    """Raises NoLink with what the command printed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoLink(str(error)) from None
    if done.returncode:
        raise NoLink(f"{' '.join(command)}: {done.stderr.strip()}")


def _tun(name: str) -> int:
    """A new device's descriptor. Raises NoLink."""
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        raise NoLink(f"/dev/net/tun: {error.strerror}") from None
    fcntl.ioctl(descriptor, _TUN_SET_IFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR))
    fcntl.ioctl(descriptor, _TUN_SET_OFFLOAD, _OFFLOAD)
    return descriptor


class _Direction:
    """What one device sends, which the other one gets `delay_s` later."""

    def __init__(self, source: int, target: int, delay_s: float) -> None:
        self.source, self._target, self._delay_s = source, target, delay_s
        self._waiting: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        try:
            while True:
                packet = os.read(self.source, _PACKET_BYTES_MAX)
                self._waiting.append((time.monotonic() + self._delay_s, packet))
        except BlockingIOError:
            return

    def deliver(self) -> float | None:
        """Write what is due; seconds until the next packet is, None without one."""
        while self._waiting:
            if (left_s := self._waiting[0][0] - time.monotonic()) > 0:
                return left_s
            os.write(self._target, self._waiting.popleft()[1])
        return None


def relay(near: int, far: int, delay_s: float) -> None:
    directions = (_Direction(near, far, delay_s), _Direction(far, near, delay_s))
    poll = select.poll()
    for each in directions:
        poll.register(each.source, select.POLLIN)
    while True:
        waits = [left_s for each in directions if (left_s := each.deliver()) is not None]
        # poll() counts in milliseconds: the last one is waited for without it
        poll.poll(int(min(waits) * 1000) if waits else None)
        for each in directions:
            each.take()


if __name__ == "__main__":
    relay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000)
