"""Frames as they go over a connection: four bytes that say how long, and what they hold."""

import struct


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
