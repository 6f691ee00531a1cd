"""The send queue of one raw non-blocking socket: parts, gathered into as few sends as possible."""

import contextlib
import errno
import fcntl
import socket
import sys
import termios
from abc import ABC, abstractmethod
from typing import Final, cast

from yak.limits import NEAR_SEND_BUFFER_BYTES, UNSENT_IN_KERNEL_BYTES
from yak.ports.disk import Buffer, Part
from yak.server.descriptors import IOV_MAX
from yak.server.file_slices import PooledSlice

_JOIN_BELOW_BYTES: Final = 16 * 1024
"""Fewer bytes are sent as one joined buffer: cheaper than a gather list of hundreds of parts."""
_TCP_INFO_RTT_AT: Final = 68
_MORE: Final = getattr(socket, "MSG_MORE", 0)
"""More data follows at once: do not send a packet for the few bytes before a slice."""


class SendQueue(ABC):
    """The sending side of a connection; at the end of a turn the shell flushes those with queued parts.

    It is a base class, not a field of the connection: the shell queues a reply for every request, and one attribute
    access less is measurable.
    """

    __slots__ = ("is_paced", "outgoing", "slice_bytes", "sock", "unsent_bytes")

    def __init__(self, sock: socket.socket | None) -> None:
        self.sock = cast("socket.socket", sock)
        """None until the socket exists; nothing is sent before."""
        self.outgoing: list[Part] = []
        self.unsent_bytes = 0
        self.slice_bytes = 0
        """Those of the unsent bytes that are in files, and take no memory here."""
        self.is_paced = False
        """Whether the kernel takes slices in small portions."""

    @abstractmethod
    def flush(self) -> None:
        """Send queued parts as far as the socket takes them; the selector sends the rest. Raises nothing."""

    def queue(self, parts: list[Part]) -> None:
        """Append parts to the queue."""
        self.outgoing += parts
        for part in parts:
            size_bytes = len(part)
            self.unsent_bytes += size_bytes
            if type(part) is PooledSlice:
                self.slice_bytes += size_bytes

    def send(self) -> int:
        """Send until the queue is empty or the socket is full. Returns the number of sends. Raises OSError."""
        outgoing = self.outgoing
        sends = 0
        while outgoing:
            try:
                sent = self._send_small() if self.unsent_bytes <= _JOIN_BELOW_BYTES else self._send_large()
            except BlockingIOError:
                break
            sends += 1
            self.unsent_bytes -= sent
            if not self.unsent_bytes:
                outgoing.clear()
            elif not sent:
                raise OSError(errno.EIO, "the queue has fewer bytes than it counts")  # else this would never end
        return sends

    def _send_small(self) -> int:
        """Send the queue as one buffer; with so few bytes it holds no slice, or only the end of one."""
        outgoing = self.outgoing
        if len(outgoing) > 1 or type(outgoing[0]) is PooledSlice:
            outgoing[:] = [b"".join(map(bytes, outgoing))]
            self.slice_bytes = 0
        first = cast("Buffer", outgoing[0])
        sent = self.sock.send(first)
        if sent < len(first):
            outgoing[0] = memoryview(first)[sent:]
        return sent

    def _send_large(self) -> int:
        """Send the first slice, or all buffers before the next slice."""
        outgoing = self.outgoing
        first = outgoing[0]
        if type(first) is PooledSlice:
            return self._send_slice(first)
        count = 1
        while count < len(outgoing) and count < IOV_MAX and type(outgoing[count]) is not PooledSlice:
            count += 1
        buffers = cast("list[Buffer]", outgoing[:count])
        follows_slice = count < len(outgoing) and type(outgoing[count]) is PooledSlice
        sent = self.sock.sendmsg(buffers, [], _MORE if follows_slice else 0)
        _drop_front(outgoing, sent)
        return sent

    def _send_slice(self, part: PooledSlice) -> int:
        """Let the kernel send from a file, some tens of KB ahead of what the network takes."""
        sock = self.sock
        if not self.is_paced:
            self.is_paced = True
            if sys.platform == "linux":
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_IN_KERNEL_BYTES)
                if round_trip_ms(sock) == 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NEAR_SEND_BUFFER_BYTES)
        sent = part.send(sock.fileno())
        self.slice_bytes -= sent
        if not part:
            del self.outgoing[0]
        else:
            # `sendfile` holds back an incomplete last packet in expectation of more, and the kernel asks for more only
            # once that packet is sent. To set this option sends it (tcp(7)).
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sent


def _drop_front(outgoing: list[Part], sent: int) -> None:
    """Remove the first `sent` bytes, which are all in buffers, from the queue."""
    index = 0
    while index < len(outgoing) and sent >= len(outgoing[index]):  # also empty parts, with which no send goes on
        sent -= len(outgoing[index])
        index += 1
    del outgoing[:index]
    if sent:
        outgoing[0] = memoryview(cast("Buffer", outgoing[0]))[sent:]


def round_trip_ms(sock: socket.socket) -> int:
    """The round trip measured by the kernel (tcpi_rtt in us), in ms; 0 when unknown."""
    return int.from_bytes(tcp_info(sock, _TCP_INFO_RTT_AT + 4)[_TCP_INFO_RTT_AT:], sys.byteorder) // 1000


def tcp_info(sock: socket.socket, size: int) -> bytes:
    """The first bytes of Linux's struct tcp_info; none where the system does not say."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size)
    return b""


def unread_bytes(sock: socket.socket) -> int:
    """The received bytes that the kernel still has. Raises OSError."""
    return int.from_bytes(fcntl.ioctl(sock, termios.FIONREAD, bytes(4)), sys.byteorder)
