"""Requests that are almost right: a valid message of any served API, built from kio's schema, with a few mutations."""

import datetime as dt
import io
import struct
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from kio.serial import entity_writer

from yak.broker import apis
from yak.protocol.schema_fields import SchemaField, schema_fields
from yak.sim.wire import record_batch, request_class

TOPICS = ("fuzz", "fuzz-2", "absent", "", "..", "x" * 249, "__yak", "fuzz\0")
SERVED = sorted((key, version) for key, version in apis.DISPATCH if not (key == 0 and version < 3))
_INTS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_EDGES = (-2, -1, 0, 1, 2, 5, 100)
SHRINK_SECONDS = 20
RELAXED = settings(
    max_examples=10_000_000,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
_EPOCH = dt.datetime(2023, 1, 1, tzinfo=dt.UTC)


def _number(kind: str) -> SearchStrategy[int]:
    bits = _INTS.get(kind) or _UNSIGNED[kind]
    low = -(2**bits) if kind in _INTS else 0
    edges = [value for value in (*_EDGES, 2**bits - 1, low) if low <= value < 2**bits]
    return st.sampled_from(edges) | st.integers(low, 2**bits - 1)


def _records() -> SearchStrategy[bytes | None]:
    valid = st.builds(
        record_batch,
        st.lists(st.binary(max_size=20), min_size=1, max_size=4),
        st.just(1_700_000_000_000),
        producer_id=st.sampled_from([-1, 1, 2]),
        epoch=st.sampled_from([-1, 0, 1]),
        sequence=st.sampled_from([-1, 0, 1, 2**31 - 1]),
    )
    return valid | st.binary(max_size=80) | st.none()


@cache
def _plain(kind: str, name: str) -> SearchStrategy[Any]:
    if kind in _INTS or kind in _UNSIGNED:
        return _number(kind)
    if kind == "error_code":
        return st.just(0)
    if kind == "bool":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False)
    if kind in ("timedelta_i32", "timedelta_i64"):
        # never long: a fetch that waits for minutes is valid, and holds up the test
        return st.integers(0, 50).map(lambda ms: dt.timedelta(milliseconds=ms))
    if kind == "datetime_i64":
        return st.just(_EPOCH)
    if kind == "uuid":
        return st.none() | st.just(uuid.UUID(int=7)) | st.uuids()
    if kind == "string":
        return st.sampled_from(TOPICS) | st.text(max_size=12)
    if kind == "records" or name == "records":
        return _records()
    assert kind == "bytes", kind
    return st.binary(max_size=60)


def _value(field: SchemaField) -> SearchStrategy[Any]:
    if field.struct is not None:
        one: SearchStrategy[Any] = _struct(field.struct)
    else:
        one = _plain(field.kind, field.name)
    if field.is_array:
        one = st.lists(one.filter(lambda value: value is not None) if field.kind != "uuid" else one, max_size=3).map(
            tuple
        )
    elif not field.nullable and field.kind in ("records", "bytes"):
        one = one.filter(lambda value: value is not None)
    return one | st.none() if field.nullable else one


@cache
def _struct(entity: Any) -> SearchStrategy[Any]:
    values = {field.name: _value(field) for field in schema_fields(entity)}
    return st.fixed_dictionaries(values).map(lambda fields: entity(**fields))


@st.composite
def valid_requests(draw: st.DrawFn, keys: frozenset[int] | None = None) -> bytes:
    """The frame of a request that some client could send (without its length), of all APIs or of these."""
    key, version = draw(st.sampled_from([each for each in SERVED if keys is None or each[0] in keys]))
    entity = request_class(key, version)
    body = io.BytesIO()
    try:
        entity_writer(entity)(body, draw(_struct(entity)))
    except (ValueError, TypeError, OverflowError, struct.error):
        # kio itself refuses some values, such as a null in an old version
        body = io.BytesIO()
    name = draw(st.sampled_from([b"fuzz"] * 15 + [b"", b"\xff", b"a\nb"]))
    head = struct.pack(">hhih", key, version, draw(st.integers(0, 2**31 - 1)), len(name)) + name
    return head + (b"\0" if entity.__flexible__ else b"") + body.getvalue()


HEADER_BYTES = 14
"""API key, version, correlation id, and the client id that most requests here have."""

Mutation = tuple[str, float, int]


def mutate(frame: bytes, mutation: Mutation) -> bytes:
    """One of: flip a byte, cut the end, insert bytes, take bytes out, put a length or count field in."""
    kind, where, what = mutation
    first = 0 if what % 16 == 5 else min(len(frame), HEADER_BYTES)  # few in the header: they end all at once
    at = first + int(where * (len(frame) - first))
    if kind == "flip":
        return frame[:at] + bytes([frame[at] ^ (what & 0xFF or 1)]) + frame[at + 1 :] if at < len(frame) else frame
    if kind == "low bit":
        return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :] if at < len(frame) else frame
    if kind == "cut":
        return frame[:at]
    if kind == "insert":
        return frame[:at] + what.to_bytes(8, "big", signed=True)[: 1 + what % 8] + frame[at:]
    if kind == "drop":
        return frame[:at] + frame[at + 1 + what % 5 :]
    field = struct.pack(">i", max(-(2**31), min(2**31 - 1, what)))
    return frame[:at] + field + frame[at + 4 :]


def mutations() -> SearchStrategy[list[Mutation]]:
    """One to three of them."""
    one = st.tuples(
        st.sampled_from(["flip"] * 6 + ["low bit"] * 4 + ["cut", "insert", "drop", "length"]),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([-1, -2, 0, 1, 127, 255, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1),
    )
    return st.lists(one, min_size=1, max_size=3)


def mutated_requests(keys: frozenset[int] | None = None) -> SearchStrategy[bytes]:
    """A valid request with one to three mutations, of all APIs or of these."""

    def apply(frame: bytes, todo: list[Mutation]) -> bytes:
        for mutation in todo:
            frame = mutate(frame, mutation)
        return frame

    return st.builds(apply, valid_requests(keys), mutations())


FRAMES_MIN = 60
"""Given on a busy machine too, whatever time they take."""


def fuzz(seconds: float, frames: st.SearchStrategy[bytes], attempt: Callable[[bytes], None]) -> int:
    """Give `attempt` frames until the time is up, and some at least; returns how many. The smallest frame that fails is shown."""
    tried = 0
    failures: list[tuple[bytes, Exception]] = []
    deadline = time.monotonic() + seconds

    @RELAXED
    @given(frames)
    def run(frame: bytes) -> None:
        nonlocal tried
        if tried >= FRAMES_MIN and time.monotonic() > deadline + (SHRINK_SECONDS if failures else 0):
            raise KeyboardInterrupt  # what hypothesis lets through
        tried += 1
        try:
            attempt(frame)
        except Exception as error:
            failures.append((frame, error))
            raise

    try:
        run()
    except KeyboardInterrupt:
        if time.monotonic() < deadline:
            raise
    except Exception:
        assert failures
    if failures:
        frame, error = min(failures, key=lambda failure: len(failure[0]))
        raise AssertionError(f"fails on the frame {frame.hex()}") from error
    print(f"{tried} frames")
    return tried
