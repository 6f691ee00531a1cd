"""`yak spark sql`: runs one query over topics as tables."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import OUTPUT, START, STOP, WHAT, command
from yak.commands.options import Globals
from yak.commands.spark_options import (
    Conf,
    Connector,
    DriverMemory,
    Jars,
    Master,
    Packages,
    Ship,
    session_settings,
)

if TYPE_CHECKING:
    from yak.spark.driver.settings import SessionSettings

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


@command(
    examples=(
        "yak spark sql 'SELECT key, count(*) FROM orders GROUP BY key'",
        "yak spark sql 'SELECT json:user::string AS user, sum(json:total::double) FROM orders GROUP BY 1' -o csv",
        "yak spark sql 'SELECT * FROM orders JOIN payments USING (key)' --from -1h --max-rows 20",
        "yak spark sql --schema 'orders=user STRING, total DOUBLE' 'SELECT user, max(total) FROM orders GROUP BY user'",
        "yak spark sql -f report.sql -o json",
    )
)
def sql(
    g: Globals,
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="One query; - reads it from stdin.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="The query is in this file.", rich_help_panel=WHAT)
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema", metavar="TABLE=COLUMNS", rich_help_panel=WHAT,
            help="Values of a topic are JSON with these columns; repeatable.",
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode", metavar="MODE", rich_help_panel=WHAT,
            help="Values that are not such JSON: permissive, dropmalformed or failfast.",
        ),
    ] = "permissive",
    from_: Annotated[
        str,
        typer.Option("--from", metavar="WHERE", help="earliest, a time (-15m), or offsets as JSON.", rich_help_panel=START),
    ] = "earliest",
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="latest, a time, or offsets as JSON.", rich_help_panel=STOP)
    ] = "latest",
    max_rows: Annotated[
        int | None,
        typer.Option("--max-rows", "-n", metavar="N", min=1, help="Stop after N rows.", rich_help_panel=OUTPUT),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option("--isolation", metavar="LEVEL", help="Or read_committed.", rich_help_panel=WHAT),
    ] = "read_uncommitted",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", rich_help_panel=WHAT,
            help="Of the data source, kafka.… of the client; repeatable.",
        ),
    ] = None,
    connector: Connector = "yak",
    master: Master = None,
    conf: Conf = None,
    driver_memory: DriverMemory = None,
    jars: Jars = None,
    packages: Packages = None,
    ship: Ship = "package",
) -> int | None:  # fmt: skip
    """Run one SQL query over topics as tables.

    Each topic in the query is a table with the columns key, value (both text), json (the value as a VARIANT,
    NULL if it is not JSON), topic, partition, offset, timestamp and timestampType. A field of JSON is json:user::string or
    json:items[0].price::double. --schema replaces them with typed columns, and adds _key, _offset and _timestamp. Write a topic name with other characters as `my-topic` or my_topic.
    """
    from yak.commands.spark_python import hand_over

    text = _query(query, file)
    settings = session_settings(
        "yak-sql", master=master, conf=conf, driver_memory=driver_memory, connector=connector, jars=jars,
        packages=packages, ship=ship,
    )  # fmt: skip
    code = hand_over()
    if code is not None:
        return code
    tables, text = _tables(g, text)
    reading = {
        "topic": ",".join(f"{table}={topic}" for table, topic in tables.items()),
        "bootstrap": g.bootstrap_servers,
        "from_": from_,
        "to": to,
        "isolation": isolation,
        "connector": connector,
        "option": tuple(option or ()),
        "schema": tuple(schema or ()),
        "mode": mode,
        "query": text,
    }
    return _answer(g, settings, reading, max_rows)


def _query(query: str | None, file: str | None) -> str:
    """The text of the query. Raises UsageError (`usage`)."""
    import sys

    from yak.errors import UsageError

    if (query is None) == (file is None):
        raise UsageError("usage", "give one query" if query is None else "give a query or a file, not both",
                         try_=("yak spark sql 'SELECT count(*) FROM orders'",))  # fmt: skip
    if file is not None:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    else:
        text = sys.stdin.read() if query == "-" else query or ""
    text = text.strip().rstrip(";").strip()
    if not text:
        raise UsageError("usage", "the query is empty", try_=("yak spark sql 'SELECT count(*) FROM orders'",))
    return text


def _tables(g: Globals, query: str) -> tuple[dict[str, str], str]:
    """`tables_named` for the cluster's topics. Raises YakError when no broker answers."""
    from yak.client.metadata import topic_names

    return tables_named(query, topic_names(g.bootstrap_servers, timeout_s=g.timeout_ms / 1000))


def tables_named(query: str, topics: Iterable[str]) -> tuple[dict[str, str], str]:
    """Topics by table name, for those that a query names; and the query with table names instead of topic names.

    A table has its topic's name, with _ for characters other than letters and digits. In backticks, the topic's own
    name is valid too.
    """
    found: dict[str, str] = {}
    for topic in sorted(topics):
        table = re.sub(r"\W", "_", topic)
        query = query.replace(f"`{topic}`", f"`{table}`")
        plain = _QUOTED.sub(" ", query)
        is_named = re.search(rf"(?i)(?<!\w){re.escape(table)}(?!\w)", plain) is not None
        # If two topics have the same table name, prefer the topic whose own name it is.
        if is_named and (table not in found or topic == table):
            found[table] = topic
    return found, query


def _answer(g: Globals, settings: "SessionSettings", reading: dict[str, Any], max_rows: int | None) -> int | None:
    """Run the query, and print rows as they arrive; return the exit code."""
    from dataclasses import replace

    from yak.commands.spark_rows import print_rows
    from yak.local.spark_runs import scratch_log
    from yak.spark.driver.errors import translate
    from yak.spark.driver.make import make_session
    from yak.spark.jobs.sql import Options, build

    options = Options(**reading)
    if options.topic:
        options.check()
    settings = replace(settings, log=scratch_log("sql"))
    g.out.detail(f"Spark's own log is in {settings.log}")
    with g.out.progress("starting Spark"):
        spark = make_session(settings)
    try:
        frame = build(spark, options) if options.topic else spark.sql(options.query)
        if max_rows is not None:
            frame = frame.limit(max_rows)
        print_rows(g, frame.schema, frame.toLocalIterator(prefetchPartitions=True))
    except BrokenPipeError:
        raise
    except Exception as error:
        raise unknown_topic_of(g, translate(error, settings.log)) from error
    finally:
        spark.stop()
    return None


def unknown_topic_of(g: Globals, error: Exception) -> Exception:
    """The error for a missing topic, if Spark does not know its table; otherwise `error`."""
    found = re.match(r"[Tt]he table or view `([^`]+)` cannot be found", str(error))
    if found is None:
        return error
    from yak.client.metadata import topic_names, unknown_topic
    from yak.errors import UsageError

    known = unknown_topic(found[1], topic_names(g.bootstrap_servers, timeout_s=g.timeout_ms / 1000))
    return UsageError(known.code, known.message, why=known.why, try_=known.try_)
