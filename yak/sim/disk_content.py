"""A file's bytes in the page cache and on the device, and the outcome of a power loss.

The device has the bytes of the last sync. Of later writes it may have all, none, a prefix, or single sectors. Missing
sectors hold zeros, or the bytes from before a truncation. An unsynced truncation may be undone. Damage keeps the right
bytes, for the checks and for repairs.
"""

from __future__ import annotations

from yak.ports.random_source import RandomSource

SECTORS = (64, 512, 4096)
"""The unit of a device write: a cache line of persistent memory, a sector, a page."""


class Content:
    """`synced` bytes are on the device; `cut` holds truncated bytes that the device keeps until the next sync."""

    __slots__ = ("cut", "data", "is_broken", "modified_ms", "synced", "wounds")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0
        self.cut = b""
        self.is_broken = False
        """A sync failed: the page cache marks the bytes clean, and no later sync writes them to the device."""
        self.modified_ms = 0
        """When it was last written or truncated."""
        self.wounds: list[tuple[int, bytes]] = []
        """(position, right bytes), in the order of the damage."""

    def truncate(self, size: int) -> None:
        """Truncate the page cache; the next sync truncates the device."""
        if size < self.synced:
            self.cut = bytes(self.data[size : self.synced]) + self.cut
            self.synced = size
        del self.data[size:]
        self._forget_wounds(size)

    def damage(self, position: int, wrong: bytes) -> bool:
        """Replace bytes by wrong ones, as far as the file reaches. Returns whether they differ."""
        right = bytes(self.data[position : position + len(wrong)])
        wrong = wrong[: len(right)]
        if right == wrong:
            return False
        self.wounds.append((position, right))
        self.data[position : position + len(wrong)] = wrong
        return True

    def sound(self) -> bytearray:
        """The bytes without damage."""
        if not self.wounds:
            return self.data
        data = self.data[:]
        for position, right in reversed(self.wounds):
            data[position : position + len(right)] = right
        return data

    def _forget_wounds(self, size: int) -> None:
        self.wounds = [(position, right[: size - position]) for position, right in self.wounds if position < size]

    def sync(self) -> None:
        """Write everything to the device."""
        if not self.is_broken:
            self.synced = len(self.data)
            self.cut = b""

    def lose_power(self, rng: RandomSource) -> str:
        """Keep only the device's bytes. Returns the kind of tear, empty if there was nothing to lose."""
        self._forget_wounds(self.synced)
        tail = len(self.data) - self.synced
        if not tail and not self.cut:
            return ""
        kind = ("whole", "nothing", "prefix", "holes")[rng.below(4)]
        if kind == "nothing":
            self.data[self.synced :] = self.cut if rng.below(2) else b""
        elif kind == "prefix":
            del self.data[self.synced + rng.below(tail + 1) :]
        elif kind == "holes":
            self._tear(rng)
        self.cut = b""
        self.synced = len(self.data)
        return kind

    def _tear(self, rng: RandomSource) -> None:
        """Each sector of the unsynced tail reached the device or not; the file may also end anywhere in the tail."""
        sector, begin, end = SECTORS[rng.below(len(SECTORS))], self.synced, len(self.data)
        old = self.cut + bytes(max(0, end - begin - len(self.cut)))
        position = begin
        while position < end:
            following = min(end, (position // sector + 1) * sector)
            fate = rng.below(3)
            if fate == 1:
                self.data[position:following] = bytes(following - position)
            elif fate == 2:
                self.data[position:following] = old[position - begin : following - begin]
            position = following
        if rng.below(2):
            del self.data[begin + rng.below(end - begin + 1) :]
