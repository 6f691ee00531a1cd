"""A connected socket under TLS: `ssl.SSLObject` between two memory buffers, in the place of a plain socket.

It has those methods of a socket that connections use. A plain listener has no part in this: its connections keep the
kernel's socket, with its gathered sends and `sendfile`.
"""

import contextlib
import socket
import ssl
import struct
from typing import Final, cast

import trio

from yak.ports.disk import Buffer, Part
from yak.server.file_slices import PooledSlice
from yak.server.low_water import LowWater
from yak.server.send_queue import SendQueue

_RECEIVE_BYTES: Final = 256 * 1024
_SEAL_BYTES_MAX: Final = 128 * 1024
"""Bytes that are encrypted at once, and so the memory of a file's slice here."""
_SEND_BYTES_MAX: Final = 1024 * 1024
"""Encrypting this much takes about a millisecond; the rest of a reply waits for the next pass of the event loop."""
_HANDSHAKE: Final = 0x16
"""The content type of a client's first record (RFC 8446, section 5.1)."""
_HEAD_BYTES: Final = 16
_RECORD_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 16 * 1024
_RECORDS_MAX: Final = 32
"""Records that OpenSSL gets at once, and that may follow each other without data, as in BoringSSL (kMaxKeyUpdates). A key
update takes OpenSSL 70 us, and all that it has at once are one call: 9,000 of a read, 0.65 s."""
_UNSENT_OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Answers to key updates, of 27 bytes each, that wait for a client that does not read."""
_record_length: Final = struct.Struct(">3xH").unpack_from

_received: Final = bytearray(_RECEIVE_BYTES)
"""Of all TLS connections: its bytes move on to a connection's own buffer at once."""
_received_view: Final = memoryview(_received)


_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth=required",
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that ssl.enabled.protocols has",
    "NO_SHARED_CIPHER": "the client offers none of the cipher suites of this listener",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not know the authority of this certificate (unknown CA)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refuses this certificate (bad certificate)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer refuses this certificate (expired)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer refuses this certificate (certificate unknown)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer demands a certificate, and none was sent",
}


class NotTlsError(OSError):
    """The peer's first bytes, `head`, are no TLS."""

    def __init__(self, head: bytes) -> None:
        super().__init__("the peer does not speak TLS")
        self.head = head


class PeerClosedError(OSError):
    """The peer closed the connection during the handshake."""


class KeyUpdatesError(OSError):
    """The peer sent too many key updates, or other records without data."""


class TlsSocket:
    """Decrypts what it receives, and encrypts what `TlsSending` sends."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, host_name: str | None = None) -> None:
        """`host_name` is the name of the peer that this side connected to; None: this side accepted."""
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._is_server = host_name is None
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=self._is_server, server_hostname=host_name
        )
        self._has_received = self._is_ended = False
        self._unpassed = memoryview(b"")
        """Received bytes that OpenSSL does not have yet."""
        self._missing_bytes = 0
        """Those of the record whose first bytes OpenSSL has."""
        self._idle_records = 0
        """Records since the last data, less those that the data sent may have caused (`encrypt`)."""
        self.has_pending = True
        """The kernel does not know that there is more: the last receive filled its buffer or found the end behind its bytes,
        OpenSSL does not have all of them yet, or the handshake, before the first receive, has read more than its own."""
        self.sealed: Part | None = None
        """The encrypted part at the head of the send queue."""

    # ------------------------------------------------------------------------------------------------- the handshake

    async def handshake(self, turns: trio.Lock | None = None) -> None:
        """Shake hands, each step in one of these `turns`. Raises NotTlsError, PeerClosedError, ssl.SSLError, OSError."""
        is_done = False if self._is_server else self._handshake_step()
        while not is_done:
            while not self.send_output():
                await trio.lowlevel.wait_writable(self._sock)
            if not self._has_record:
                await trio.lowlevel.wait_readable(self._sock)
            async with turns or contextlib.nullcontext():
                with contextlib.suppress(BlockingIOError):
                    if not self._has_record and not self._receive():
                        raise PeerClosedError("the peer closed the connection during the handshake")
                    self._pass_records()
                    is_done = self._handshake_step()
        self._idle_records = 0
        while not self.send_output():
            await trio.lowlevel.wait_writable(self._sock)

    def _handshake_step(self) -> bool:
        """Go on with what was received; True if the handshake is done. Raises ssl.SSLError."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            self.send_output()  # the alert with the reason
            raise
        return True

    def send_output(self) -> bool:
        """Send what the handshake has to say; False if the socket did not take all of it. Raises OSError."""
        if self._outgoing.pending or self.sealed:
            data = bytes(self.sealed or b"") + self._outgoing.read()
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            self.sealed = data[sent:] or None
        return self.sealed is None

    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, if it presented one that was checked."""
        return self._ssl.getpeercert(binary_form=True)

    # ------------------------------------------------------------------------------------------------- receiving

    def recv_into(self, buffer: Buffer) -> int:
        """As socket.recv_into, for decrypted bytes: fills the buffer as far as `_RECORDS_MAX` records do.

        Raises KeyUpdatesError too. After BlockingIOError too there may be bytes that the kernel does not know of.
        """
        if self._outgoing.pending > _UNSENT_OUTPUT_BYTES_MAX:
            raise KeyUpdatesError(f"{self._outgoing.pending} bytes of answers to key updates are unsent")
        view = memoryview(buffer)
        size = len(view)
        self.has_pending = False
        total = self._decrypt(view, size)
        if not total and not self._is_ended and (self._has_record or self._receive()):
            self._pass_records()
            total = self._decrypt(view, size)
            if not total and not self._is_ended:
                if self._idle_records >= _RECORDS_MAX:
                    raise KeyUpdatesError(f"{self._idle_records} key updates in succession, or records without data")
                self.has_pending = self._has_record
                raise BlockingIOError
        self._idle_records = min(self._idle_records, 0)
        self.has_pending = total == size or self._has_record or self._is_ended
        return total

    def _decrypt(self, view: memoryview, size: int) -> int:
        read, total = self._ssl.read, 0
        try:
            while total < size:
                got = int(read(size - total, view[total:]))
                if not got:
                    self._is_ended = True
                    break
                total += got
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_ended = True  # Kafka's frames have their lengths, so an end without notice cuts none unseen
        return total

    def _receive(self) -> int:
        received = self._sock.recv_into(_received)
        if received and not self._has_received:
            self._has_received = True
            if self._is_server and _received[0] != _HANDSHAKE:
                raise NotTlsError(bytes(_received[: min(received, _HEAD_BYTES)]))
        data = _received_view[:received]
        self._unpassed = memoryview(b"".join((self._unpassed, data))) if self._unpassed else data
        return received

    @property
    def _has_record(self) -> bool:
        """Whether there are bytes for OpenSSL: more than the start of a record's header."""
        return len(self._unpassed) >= (1 if self._missing_bytes else _RECORD_HEADER_BYTES)

    @property
    def unread_bytes(self) -> int:
        """Received bytes that are not decrypted yet."""
        return len(self._unpassed) + self._incoming.pending

    def _pass_records(self) -> None:
        """Pass the next records to OpenSSL, and what there is of the last one."""
        received, end, records = self._unpassed, self._missing_bytes, 0
        while records < _RECORDS_MAX and end + _RECORD_HEADER_BYTES <= len(received):
            end += _RECORD_HEADER_BYTES + _record_length(received, end)[0]
            records += 1
        self._idle_records += records
        self._missing_bytes = max(0, end - len(received))
        self._incoming.write(received[:end])
        rest = received[end:]
        self._unpassed = memoryview(bytes(rest)) if rest.obj is _received else rest

    # ------------------------------------------------------------------------------------------------- sending

    @property
    def has_output(self) -> bool:
        """Whether the protocol itself has something to send, such as an answer to a key update."""
        return self._outgoing.pending > 0

    def encrypt(self, plain: Buffer) -> bytes:
        """The records with these bytes, behind those of the protocol itself."""
        rest = memoryview(plain)
        # the peer may update its keys after each record: Java's clients do with a low limit (jdk.tls.keyLimits)
        self._idle_records -= -(-len(rest) // _RECORD_BYTES_MAX)
        while rest:
            rest = rest[self._ssl.write(rest) :]
        return self._outgoing.read()

    def send_raw(self, data: Buffer) -> int:
        """Send encrypted bytes. Raises OSError."""
        return self._sock.send(data)

    # ------------------------------------------------------------------------------------------------- as a socket

    def fileno(self) -> int:
        """The socket's descriptor; -1 when it is closed."""
        return self._sock.fileno()

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """As socket.getsockopt."""
        return self._sock.getsockopt(level, option, size)

    def shutdown(self, how: int) -> None:
        """As socket.shutdown."""
        self._sock.shutdown(how)

    def end(self) -> bytes:
        """The alert that nothing more follows (close_notify)."""
        with contextlib.suppress(OSError, ValueError):
            self._ssl.unwrap()
        return self._outgoing.read()

    def close(self) -> None:
        """Send that alert, if the socket takes it, and close."""
        alert = self.end()
        if self.sealed is None and alert:
            with contextlib.suppress(OSError):
                self._sock.send(alert)
        self._sock.close()


class NoLowWater(LowWater):
    """No mark: encrypted bytes are more than those of the frame, and some of them are here already."""

    __slots__ = ()

    def mark(self, sock: socket.socket, missing_bytes: int) -> bool:  # noqa: ARG002 - as in the base class
        """Never wait."""
        return False


class TlsSending(SendQueue):
    """`SendQueue` for a `TlsSocket`: the head of the queue is encrypted, piece by piece, as the socket takes it."""

    __slots__ = ()

    def send(self) -> int:
        """As in the base class, but at most a mebibyte at once."""
        tls, outgoing = cast("TlsSocket", self.sock), self.outgoing
        sends = sent_bytes = 0
        while (outgoing or tls.has_output) and sent_bytes < _SEND_BYTES_MAX:
            if not outgoing or outgoing[0] is not tls.sealed:
                self._seal(tls)
                if not outgoing:
                    break
            head = cast("Buffer", outgoing[0])
            try:
                sent = tls.send_raw(head)
            except BlockingIOError:
                break
            sends += 1
            sent_bytes += sent
            self.unsent_bytes -= sent
            if sent < len(head):
                outgoing[0] = tls.sealed = memoryview(head)[sent:]
            else:
                del outgoing[0]
                tls.sealed = None
        return sends

    def _seal(self, tls: TlsSocket) -> None:
        """Encrypt the next bytes of the queue, and put them at its head."""
        plain = self._take()
        sealed = tls.encrypt(plain)
        self.unsent_bytes += len(sealed) - len(plain)
        if sealed:
            self.outgoing.insert(0, sealed)
            tls.sealed = sealed

    def _take(self) -> Buffer:
        """Remove up to `_SEAL_BYTES_MAX` from the head of the queue."""
        outgoing, room = self.outgoing, _SEAL_BYTES_MAX
        taken: list[Buffer] = []
        whole = 0
        for part in outgoing:
            size = len(part)
            if size > room:
                if type(part) is PooledSlice:
                    taken.append(self._read(part, room))
                elif room:
                    view = memoryview(cast("Buffer", part))
                    taken.append(view[:room])
                    outgoing[whole] = view[room:]
                break
            taken.append(self._read(part, size) if type(part) is PooledSlice else cast("Buffer", part))
            room -= size
            whole += 1
        del outgoing[:whole]
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _read(self, part: PooledSlice, size: int) -> bytes:
        self.slice_bytes -= size
        return part.take(size)


def explain(error: ssl.SSLError) -> str:
    """Why a handshake failed, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    reason = getattr(error, "reason", None) or str(error)
    return _REASONS.get(reason, reason.lower().replace("_", " "))
