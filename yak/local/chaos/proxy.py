"""A fault proxy before one address: it passes, delays, holds or resets connections, by their source.

The source of a connection is read from /proc (the process that holds its other end). Brokers on one machine and one
address can therefore be partitioned from each other while clients still reach both. This needs Linux; elsewhere every
source is `CLIENTS`. As with TCP, held bytes are not lost: after `reconnect` the connection continues. Bytes of a reset
connection are lost.
"""

import contextlib
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from yak.local import ports

CLIENTS = "clients"
"""The source of every connection that belongs to no known process."""
_CHUNK_BYTES = 1 << 16
_SLOW_BYTES = 512
_RST_ON_CLOSE = struct.pack("ii", 1, 0)
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _ESTABLISHED = 4, 20, 1, 1
_NETLINK_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port id."""
_DIAG_REQUEST = struct.Struct("=BBBxI")
"""The front of struct inet_diag_req_v2: family, protocol, extensions, states. A struct inet_diag_sockid follows."""
_DIAG_ENDS = struct.Struct(">HH4s12x4s12x")
_DIAG_ANY_INTERFACE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
"""The end of struct inet_diag_sockid: no interface, no cookie."""
_INODE = struct.Struct("=I")
_INODE_AT = 68
"""In struct inet_diag_msg."""


class Flow:
    """One direction of a route."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.bytes_per_second = 0.0
        """0: unlimited."""
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        """Hold all bytes: nothing is lost or refused, the connection is silent."""
        self._open.clear()

    def release(self) -> None:
        """Pass all bytes again, held ones first."""
        self.delay_seconds = self.bytes_per_second = 0.0
        self._open.set()

    def pass_when_open(self) -> None:
        """Block while this direction is held, and for its delay."""
        self._open.wait()
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
            self._open.wait()

    def send(self, target: socket.socket, data: bytes) -> None:
        """Send bytes on, at this direction's rate."""
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
    """The traffic from one source to the proxy's target, and back."""

    to_target: Flow = field(default_factory=Flow)
    to_source: Flow = field(default_factory=Flow)
    resets: bool = False
    """New connections are reset as soon as they are made."""

    def reconnect(self) -> None:
        self.resets = False
        self.to_target.release()
        self.to_source.release()


class Proxy:
    """Listens at `address` and forwards connections to a local port that may change (`target_port`).

    `sources` gives the processes whose connections are distinguished: pid by name.
    """

    def __init__(self, sources: Callable[[], Mapping[str, int]], target_port: int = 0) -> None:
        self.target_port = target_port
        self.port = quiet_port()
        self._sources = sources
        self._routes: dict[str, Route] = {}
        self._connections: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Accept connections; does nothing when it already does."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Stop listening: the kernel refuses connections, as for a dead process. Existing connections stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
            listener.close()

    def close(self) -> None:
        self.refuse()
        for path in self._routes.values():
            path.reconnect()
        self.reset()

    # ----------------------------------------------------------------------------------------------------- faults

    def route(self, source: str) -> Route:
        """The route between this source and the target, to inject faults into."""
        with self._lock:
            return self._routes.setdefault(source, Route())

    def hold(self, *sources: str) -> None:
        """Hold both directions, as if a cable were pulled: the endpoints get no error."""
        for source in sources:
            self.route(source).to_target.hold()
            self.route(source).to_source.hold()

    def cut(self, *sources: str) -> None:
        """Reset connections, existing and new ones."""
        for source in sources:
            self.route(source).resets = True
        self.reset(*sources)

    def reset(self, *sources: str) -> None:
        """Reset the existing connections of these sources; of all when none is named."""
        with self._lock:
            found = [sock for sock, source in self._connections.items() if not sources or source in sources]
        for sock in found:
            _reset(sock)

    def reconnect(self) -> None:
        with self._lock:
            paths = list(self._routes.values())
        for path in paths:
            path.reconnect()

    # ----------------------------------------------------------------------------------------------- internal

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                source, peer = listener.accept()
            except OSError:
                return
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
    """Copy bytes until the source ends, and then end the target in the same way: by a FIN or by a reset."""
    try:
        while data := source.recv(_CHUNK_BYTES):
            flow.pass_when_open()
            flow.send(target, data)
        flow.pass_when_open()
        target.shutdown(socket.SHUT_WR)
    except OSError:
        flow.pass_when_open()
        _reset(source)
        _reset(target)


def _reset(sock: socket.socket) -> None:
    """End a connection with a RST; the descriptor stays valid until the threads that use it close it."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        # Connecting to AF_UNSPEC sends the RST without closing the descriptor, connect(2).
        _disconnect(sock)


def _disconnect(sock: socket.socket) -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).connect(sock.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def quiet_port() -> int:
    """A free port outside the kernel's ephemeral range, so that it stays free for a while."""
    return ports.find_lasting("127.0.0.1")


def name_of(local_port: int, remote_port: int, sources: Mapping[str, int]) -> str:
    """The name of the process at this end of a local connection; `CLIENTS` when it is none of `sources`.

    Both ports are needed: the kernel gives one local port to several connections with different destinations.
    """
    inode = _inode_of(local_port, remote_port) if sys.platform.startswith("linux") else None
    if inode is None:
        return CLIENTS
    wanted = f"socket:[{inode}]"
    for name, pid in sources.items():
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.readlink(f"{folder}/{entry}") == wanted:
                        return name
    return CLIENTS


def _inode_of(local_port: int, remote_port: int) -> int | None:
    """The inode of the established socket of 127.0.0.1 between these ports; None when the kernel does not say.

    It is found by sock_diag(7). /proc/net/tcp has a line for each connection of the last minute: after many
    reconnections, reading it took all of the processor.
    """
    address = socket.inet_aton("127.0.0.1")
    ends = _DIAG_ENDS.pack(local_port, remote_port, address, address) + _DIAG_ANY_INTERFACE
    request = _DIAG_REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + ends
    header = _NETLINK_HEADER.pack(_NETLINK_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
            kernel.send(header + request)
            answer = kernel.recv(_CHUNK_BYTES)
    except OSError:
        return None
    _, kind, *_ = _NETLINK_HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY or answer[_NETLINK_HEADER.size + 1] != _ESTABLISHED:
        return None
    return int(_INODE.unpack_from(answer, _NETLINK_HEADER.size + _INODE_AT)[0])
