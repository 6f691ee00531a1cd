"""The topics that a pattern may match, as the owner of a consumer instance may read them."""

import itertools
import uuid
from types import SimpleNamespace

import trio

from yak.server.http.authentication import Caller
from yak.server.http.consumers.instances import Instances

TOPICS = {f"topic-{number}": uuid.UUID(int=number + 1) for number in range(6_000)} | {
    "__consumer_offsets": uuid.UUID(int=99_999)
}


def instance_of(owner: Caller) -> SimpleNamespace:
    return SimpleNamespace(pattern="topic-.*", matched=None, owner=owner)


async def test_other_tasks_run_while_the_rights_on_many_topics_are_read():
    checked: list[str] = []

    def authorize(_principal, _host, _operation, _kind, name):
        checked.append(name)
        return not name.endswith("7")

    authorization = SimpleNamespace(is_active=True, authorize=authorize)
    broker = SimpleNamespace(image=SimpleNamespace(topics=TOPICS, acls={}), authorization=authorization)
    context = SimpleNamespace(broker=broker, limits=SimpleNamespace(consumers_max=1), at_stop=[])
    instances = Instances(context)
    seen: list[int] = []

    async def other(done: trio.Event) -> None:
        while not done.is_set():
            seen.append(len(checked))
            await trio.lowlevel.checkpoint()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other, done)
        found = await instances.matchable(instance_of(Caller("User:ann", peer="127.0.0.1:5000")))
        done.set()
    assert found.seen[0] is TOPICS
    assert found.names == [name for name in TOPICS if name.startswith("topic-") and not name.endswith("7")]
    await instances.matchable(instance_of(Caller("User:ann", peer="127.0.0.1:5000")))
    assert len(checked) == 6_000, "once for a user and an image"
    assert len(set(seen)) > 1
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 2 * 500, (
        "Trio may run a task twice in turn"
    )
