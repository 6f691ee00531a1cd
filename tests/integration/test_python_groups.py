"""`import yak` in consumer groups: shared topics, commits, rebalances, static members, on both protocols and both loops."""

import asyncio
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import trio
from conftest import BrokerHarness
from support.waiting import wait_until

import yak
from tests.errors import raises_error
from yak import TopicPartition

_names = itertools.count(1)
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


@pytest.fixture
def client(module_broker: BrokerHarness) -> Iterator[yak.Client]:
    with yak.connect(module_broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(client: yak.Client) -> str:
    """A topic of four partitions, with the numbers 0 to 99 in them."""
    name = f"shared-{next(_names)}"
    client.create_topic(name, num_partitions=4)
    with client.producer() as producer:
        for number in range(100):
            producer.send(name, number, partition=number % 4)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(_names)}"


def read(consumer: yak.Consumer, count: int) -> list[int]:
    """The next values."""
    return [message.value for message in itertools.islice(consumer, count)]


def joined(consumer: yak.Consumer, count: int = 1) -> None:
    """Poll until at least so many partitions are ours; what is read meanwhile is not looked at."""

    def look() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) >= count

    wait_until(look, f"{count} partitions are assigned")


class Member(threading.Thread):
    """A consumer in a thread of its own that reads, commits what it read, and notes what happens to it."""

    def __init__(self, make: Callable[[], yak.Consumer], topic: str) -> None:
        super().__init__(daemon=True)
        self._make, self._topic = make, topic
        self._ending = threading.Event()
        self.values: list[int] = []
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.partitions: list[TopicPartition] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with self._make() as consumer:

                def revoked(partitions: list[TopicPartition]) -> None:
                    self.told.append(("revoked", partitions))
                    consumer.commit()

                consumer.subscribe(
                    self._topic,
                    on_assigned=lambda partitions: self.told.append(("assigned", partitions)),
                    on_revoked=revoked,
                )
                while not self._ending.is_set():
                    self.values += [message.value for message in consumer.poll(0.1)]
                    self.partitions = consumer.assignment()
                consumer.commit()
                self.partitions = []
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        assert not self.is_alive()
        assert self.error is None, self.error


# ------------------------------------------------------------------------------------------------------------ commits


def test_group_resumes_at_its_committed_offsets_and_only_there(client, topic, group):
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic)
        first = read(consumer, 40)
        committed = consumer.commit()
        assert sum(committed.values()) == 40
        assert consumer.commit() == {}
        read(consumer, 30)  # and tell nobody
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic)
        second = read(consumer, 60)
        assert sorted(first + second) == list(range(100))
        for partition, offset in committed.items():
            assert consumer.committed(partition) == offset


def test_a_message_or_a_mapping_can_be_committed(client, topic, group):
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with client.consumer(group_id=group) as consumer:
        consumer.assign({zero: 7})
        message = next(consumer)
        assert consumer.commit(message) == {zero: 8}
        assert consumer.commit({one: 3}) == {one: 3}
        assert (consumer.committed(zero), consumer.committed(one)) == (8, 3)
        assert consumer.committed(TopicPartition(topic, 2)) is None
    with client.consumer(group_id=group) as consumer:
        consumer.assign([zero, one, TopicPartition(topic, 2)])
        assert [consumer.position(TopicPartition(topic, number)) for number in range(3)] == [8, 3, 0]


def test_records_fetched_and_not_returned_are_not_committed(client, topic, group):
    with client.consumer(group_id=group) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        assert read(consumer, 3) == [0, 4, 8]
        assert consumer.commit() == {TopicPartition(topic, 0): 3}


def test_auto_commit_commits_what_one_came_back_from(client, topic, group):
    def work(*, fails: bool) -> list[int]:
        with client.consumer(group_id=group, auto_commit=True) as consumer:
            consumer.subscribe(topic)
            found = []
            while not found:
                found = consumer.poll(1.0, max_messages=10)
            second = consumer.poll(1.0, max_messages=10)
            values = [message.value for message in found]
            if fails:
                raise KeyError(values)
            return values + [message.value for message in second]

    with pytest.raises(KeyError) as failed:
        work(fails=True)
    first = failed.value.args[0]
    second = work(fails=False)
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic)
        rest = read(consumer, 100 - len(first) - len(second))
    assert sorted(first + second + rest) == list(range(100))


def test_a_position_is_where_the_group_committed(client, topic, group):
    partition = TopicPartition(topic, 0)
    with client.consumer(group_id=group) as consumer:
        consumer.commit({partition: 11})
    with client.consumer(group_id=group, auto_offset_reset="latest") as consumer:
        assert consumer.position(partition) == 11
        assert consumer.position(TopicPartition(topic, 1)) == 25


# --------------------------------------------------------------------------------------------------------- rebalances


@pytest.mark.parametrize("options", [{}, {"assignor": "range"}, {"group_protocol": "consumer"}], ids=str)
def test_members_share_a_topic_and_lose_and_repeat_nothing(client, topic, group, options):
    def make() -> yak.Consumer:
        return yak.Consumer(client.bootstrap, group_id=group, **options)

    first = Member(make, topic)
    wait_until(lambda: len(first.partitions) == 4, "the first has all")
    second = Member(make, topic)
    wait_until(lambda: len(first.partitions) == len(second.partitions) == 2, "they share")
    assert set(first.partitions) | set(second.partitions) == {TopicPartition(topic, number) for number in range(4)}
    with client.producer() as producer:
        for number in range(100, 200):
            producer.send(topic, number, partition=number % 4)
    wait_until(lambda: len(first.values) + len(second.values) >= 200, "all are read")
    first.end()
    wait_until(lambda: len(second.partitions) == 4, "the second has all")
    with client.producer() as producer:
        for number in range(200, 240):
            producer.send(topic, number, partition=number % 4)
    wait_until(lambda: len(first.values) + len(second.values) >= 240, "all are read")
    second.end()
    assert sorted(first.values + second.values) == list(range(240))


def test_a_cooperative_rebalance_takes_only_what_another_gets(client, topic, group):
    first = Member(lambda: yak.Consumer(client.bootstrap, group_id=group), topic)
    wait_until(lambda: len(first.partitions) == 4, "the first has all")
    second = Member(lambda: yak.Consumer(client.bootstrap, group_id=group), topic)
    wait_until(lambda: len(first.partitions) == len(second.partitions) == 2, "they share")
    revoked = [partition for what, partitions in first.told if what == "revoked" for partition in partitions]
    assert sorted(revoked) == sorted(second.partitions)
    first.end()
    second.end()


def test_seek_and_pause_in_on_assigned_take_effect(client, topic, group):
    with client.consumer(group_id=group) as consumer:

        def assigned(partitions: list[TopicPartition]) -> None:
            assert set(partitions) <= set(consumer.assignment())
            for partition in partitions:
                consumer.seek(partition, 20)
            consumer.pause([TopicPartition(topic, 3)])

        consumer.subscribe(topic, on_assigned=assigned)
        assert sorted(read(consumer, 15)) == [number for number in range(80, 100) if number % 4 != 3]
        assert consumer.poll(0.3) == []
        consumer.resume()
        assert sorted(read(consumer, 5)) == [83, 87, 91, 95, 99]


@pytest.mark.parametrize("options", [{}, {"assignor": "range"}, {"group_protocol": "consumer"}])
def test_partition_that_was_paused_and_went_to_another_member_is_read_when_it_returns(client, topic, group, options):
    with client.consumer(group_id=group, **options) as consumer:
        consumer.subscribe(topic)
        joined(consumer, 4)
        consumer.pause()
        with client.consumer(group_id=group, **options) as other:
            other.subscribe(topic)
            wait_until(
                lambda: [len(each.assignment()) for each in (consumer, other) if each.poll(0.1) or True] == [2, 2],
                "they share",
            )
        joined(consumer, 4)
        consumer.resume()
        for number in range(4):
            consumer.seek(TopicPartition(topic, number), 0)
        assert sorted(read(consumer, 100)) == list(range(100))


def test_assignment_after_a_pause_is_read(client, topic):
    ours = TopicPartition(topic, 0)
    with client.consumer() as consumer:
        consumer.assign([ours])
        consumer.pause()
        consumer.assign({ours: 20})
        assert read(consumer, 5) == [80, 84, 88, 92, 96]
        consumer.pause()
        consumer.unsubscribe()
        consumer.assign({ours: 24})
        assert read(consumer, 1) == [96]


def test_pause_before_the_assignment_holds(client, topic):
    ours = TopicPartition(topic, 0)
    with client.consumer() as consumer:
        consumer.pause([ours])
        consumer.assign([ours])
        assert consumer.poll(0.5) == []
        assert len(consumer._handle.inbox) == 0, "librdkafka fetches a paused partition"
        consumer.resume()
        assert read(consumer, 25) == list(range(0, 100, 4))


@pytest.mark.parametrize("options", [{}, {"assignor": "range"}, {"group_protocol": "consumer"}])
def test_subscription_after_an_assignment_replaces_it(client, topic, group, options):
    with client.consumer(group_id=group, **options) as consumer:
        consumer.assign({TopicPartition(topic, 0): 20})
        assert read(consumer, 1) == [80]
        consumer.subscribe(topic)
        joined(consumer, 4)
        for number in range(4):
            consumer.seek(TopicPartition(topic, number), 0)
        assert sorted(read(consumer, 100)) == list(range(100))


@pytest.mark.parametrize("options", [{}, {"assignor": "range"}, {"group_protocol": "consumer"}])
@pytest.mark.parametrize("subscribes", [True, False])
def test_seek_after_the_error_offset_out_of_range_continues_there(client, topic, group, options, subscribes):
    starts = {TopicPartition(topic, 0): 5000, TopicPartition(topic, 1): 20}
    with client.consumer(group_id=group, auto_offset_reset="error", **options) as consumer:

        def assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, starts.get(partition, 25))

        if subscribes:
            consumer.subscribe(topic, on_assigned=assigned)
        else:
            consumer.assign(starts)
        values: list[int] = []
        with raises_error(yak.YakError, "offset-out-of-range"):
            values.extend(message.value for message in consumer)
        consumer.seek(TopicPartition(topic, 0), "earliest")
        values += read(consumer, 30 - len(values))
        assert sorted(values) == sorted([*range(0, 100, 4), *range(81, 100, 4)])
        assert consumer.poll(0.3) == []


def test_error_in_a_rebalance_callback_is_raised_by_poll_and_the_group_continues(client, topic, group):
    def assigned(_partitions: list[TopicPartition]) -> None:
        raise LookupError("the caller's own")

    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_assigned=assigned)
        with pytest.raises(LookupError, match="the caller's own"):
            read(consumer, 1)
        assert sorted(read(consumer, 100)) == list(range(100))


def test_a_static_member_has_its_partitions_again(client, topic, group):
    other = Member(lambda: yak.Consumer(client.bootstrap, group_id=group, group_instance_id="b"), topic)
    wait_until(lambda: len(other.partitions) == 4, "the other has all")
    with client.consumer(group_id=group, group_instance_id="a") as consumer:
        consumer.subscribe(topic)
        joined(consumer, 2)
        before = consumer.assignment()
    told = len(other.told)
    with client.consumer(group_id=group, group_instance_id="a") as consumer:
        consumer.subscribe(topic)
        joined(consumer, 2)
        assert consumer.assignment() == before
    assert [what for what, partitions in other.told[told:] if partitions] == []
    other.end()


def test_member_that_does_not_poll_gets_the_error_left_group(client, topic, group):
    gone: list[TopicPartition] = []
    slow = {**QUICK, "max.poll.interval.ms": 6000}
    with client.consumer(group_id=group, config=slow) as consumer:
        consumer.subscribe(topic, on_revoked=gone.extend)
        read(consumer, 5)
        other = Member(lambda: yak.Consumer(client.bootstrap, group_id=group, config=QUICK), topic)
        wait_until(lambda: len(other.partitions) == 4, "the other has all")
        with raises_error(yak.YakError, "left-group") as left:
            consumer.commit()
        assert "poll() again" in left.value.try_[0]
        with raises_error(yak.YakError, "left-group"):
            joined(consumer, 5)
        wait_until(lambda: consumer.poll(0.1) is not None and len(set(gone)) == 4, "it hears that all went")
        joined(consumer, 2)
        consumer.commit()
        other.end()


def test_a_topic_that_is_not_there_is_named(client, group):
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe("no-such-topic")
        with raises_error(yak.YakError, "unknown-topic") as made:
            consumer.poll(60)
        assert "no-such-topic" in made.value.message


def test_a_pattern_finds_topics(client, topic, group):
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(f"^{topic[:-1]}[{topic[-1]}]$")
        assert sorted(read(consumer, 100)) == list(range(100))


def test_unsubscribing_leaves_the_group(client, topic, group):
    told: list[str] = []
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_revoked=lambda _: told.append("revoked"))
        joined(consumer, 4)
        consumer.unsubscribe()
        wait_until(lambda: consumer.poll(0.1) == [] and consumer.assignment() == [], "nothing is assigned")
    assert told == ["revoked"]


# -------------------------------------------------------------------------------------------------------- event loops


@pytest.mark.parametrize(
    ("api", "run"), [(yak.aio, lambda main: asyncio.run(main())), (yak.trio, trio.run)], ids=["asyncio", "trio"]
)
def test_rebalance_coroutines_can_commit_and_seek(client, topic, group, api, run):
    told: list[object] = []

    async def main() -> None:
        async with api.Consumer(client.bootstrap, group_id=group) as consumer:

            async def assigned(partitions: list[TopicPartition]) -> None:
                told.append("assigned")
                for partition in partitions:
                    await consumer.seek(partition, 5)

            async def revoked(partitions: list[TopicPartition]) -> None:
                told.append(await consumer.commit())

            await consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
            found = []
            async for message in consumer:
                found.append(message.value)
                if len(found) == 80:
                    break
            assert sorted(found) == list(range(20, 100))
            assert await consumer.committed(TopicPartition(topic, 0)) is None

    run(main)
    assert told == ["assigned", {TopicPartition(topic, number): 25 for number in range(4)}]
    with client.consumer(group_id=group) as consumer:
        assert consumer.committed(TopicPartition(topic, 2)) == 25


def test_a_cancelled_member_leaves_at_once_and_can_still_commit(client, topic, group):
    async def main() -> None:
        with trio.move_on_after(60) as scope:
            async with yak.trio.Consumer(client.bootstrap, group_id=group) as consumer:

                async def revoked(partitions: list[TopicPartition]) -> None:
                    await consumer.commit()

                await consumer.subscribe(topic, on_revoked=revoked)
                seen = 0
                async for _ in consumer:
                    seen += 1
                    if seen == 100:
                        scope.cancel()
        assert scope.cancelled_caught

    trio.run(main)
    started = time.monotonic()
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic)
        joined(consumer, 4)
        assert [consumer.committed(TopicPartition(topic, number)) for number in range(4)] == [25] * 4
    # Had the member not left, the group would wait for its session of 45 s.
    assert time.monotonic() - started < 40


def test_assign_within_a_rebalance_callback_is_refused(client, topic, group):
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_assigned=consumer.assign)
        with pytest.raises(yak.UsageError, match="within a rebalance callback"):
            joined(consumer, 4)
        assert sorted(read(consumer, 100)) == list(range(100))


def test_close_within_a_rebalance_callback_is_refused(client, topic, group):
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_assigned=lambda _: consumer.close(), on_revoked=lambda _: consumer.close())
        with pytest.raises(yak.UsageError, match="within a rebalance callback"):
            joined(consumer, 4)
        assert sorted(read(consumer, 100)) == list(range(100))
        with pytest.raises(yak.UsageError, match="within a rebalance callback"):
            consumer.close()
        assert consumer.is_closed


@pytest.mark.parametrize("read", [next, yak.Consumer.poll])
def test_reading_within_a_rebalance_callback_is_refused(
    client: yak.Client, topic: str, group: str, read: Callable[[yak.Consumer], object]
) -> None:
    """librdkafka assigns no partition before the callback has returned: an iteration would wait for ever."""
    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_assigned=lambda _: read(consumer))
        with pytest.raises(yak.UsageError, match="reading within a rebalance callback"):
            joined(consumer, 4)


def test_close_and_assign_are_refused_after_a_subscription_within_a_callback(
    client: yak.Client, topic: str, group: str
) -> None:
    def assigned(partitions: list[TopicPartition]) -> None:
        consumer.subscribe(topic)
        assert consumer.partitions(topic) == partitions
        with pytest.raises(yak.UsageError, match="within a rebalance callback"):
            consumer.assign(partitions)
        consumer.close()

    with client.consumer(group_id=group) as consumer:
        consumer.subscribe(topic, on_assigned=assigned)
        with pytest.raises(yak.UsageError, match=re.escape("close() within a rebalance callback")):
            joined(consumer, 4)
        assert sorted(read(consumer, 100)) == list(range(100))


@pytest.mark.parametrize("how", ["close", "assign"])
def test_positions_and_committed_offsets_are_known_when_the_group_is_left(client, topic, group, how):
    seen: dict[int, tuple[int, int | None]] = {}

    def revoked(partitions: list[TopicPartition]) -> None:
        for each in partitions:
            seen[each.partition] = (consumer.position(each), consumer.committed(each))

    unread = TopicPartition(topic, 3)
    consumer = client.consumer(group_id=group, timeout=5)
    consumer.commit({unread: 7})
    consumer.subscribe(topic, on_assigned=consumer.pause, on_revoked=revoked)
    joined(consumer, 4)
    if how == "close":
        consumer.close()
    else:
        consumer.assign([unread])
    assert seen == {0: (0, None), 1: (0, None), 2: (0, None), 3: (7, 7)}


def test_subscription_while_the_consumer_closes_is_refused(client, topic, group):
    consumer = client.consumer(group_id=group)
    consumer.subscribe(topic, on_revoked=lambda _: consumer.subscribe(topic))
    joined(consumer, 4)
    with pytest.raises(yak.UsageError, match="this consumer is closed"):
        consumer.close()
    assert consumer.is_closed


@pytest.mark.parametrize("options", [{}, {"assignor": "range"}, {"group_protocol": "consumer"}])
@pytest.mark.parametrize("unsubscribes", [True, False])
def test_assign_after_a_subscription_reads_what_was_assigned(client, topic, group, options, unsubscribes):
    revoked: list[TopicPartition] = []
    with client.consumer(group_id=group, **options) as consumer:
        consumer.subscribe(topic, on_revoked=revoked.extend)
        joined(consumer, 4)
        if unsubscribes:
            consumer.unsubscribe()
        for partition in (1, 2):
            consumer.assign({TopicPartition(topic, partition): 20})
            assert read(consumer, 5) == [4 * offset + partition for offset in range(20, 25)]
            assert consumer.assignment() == [TopicPartition(topic, partition)]
        assert sorted(revoked) == [TopicPartition(topic, number) for number in range(4)]
        consumer.unsubscribe()
        assert (consumer.poll(0.5), consumer.assignment()) == ([], [])
