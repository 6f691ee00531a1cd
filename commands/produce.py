"""`yak produce`: its options; `producing.py` implements it."""

from typing import Annotated

from yak.commands.app import OUTPUT, START, WHAT, command
from yak.commands.completing import complete_topic
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.commands.producing import DEFAULT_TOPIC, Request, run

FILE = "From a file"
SENDING = "How to send"


@command(
    examples=(
        'yak produce -m "hello"',
        "yak produce orders -k u1 -m '{\"total\": 12}' -H source=web",
        "yak produce orders -f orders.csv --csv-key user_id --csv-value json --resume .orders.ck",
        "yak consume orders --from-beginning --exit -o json | yak produce copy -f - --format json --create",
    )
)
def produce(
    g: Globals,
    topic: Annotated[
        str | None, argument("TOPIC", f"Topic; {DEFAULT_TOPIC} when none is given.", autocompletion=complete_topic)
    ] = None,
    topic_option: Annotated[str | None, option("--topic, -t", "Topic, as an option.", WHAT, metavar="TOPIC")] = None,
    message: Annotated[list[str] | None, option("--message, -m", "A value to send; repeatable.", WHAT)] = None,
    key: Annotated[str | None, option("--key, -k", "Key of the records.", WHAT)] = None,
    header: Annotated[
        list[str] | None, option("--header, -H", "Header of the records; repeatable.", WHAT, metavar="NAME=VALUE")
    ] = None,
    partition: Annotated[int | None, option("--partition, -p", "Send to this partition.", WHAT, min=0)] = None,
    template: Annotated[
        bool, option("--template", "Fill {{i}}, {{uuid}}, {{now}}, {{int 1 9}} in -m, -k and -H.", WHAT)
    ] = False,
    timestamp: Annotated[
        str | None, option("--timestamp", "Timestamp of the records: ISO-8601, epoch, -15m.", WHAT, metavar="TIME")
    ] = None,
    file: Annotated[
        str | None, option("--file, -f", "Read records from a file; - is stdin.", FILE, metavar="PATH")
    ] = None,
    format_: Annotated[
        str | None, option("--format", "lines, json or csv; by the file's name if not given.", FILE, metavar="FORMAT")
    ] = None,
    key_separator: Annotated[
        str | None, option("--key-separator, -K", "Split lines into key and value here.", FILE)
    ] = None,
    null_value: Annotated[str | None, option("--null-value", "This text is a null value (a tombstone).", FILE)] = None,
    csv_key: Annotated[str | None, option("--csv-key", "Column that becomes the key.", FILE, metavar="COLUMN")] = None,
    csv_value: Annotated[
        str,
        option(
            "--csv-value", "Column of the value; json: all other columns; json:A,B: these.", FILE, metavar="COLUMN|json"
        ),
    ] = "json",
    csv_header: Annotated[
        list[str] | None,
        option("--csv-header", "Column that becomes a header; repeatable.", FILE, metavar="COLUMN=NAME"),
    ] = None,
    csv_columns: Annotated[
        str | None, option("--csv-columns", "Names for a file without a header row.", FILE, metavar="A,B,C")
    ] = None,
    csv_partition: Annotated[
        str | None, option("--csv-partition", "Column with the partition.", FILE, metavar="COLUMN")
    ] = None,
    csv_delimiter: Annotated[
        str | None, option("--csv-delimiter", "One character, or tab; found if not given.", FILE, metavar="CHARACTER")
    ] = None,
    csv_encoding: Annotated[str, option("--csv-encoding", "Encoding of the file.", FILE, metavar="NAME")] = "utf-8",
    resume: Annotated[
        str | None, option("--resume", "Checkpoint file: continue from it, and update it.", FILE, metavar="CHECKPOINT")
    ] = None,
    acks: Annotated[str, option("--acks", "Acknowledged by: 0, 1 or all.", SENDING, metavar="ACKS")] = "all",
    compression: Annotated[
        str, option("--compression-type, -z", "none, gzip, snappy, lz4 or zstd.", SENDING, metavar="CODEC")
    ] = "none",
    batch_size: Annotated[
        str | None, option("--batch-size", "Largest batch, such as 64KiB.", SENDING, metavar="SIZE")
    ] = None,
    linger: Annotated[
        str | None, option("--linger", "Wait this long to fill a batch.", SENDING, metavar="DURATION")
    ] = None,
    transactional: Annotated[
        bool, option("--transactional", "All records in one transaction: written together or not at all.", SENDING)
    ] = False,
    transactional_id: Annotated[
        str | None,
        option("--transactional-id", "The same with this id; fences an earlier producer of it.", SENDING, metavar="ID"),
    ] = None,
    rate: Annotated[float | None, option("--rate", "Records a second, at most.", SENDING, min=0.001)] = None,
    repeat: Annotated[int, option("--repeat", "Send it all N times; 0: until Ctrl+C.", SENDING, min=0)] = 1,
    create: Annotated[bool, option("--create", "Create the topic if it does not exist.", START)] = False,
    dry_run: Annotated[bool, option("--dry-run", "Show the first 5 records; send nothing.", OUTPUT)] = False,
    tee: Annotated[bool, option("--tee, -T", "Copy the values to stdout too.", OUTPUT)] = False,
    request_required_acks: Annotated[str | None, option("--request-required-acks", "", WHAT, hidden=True)] = None,
    compression_codec: Annotated[str | None, option("--compression-codec", "", WHAT, hidden=True)] = None,
    properties: Annotated[list[str] | None, option("--property", "", WHAT, hidden=True)] = None,
) -> int:
    """Write records to a topic.

    Values come from -m, a file or stdin, one record per line. Keys map to the same partitions as with Java clients.
    The topic yak is created with one partition on first use. A CSV file needs a header row or
    --csv-columns; rejected rows go to FILE.rejected.csv.

    With --transactional, an error, a rejected row or Ctrl+C aborts the transaction. Readers with read_committed then
    see none of its records.
    """
    request = Request(
        topic=topic_option or topic,
        messages=tuple(message or ()),
        key=key,
        headers=tuple(header or ()),
        template=template,
        partition=partition,
        timestamp=timestamp,
        file=file,
        format=format_,
        key_separator=key_separator,
        null_value=null_value,
        csv_key=csv_key,
        csv_value=csv_value,
        csv_headers=tuple(csv_header or ()),
        csv_columns=csv_columns,
        csv_partition=csv_partition,
        csv_delimiter=csv_delimiter,
        csv_encoding=csv_encoding,
        resume=resume,
        acks=request_required_acks or acks,
        compression=compression_codec or compression,
        batch_size=batch_size,
        linger=linger,
        transactional=transactional or transactional_id is not None,
        transactional_id=transactional_id,
        rate=rate,
        repeat=repeat,
        create=create,
        dry_run=dry_run,
        tee=tee,
    )
    return run(g, request.with_properties(tuple(properties or ())))
