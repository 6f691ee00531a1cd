"""A broker's metadata side without a broker: membership, image and image log against the store in memory."""

import uuid
from collections import deque

import pytest

from yak.cluster.image import Image
from yak.cluster.membership import Identity, Membership, MembershipSettings
from yak.cluster.outputs import BecameReady, Call, ChangeDone, Left, Output, Refuse, Say, Tail
from yak.seams.metadata_store import StoreRequest, TailedRecord
from yak.sim.store import SimStore


class CountingDice:
    """Ids in order; no luck in tests."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def uuid4(self) -> uuid.UUID:
        self._next += 1
        return uuid.UUID(int=self._next << 64 | 0x4000_8000_0000_0000_0000)

    def below(self, limit: int) -> int:
        return 0


class Driver:
    """Drives one membership as the broker core does; calls are answered when `run` is called."""

    def __init__(self, store: SimStore, identity: Identity, image: Image | None = None, **settings) -> None:
        self.store = store
        self.image = image or Image()
        self.now_ms = 1_000_000
        self._nonce = 0
        self.member = Membership(
            identity,
            self.image,
            next_nonce=self._next_nonce,
            dice=CountingDice(identity.node_id * 1000),
            settings=MembershipSettings(**settings),
        )
        self.calls: deque[Call] = deque()
        self.scripts: list[str] = []
        self.said: list[Say] = []
        self.done: dict[int, ChangeDone] = {}
        self.ready = 0
        self.refused: Refuse | None = None
        self.left = False
        self.tail_after: int | None = None
        self.persisted: list[TailedRecord] = []
        self.connected = False

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Call():
                    self.calls.append(output)
                case Tail(after):
                    self.tail_after = after
                case Say():
                    self.said.append(output)
                case BecameReady():
                    self.ready += 1
                case Refuse():
                    self.refused = output
                case ChangeDone(change_id):
                    self.done[change_id] = output
                case Left():
                    self.left = True

    def connect(self, unsafe: tuple[str, ...] = ()) -> "Driver":
        self.connected = True
        self.take(self.member.on_connected(self.store.process_id, unsafe, self.now_ms))
        return self

    def lose(self, reason: str = "connection reset") -> None:
        self.connected = False
        self.calls.clear()
        self.tail_after = None
        self.take(self.member.on_lost(reason, self.now_ms))

    def answer_one(self) -> None:
        call = self.calls.popleft()
        self.scripts.append(call.request.script)
        outcome = self.store.call(call.request, self.now_ms)
        self.take(self.member.on_replied(call.nonce, outcome, self.now_ms))

    def pump_tail(self) -> bool:
        if self.tail_after is None:
            return False
        records = self.store.records_after(self.tail_after)
        if not records:
            return False
        self.tail_after = records[-1].offset
        good, outputs = self.member.admit(records, self.now_ms)
        self.take(outputs)
        if good:
            self.persisted += good
            self.image, _delta = self.image.apply_all(good)
            self.take(self.member.on_image(self.image, self.now_ms))
        return True

    def run(self) -> "Driver":
        """Answer and tail until nothing is under way."""
        for _ in range(10_000):
            if self.connected and self.calls:
                self.answer_one()
            elif not (self.connected and self.pump_tail()):
                return self
        raise AssertionError("the membership does not come to rest")

    def pass_time(self, ms: int) -> "Driver":
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + ms
        while (due_ms := self.member.next_due()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.take(self.member.on_time(self.now_ms))
            self.run()
        self.now_ms = end_ms
        return self.run()

    def begin(self, requests: list[StoreRequest]) -> int:
        change_id, outputs = self.member.begin(requests, self.now_ms)
        self.take(outputs)
        return change_id

    def change(self, requests: list[StoreRequest]) -> ChangeDone:
        change_id = self.begin(requests)
        self.run()
        return self.done[change_id]


def identity(node_id: int = 1, boot: str = "boot-1", directory: str = "", **more) -> Identity:
    return Identity(node_id, boot, (directory or f"dir-{node_id}",), "127.0.0.1", 9092 + node_id, **more)


@pytest.fixture
def store() -> SimStore:
    return SimStore()


@pytest.fixture
def make_driver():
    return Driver


@pytest.fixture
def make_identity():
    return identity
