"""`yak transactions`: list, describe, abort, hanging."""

from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import WHAT, CommandGroup, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.commands.shell_completion import complete_topic
from yak.commands.units import format_time, parse_duration_ms
from yak.config.definitions import LONG_MAX
from yak.errors import YakError
from yak.view.formats import counted, format_duration

if TYPE_CHECKING:
    from yak.client.groups.group_brokers import GroupBrokers
    from yak.client.metadata import ClusterMetadata
    from yak.client.transactions import OpenTransaction, Transaction
    from yak.ids import TopicPartition

SHOW = "Show only"
LIST_COLUMNS = ("transactional_id", "state", "producer_id", "coordinator")
LIST_WIDE = ("coordinator_address",)
DESCRIBE_COLUMNS = ("transactional_id", "state", "producer_id", "producer_epoch", "running", "timeout", "partitions")
DESCRIBE_FLAT = tuple({"running": "running_ms", "timeout": "timeout_ms"}.get(each, each) for each in DESCRIBE_COLUMNS)
DESCRIBE_WIDE = ("started", "coordinator", "coordinator_address")
OPEN_COLUMNS = ("topic", "partition", "start_offset", "producer_id", "producer_epoch", "idle")
OPEN_FLAT = (*OPEN_COLUMNS[:-1], "idle_ms")
OPEN_WIDE = ("coordinator_epoch", "last_record")
COMPLETE = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


@command(
    examples=(
        "yak transactions list",
        "yak transactions list --state ongoing --longer-than 5m",
        "yak transactions list --producer-id 4000 -o json",
    )
)
def list_(
    g: Globals,
    state: list[str] | None = flag("--state", "Transactions in this state; repeatable.", SHOW, metavar="STATE"),
    producer_id: list[int] | None = flag(
        "--producer-id", "Of this producer id; repeatable.", SHOW, metavar="ID", min=0, max=LONG_MAX
    ),
    longer_than: str | None = flag("--longer-than", "Running for longer than this.", SHOW, metavar="DURATION"),
) -> int | None:
    """List transactions and their coordinators.

    A transactional id is listed from its producer's start until it expires, also while no transaction is open.
    """
    from yak.client.transactions import STATES, list_transactions
    from yak.commands.groups import chosen, silent_brokers

    states = chosen(state, STATES, "state", "transactions")
    if longer_than is not None and not states:
        # brokers compare with the last start, as Kafka's (KIP-994), also where that transaction ended
        states = tuple(each for each in STATES if each not in COMPLETE)
    longer_than_ms = None if longer_than is None else round(parse_duration_ms(longer_than, bare_unit="ms"))
    with _connect(g) as brokers:
        found, silent = list_transactions(
            brokers, states=states, producer_ids=producer_id or (), longer_than_ms=longer_than_ms
        )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator.node_id,
            "coordinator_address": each.coordinator.address,
        }
        for each in found
    ]
    is_filtered = bool(states or producer_id or longer_than)
    empty = "" if silent else "No such transactions." if is_filtered else "No transactions."
    g.out.table(rows, LIST_COLUMNS, LIST_WIDE, empty=empty)
    g.out.warn_once(silent_brokers(silent, "its transactions"))
    return 1 if silent else None


@command(examples=("yak transactions describe orders-writer", "yak transactions describe t1 t2 -o json"))
def describe(g: Globals, names: Annotated[list[str], argument("ID", "Transactional ids.")]) -> int | None:
    """Show the state, producer and partitions of transactions."""
    from yak.client.transactions import describe_transactions

    with _connect(g) as brokers:
        found = describe_transactions(brokers, names)
    errors = [each for each in found.values() if isinstance(each, YakError)]
    if len(errors) == len(found) == 1:
        raise errors[0]
    rows = [_description(g, each) for each in found.values() if not isinstance(each, YakError)]
    g.out.table(rows, DESCRIBE_COLUMNS if g.out.for_people else DESCRIBE_FLAT, DESCRIBE_WIDE)
    g.out.stdout.flush()
    for error in errors:
        g.out.error(error)
    return 1 if errors else None


@command(
    examples=(
        "yak transactions hanging",
        "yak transactions hanging orders --idle 1m",
        "yak transactions abort --topic orders --partition 0 --start-offset 42",
    )
)
def hanging(
    g: Globals,
    topics: Annotated[
        list[str] | None,
        argument("TOPIC[:P,...]", "Topics or partitions; all when none is given.", autocompletion=complete_topic),
    ] = None,
    idle: str = flag("--idle", "Without a record for longer than this.", SHOW, default="15m", metavar="DURATION"),
) -> int | None:
    """Find transactions that are open in a partition, and that no coordinator will end.

    Readers with read_committed do not read past such a transaction. transaction.max.timeout.ms (15 minutes) bounds the
    others: --idle leaves out younger ones, which may be about to begin or end.
    """
    from yak.client.groups.partition_syntax import parse_partitions
    from yak.client.transactions import hanging_transactions, open_transactions

    idle_ms = parse_duration_ms(idle, bare_unit="ms")
    with _connect(g) as brokers:
        metadata = brokers.admin.metadata()
        partitions = parse_partitions(topics or metadata.topics, metadata)
        found, failed = open_transactions(metadata, partitions, timeout_s=brokers.admin.timeout_s)
        idle_ones = [each for each in found if _idle_ms(g, each) >= idle_ms]
        rows = [_open_row(g, each) for each in hanging_transactions(brokers, idle_ones)]
    empty = "" if failed else "No transaction hangs."
    g.out.table(rows, OPEN_COLUMNS if g.out.for_people else OPEN_FLAT, OPEN_WIDE, empty=empty)
    if failed:
        place, why = next(iter(failed.items()))
        g.out.warn(f"{counted(len(failed), 'partition')} could not be read, {place} for one: {why}")
    return 1 if failed else None


@command(examples=("yak transactions abort --topic orders --partition 0 --start-offset 42",))
def abort(
    g: Globals,
    topic: Annotated[str, option("--topic, -t", "The topic.", WHAT, metavar="TOPIC", autocompletion=complete_topic)],
    partition: Annotated[int, option("--partition, -p", "The partition.", WHAT, min=0)],
    start_offset: Annotated[
        int, option("--start-offset", "The offset of the transaction's first record.", WHAT, min=0, max=LONG_MAX)
    ],
) -> None:
    """Abort a hanging transaction in one partition.

    The partition's leader writes the marker that the transaction's coordinator did not write. For a transaction that a
    coordinator knows, this breaks its atomicity: check with yak transactions hanging first.
    """
    from yak.client.groups.partition_syntax import parse_partitions
    from yak.client.transactions import abort_transaction

    g.must_not_be_readonly(f"aborting a transaction in {topic}-{partition}")
    with _connect(g) as brokers:
        metadata = brokers.admin.metadata()
        (place,) = parse_partitions([f"{topic}:{partition}"], metadata)
        one = _open_transaction(brokers, metadata, place, start_offset)
        g.confirm(f"Abort the transaction of producer {one.producer_id} from offset {start_offset} of {place} on?")
        if not g.yes:
            # the marker would end the producer's next transaction, if this one ended while the answer was awaited
            metadata = brokers.admin.metadata()
            one = _open_transaction(brokers, metadata, place, start_offset)
        abort_transaction(metadata, one, timeout_s=brokers.admin.timeout_s)
    g.out.table([{**_open_row(g, one), "result": "aborted"}], (*OPEN_FLAT[:-1], "result"))


def _open_transaction(
    brokers: "GroupBrokers", metadata: "ClusterMetadata", place: "TopicPartition", start_offset: int
) -> "OpenTransaction":
    """The transaction that starts there. Raises YakError (`not-aborted`, `no-open-transaction`)."""
    from yak.client.transactions import open_transactions

    found, failed = open_transactions(metadata, [place], timeout_s=brokers.admin.timeout_s)
    if failed:
        raise YakError("not-aborted", f"the producers of {place} could not be read", why=failed[place])
    one = next((each for each in found if each.start_offset == start_offset), None)
    if one is None:
        starts = ", ".join(str(each.start_offset) for each in found)
        raise YakError(
            "no-open-transaction",
            f"no transaction of {place} starts at offset {start_offset}",
            why=f"open transactions start at {starts}" if starts else "no transaction is open there",
            try_=(f"yak transactions hanging {place.topic}:{place.partition} --idle 0",),
        )
    return one


def _connect(g: Globals) -> "GroupBrokers":
    from yak.client.groups.group_brokers import GroupBrokers

    return GroupBrokers(g.admin(), "transaction")


def _description(g: Globals, each: "Transaction") -> dict[str, Any]:
    from yak.client.groups.partition_syntax import partitions_text

    # a transaction that is complete still has the time of its beginning
    started_ms = None if each.state in COMPLETE else each.started_ms
    row: dict[str, Any] = {
        "transactional_id": each.transactional_id,
        "state": each.state,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "running_ms": None if started_ms is None else max(0, g.now_ms() - started_ms),
        "timeout_ms": each.timeout_ms,
        "partitions": [{"topic": topic, "partition": index} for topic, index in each.partitions],
        "started": None if started_ms is None else format_time(started_ms, g.zone),
        "coordinator": each.coordinator.node_id,
        "coordinator_address": each.coordinator.address,
    }
    if g.out.format not in ("json", "yaml"):
        row["partitions"] = partitions_text(each.partitions)
    if g.out.for_people:
        row["running"] = None if started_ms is None else format_duration(row["running_ms"])
        row["timeout"] = format_duration(each.timeout_ms)
    return row


def _idle_ms(g: Globals, each: "OpenTransaction") -> int:
    return max(0, g.now_ms() - each.last_ms)


def _open_row(g: Globals, each: "OpenTransaction") -> dict[str, Any]:
    row: dict[str, Any] = {
        **each.partition._asdict(),
        "start_offset": each.start_offset,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "coordinator_epoch": each.coordinator_epoch,
        "idle_ms": _idle_ms(g, each),
        "last_record": format_time(each.last_ms, g.zone),
    }
    if g.out.for_people:
        row["idle"] = format_duration(row["idle_ms"])
    return row


transactions = CommandGroup(
    "transactions",
    examples=(
        "yak transactions list --state ongoing",
        "yak transactions describe orders-writer",
        "yak transactions hanging",
        "yak transactions abort --topic orders --partition 0 --start-offset 42",
    ),
    aliases={"ls": "list", "desc": "describe", "show": "describe", "find-hanging": "hanging"},
    leaves={"list": list_, "describe": describe, "hanging": hanging, "abort": abort},
)
