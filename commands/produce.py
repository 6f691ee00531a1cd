"""`yak produce`: its options; `producing.py` implements it."""

from typing import Annotated

import typer

from yak.commands.app import OUTPUT, START, WHAT, command
from yak.commands.completing import complete_topic
from yak.commands.options import Globals
from yak.commands.producing import DEFAULT_TOPIC, Request, run

FILE = "From a file"
SENDING = "How to send"


def _text(*names: str, help_: str, panel: str = WHAT, metavar: str = "TEXT", hidden: bool = False) -> object:
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar=metavar, hidden=hidden)


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
        str | None,
        typer.Argument(
            help=f"Topic; {DEFAULT_TOPIC} when none is given.", autocompletion=complete_topic, metavar="TOPIC"
        ),
    ] = None,
    topic_option: Annotated[str | None, _text("--topic", "-t", help_="Topic, as an option.", metavar="TOPIC")] = None,
    message: Annotated[list[str] | None, _text("--message", "-m", help_="A value to send; repeatable.")] = None,
    key: Annotated[str | None, _text("--key", "-k", help_="Key of the records.")] = None,
    header: Annotated[
        list[str] | None, _text("--header", "-H", help_="Header of the records; repeatable.", metavar="NAME=VALUE")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Send to this partition.", rich_help_panel=WHAT, min=0)
    ] = None,
    template: Annotated[
        bool,
        typer.Option(
            "--template",
            help="Fill {{i}}, {{uuid}}, {{now}}, {{int 1 9}} in -m, -k and -H.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    timestamp: Annotated[
        str | None, _text("--timestamp", help_="Timestamp of the records: ISO-8601, epoch, -15m.", metavar="TIME")
    ] = None,
    file: Annotated[
        str | None, _text("--file", "-f", help_="Read records from a file; - is stdin.", panel=FILE, metavar="PATH")
    ] = None,
    format_: Annotated[
        str | None,
        _text("--format", help_="lines, json or csv; by the file's name if not given.", panel=FILE, metavar="FORMAT"),
    ] = None,
    key_separator: Annotated[
        str | None, _text("--key-separator", "-K", help_="Split lines into key and value here.", panel=FILE)
    ] = None,
    null_value: Annotated[
        str | None, _text("--null-value", help_="This text is a null value (a tombstone).", panel=FILE)
    ] = None,
    csv_key: Annotated[
        str | None, _text("--csv-key", help_="Column that becomes the key.", panel=FILE, metavar="COLUMN")
    ] = None,
    csv_value: Annotated[
        str,
        _text(
            "--csv-value",
            help_="Column of the value; json: all other columns; json:A,B: these.",
            panel=FILE,
            metavar="COLUMN|json",
        ),
    ] = "json",
    csv_header: Annotated[
        list[str] | None,
        _text("--csv-header", help_="Column that becomes a header; repeatable.", panel=FILE, metavar="COLUMN=NAME"),
    ] = None,
    csv_columns: Annotated[
        str | None, _text("--csv-columns", help_="Names for a file without a header row.", panel=FILE, metavar="A,B,C")
    ] = None,
    csv_partition: Annotated[
        str | None, _text("--csv-partition", help_="Column with the partition.", panel=FILE, metavar="COLUMN")
    ] = None,
    csv_delimiter: Annotated[
        str | None,
        _text("--csv-delimiter", help_="One character, or tab; found if not given.", panel=FILE, metavar="CHARACTER"),
    ] = None,
    csv_encoding: Annotated[
        str, _text("--csv-encoding", help_="Encoding of the file.", panel=FILE, metavar="NAME")
    ] = "utf-8",
    resume: Annotated[
        str | None,
        _text("--resume", help_="Checkpoint file: continue from it, and update it.", panel=FILE, metavar="CHECKPOINT"),
    ] = None,
    acks: Annotated[str, _text("--acks", help_="Acknowledged by: 0, 1 or all.", panel=SENDING, metavar="ACKS")] = "all",
    compression: Annotated[
        str,
        _text("--compression-type", "-z", help_="none, gzip, snappy, lz4 or zstd.", panel=SENDING, metavar="CODEC"),
    ] = "none",
    batch_size: Annotated[
        str | None, _text("--batch-size", help_="Largest batch, such as 64KiB.", panel=SENDING, metavar="SIZE")
    ] = None,
    linger: Annotated[
        str | None, _text("--linger", help_="Wait this long to fill a batch.", panel=SENDING, metavar="DURATION")
    ] = None,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional",
            help="All records in one transaction: written together or not at all.",
            rich_help_panel=SENDING,
        ),
    ] = False,
    transactional_id: Annotated[
        str | None,
        _text(
            "--transactional-id",
            help_="The same with this id; fences an earlier producer of it.",
            panel=SENDING,
            metavar="ID",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Records a second, at most.", rich_help_panel=SENDING, min=0.001)
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", help="Send it all N times; 0: until Ctrl+C.", rich_help_panel=SENDING, min=0)
    ] = 1,
    create: Annotated[
        bool, typer.Option("--create", help="Create the topic if it does not exist.", rich_help_panel=START)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first 5 records; send nothing.", rich_help_panel=OUTPUT)
    ] = False,
    tee: Annotated[
        bool, typer.Option("--tee", "-T", help="Copy the values to stdout too.", rich_help_panel=OUTPUT)
    ] = False,
    request_required_acks: Annotated[str | None, _text("--request-required-acks", help_="", hidden=True)] = None,
    compression_codec: Annotated[str | None, _text("--compression-codec", help_="", hidden=True)] = None,
    properties: Annotated[list[str] | None, _text("--property", help_="", hidden=True)] = None,
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
