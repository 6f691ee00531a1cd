"""Notes become events, in order; what is too much while nobody listens is a gap."""

from types import SimpleNamespace

import trio

from yak.cluster.image import Delta, Image
from yak.core.events import Notice
from yak.server.http.events.event_queue import NOTES_MAX, NOTES_UNHEARD_MAX, Gathering
from yak.server.http.events.ring import EventRing, Wish


def gathering_of(events_max=10_000):
    woken = []
    ring = EventRing("1-abc", events_max)
    broker = SimpleNamespace(now_ms=5, wall_ms=7_200_005, node_id=1)
    return ring, Gathering(broker, ring, lambda: woken.append(True)), woken


def controller(number):
    before = Image(controller_id=1, controller_epoch=number)
    return before, Image(controller_id=2, controller_epoch=number + 1), Delta(controller_changed=True)


def empty(group):
    return Notice("info", "group-empty", {"group": group, "generation": 1})


def all_of(ring):
    return ring.collect(ring.first, ring.next, Wish(), 1 << 30)[0].decode()


def test_notes_are_told_in_the_order_in_which_they_were_taken():
    ring, gathering, woken = gathering_of()
    gathering.is_heard = True
    gathering.note_notice(empty("g1"))
    gathering.note_image(*controller(1))
    gathering.note_notice(Notice("info", "segments-removed", {"partition": "a-0"}))
    gathering.note_notice(empty("g2"))
    assert len(woken) == 3
    trio.run(gathering.digest)
    kinds = [line for line in all_of(ring).splitlines() if line.startswith("event: ")]
    assert kinds == ["event: group-empty", "event: controller-changed", "event: group-empty"]
    assert '"time_ms":7200005,"node_id":1,"message":"group g1 has no members"' in all_of(ring)


def test_while_nobody_listens_little_is_kept_and_the_loss_is_a_gap():
    ring, gathering, woken = gathering_of()
    gathering.is_heard = True
    gathering.note_notice(empty("known"))
    trio.run(gathering.digest)
    gathering.is_heard = False
    for number in range(NOTES_UNHEARD_MAX):
        gathering.note_image(*controller(number))
    assert len(woken) == 1
    trio.run(gathering.digest)
    assert ring.after("1-abc:1") == 2, "nothing was lost yet"
    for number in range(NOTES_UNHEARD_MAX + 1):
        gathering.note_image(*controller(number))
    cursor = ring.event_id(ring.next - 1)
    trio.run(gathering.digest)
    assert ring.after(cursor) is None
    assert ring.next - ring.first == NOTES_UNHEARD_MAX


def test_notes_have_a_bound_while_somebody_listens_too():
    ring, gathering, _woken = gathering_of()
    gathering.is_heard = True
    for _ in range(NOTES_MAX + 10):
        gathering.note_notice(empty("g"))
    trio.run(gathering.digest)
    assert ring.next - ring.first == NOTES_MAX


def test_others_have_the_loop_while_many_events_are_made():
    _ring, gathering, _woken = gathering_of()
    gathering.is_heard = True
    for _ in range(1000):
        gathering.note_notice(empty("g"))
    passes = []

    async def other(scope: trio.CancelScope) -> None:
        with scope:
            while True:
                passes.append(True)
                await trio.lowlevel.checkpoint()

    async def main() -> None:
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other, scope)
            await gathering.digest()
            scope.cancel()

    trio.run(main)
    assert len(passes) > 10
