"""Hash chain tail: the hashes of a broker's newest records, to compare its history with another broker's."""

from collections.abc import Iterable

from yak.ids import MetadataOffset
from yak.ports.metadata_store import TailedRecord

TAIL_RECORDS = 4_096
"""A broker that is further behind cannot be compared, and counts as forked."""
_HASH_BYTES = 8


class HashChainTail:
    """The hashes by offset, shortened to 64 bits; without gaps."""

    __slots__ = ("_hashes", "first")

    def __init__(self, first: MetadataOffset = 0, hashes: bytes = b"") -> None:
        self.first = first
        self._hashes = bytearray(hashes)

    def extend(self, records: Iterable[TailedRecord]) -> None:
        """Append records in order; a gap clears the tail."""
        for record in records:
            if record.offset != self.first + len(self._hashes) // _HASH_BYTES:
                self.first = record.offset
                self._hashes.clear()
            self._hashes += _short(record.chain_hash)
        surplus = len(self._hashes) - 2 * TAIL_RECORDS * _HASH_BYTES
        if surplus > 0:
            # Half of it is dropped at once, so that a record costs no copy of the rest.
            cut = surplus + TAIL_RECORDS * _HASH_BYTES
            del self._hashes[:cut]
            self.first += cut // _HASH_BYTES

    def holds(self, offset: MetadataOffset, chain_hash: str) -> bool | None:
        """Whether the record at that offset has this hash; None when the tail no longer has it."""
        start = (offset - self.first) * _HASH_BYTES
        if start < 0 or start >= len(self._hashes):
            return None
        return self._hashes[start : start + _HASH_BYTES] == _short(chain_hash)

    def to_text(self) -> str:
        """`<first offset>:<hashes in hex>`."""
        return f"{self.first}:{self._hashes.hex()}"

    @classmethod
    def from_text(cls, text: str) -> "HashChainTail":
        """The reverse of `to_text`. Raises ValueError."""
        first, _, hashes = text.partition(":")
        return cls(int(first), bytes.fromhex(hashes))


def _short(chain_hash: str) -> bytes:
    """The first bytes of a SHA-1 in hex, or of other text (the head of a restored history has an id instead)."""
    try:
        return bytes.fromhex(chain_hash[: 2 * _HASH_BYTES]).ljust(_HASH_BYTES, b"\0")
    except ValueError:
        return chain_hash.encode()[:_HASH_BYTES].ljust(_HASH_BYTES, b"\0")
