"""A fault proxy for connections: it stands before one address and lets, delays, holds or resets what comes, by who sends.

Who opened a connection is read from /proc (the process that holds its other end), so brokers that share one machine and
one address can be cut off from each other while clients still reach both. Only Linux has that; elsewhere all are `CLIENTS`.

What is held is kept, as TCP does it: after `heal` it goes on where it stopped. What is reset is lost.
"""

import contextlib
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from yak.local import ports

CLIENTS = "clients"
"""The source of every connection that is of no process we know."""
_CHUNK_BYTES = 1 << 16
_MARKER_BYTES_MAX = 64
_SLOW_BYTES = 512
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


class Flow:
    """One direction of what goes between two places."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.bytes_per_second = 0.0
        """0: as fast as it goes."""
        self.stopped = threading.Event()
        """What `hold_before` waited for came."""
        self._open = threading.Event()
        self._open.set()
        self._marker = b""
        self._left = 0

    def hold(self) -> None:
        """Let nothing through: not lost, not refused, silent."""
        self._open.clear()

    def release(self) -> None:
        """Let it through, and what was held first."""
        self.delay_seconds = self.bytes_per_second = 0.0
        self._marker = b""
        self._open.set()

    def hold_before(self, marker: bytes, count: int = 1) -> None:
        """Hold as soon as these bytes would pass for the `count`th time from now: what is before them still does."""
        self.stopped.clear()
        self._left = count
        self._marker = marker

    def stop_at(self, before: bytes, data: bytes) -> int | None:
        """How much of `data` passes before `hold_before` takes effect; None for all. `before` is what passed last."""
        marker, whole = self._marker, before + data
        if not marker:
            return None
        position = max(0, len(before) - len(marker) + 1)
        while (position := whole.find(marker, position)) >= 0:
            self._left -= 1
            if self._left == 0:
                self._marker = b""
                self.hold()
                self.stopped.set()
                return max(0, position - len(before))
            position += len(marker)
        return None

    def pass_when_open(self) -> None:
        """Wait as long as this direction makes one wait."""
        self._open.wait()
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
            self._open.wait()

    def send(self, target: socket.socket, data: bytes) -> None:
        """Hand bytes on, as slowly as this direction is."""
        if not self.bytes_per_second:
            target.sendall(data)
            return
        for start in range(0, len(data), _SLOW_BYTES):
            piece = data[start : start + _SLOW_BYTES]
            target.sendall(piece)
            if self.bytes_per_second:
                time.sleep(len(piece) / self.bytes_per_second)
            self._open.wait()


@dataclass
class Route:
    """What goes from one source to the proxy's target, and back."""

    to_target: Flow = field(default_factory=Flow)
    to_source: Flow = field(default_factory=Flow)
    resets: bool = False
    """New connections are reset as soon as they are made."""

    def heal(self) -> None:
        """Let everything through, both ways."""
        self.resets = False
        self.to_target.release()
        self.to_source.release()


class Proxy:
    """Listens at `address` and hands connections on to a port of this machine that may change (`target_port`).

    `sources` names the processes whose connections are told apart: pid by name.
    """

    def __init__(self, sources: Callable[[], Mapping[str, int]], target_port: int = 0) -> None:
        self.target_port = target_port
        self.port = quiet_port()
        self.accepted = 0
        self._sources = sources
        self._routes: dict[str, Route] = {}
        self._connections: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Take connections; nothing changes when it does already."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Listen no more: the kernel refuses, as it does for a process that is gone. Connections that exist stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
            listener.close()

    def close(self) -> None:
        """Refuse, and reset everything."""
        self.refuse()
        for path in self._routes.values():
            path.heal()
        self.reset()

    # ------------------------------------------------------------------------------------------------- the faults

    def connected(self) -> list[str]:
        """Whose connections there are now."""
        with self._lock:
            return sorted(set(self._connections.values()))

    def route(self, source: str) -> Route:
        """What goes between this source and the target, to be made worse."""
        with self._lock:
            return self._routes.setdefault(source, Route())

    def hold(self, *sources: str) -> None:
        """A cable is pulled: nothing travels either way, and nobody is told."""
        for source in sources:
            self.route(source).to_target.hold()
            self.route(source).to_source.hold()

    def cut(self, *sources: str) -> None:
        """Connections are reset, those that exist and those that come."""
        for source in sources:
            self.route(source).resets = True
        self.reset(*sources)

    def reset(self, *sources: str) -> None:
        """Reset the connections of these sources that exist; of all when none is named."""
        with self._lock:
            found = [sock for sock, source in self._connections.items() if not sources or source in sources]
        for sock in found:
            _reset(sock)

    def heal(self) -> None:
        """Let everything through again."""
        with self._lock:
            paths = list(self._routes.values())
        for path in paths:
            path.heal()

    # ------------------------------------------------------------------------------------------------- inside

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                source, peer = listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(source, peer[1]), daemon=True).start()

    def _serve(self, source: socket.socket, peer_port: int) -> None:
        name = name_of(peer_port, self.port, self._sources())
        path = self.route(name)
        if path.resets:
            _reset(source)
            return
        path.to_target.pass_when_open()
        try:
            target = socket.create_connection(("127.0.0.1", self.target_port), timeout=10.0)
        except OSError:
            _reset(source)
            return
        target.settimeout(None)
        pair = (source, target)
        with self._lock:
            self._connections |= dict.fromkeys(pair, name)
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(target, source, path.to_source), daemon=True)
        back.start()
        _pump(source, target, path.to_target)
        back.join()
        with self._lock:
            for sock in pair:
                del self._connections[sock]
        for sock in pair:
            sock.close()


def _pump(source: socket.socket, target: socket.socket, flow: Flow) -> None:
    """Carry bytes until the source ends, and then end the target in the same way: by a FIN or by a reset."""
    try:
        before = b""
        while data := source.recv(_CHUNK_BYTES):
            flow.pass_when_open()
            stop = flow.stop_at(before, data)
            if stop is not None:
                flow.send(target, data[:stop])
                data = data[stop:]
                flow.pass_when_open()
            flow.send(target, data)
            before = data[-_MARKER_BYTES_MAX:]
        flow.pass_when_open()
        target.shutdown(socket.SHUT_WR)
    except OSError:
        flow.pass_when_open()
        _reset(source)
        _reset(target)


def _reset(sock: socket.socket) -> None:
    """End a connection with a RST; the descriptor stays valid for the threads that use it until they close it."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        # disconnecting is what sends the RST without closing: AF_UNSPEC, connect(2)
        _disconnect(sock)


def _disconnect(sock: socket.socket) -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).connect(sock.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def quiet_port() -> int:
    """A port that is free and that the kernel gives to nobody by itself, so that it is still free in a while."""
    return ports.find_lasting("127.0.0.1")


def name_of(local_port: int, remote_port: int, sources: Mapping[str, int]) -> str:
    """Whose process holds this end of a connection on this machine; `CLIENTS` when none of these does.

    Both ports are needed: the kernel gives one local port to several connections that lead to different places.
    """
    inode = _inode_of(local_port, remote_port) if sys.platform.startswith("linux") else None
    if inode is None:
        return CLIENTS
    wanted = f"socket:[{inode}]"
    for name, pid in sources.items():
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()) == wanted:
                        return name
    return CLIENTS


def _inode_of(local_port: int, remote_port: int) -> str | None:
    """The inode of the established socket of 127.0.0.1 between these ports (proc_net_tcp)."""
    ends = [f"0100007F:{port:04X}" for port in (local_port, remote_port)]
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            if fields[1:3] == ends and fields[3] == "01":
                return fields[9]
    return None
