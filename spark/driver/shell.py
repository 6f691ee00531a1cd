"""The Python shell of `yak spark shell`: its predefined names, and how it prints errors."""

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from yak.spark.driver.errors import is_of_spark, translate
from yak.spark.driver.settings import SessionSettings
from yak.view.error_lines import error_lines


def names_for(
    spark: Any, bootstrap: str, settings: SessionSettings, client: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The predefined names; `client` are options for all topics."""
    from pyspark.sql import functions

    def read(reader: Any, name: str, options: dict[str, str]) -> Any:
        chosen = {"kafka.bootstrap.servers": bootstrap, "subscribe": name, **(client or {}), **options}
        frame = reader.format(settings.connector).options(**chosen).load()
        return frame.withColumns({each: frame[each].cast("string") for each in ("key", "value")})

    def topic(name: str, **options: str) -> Any:
        """A topic as a DataFrame; options are the data source's: topic("orders", endingOffsets="latest")."""
        return read(spark.read, name, options)

    def stream(name: str, **options: str) -> Any:
        """A topic as a stream, from its earliest record unless startingOffsets is set."""
        return read(spark.readStream, name, {"startingOffsets": "earliest", **options})

    found = {"spark": spark, "F": functions, "functions": functions, "topic": topic, "stream": stream, "sql": spark.sql}
    if not settings.is_connect:
        found["sc"] = spark.sparkContext
    return found


def interact(
    spark: Any,
    bootstrap: str,
    settings: SessionSettings,
    client: Mapping[str, str] | None = None,
    *,
    code: str | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Run `code`, or a shell; return the exit code. Spark's errors have three lines; the log has their trace."""
    names = names_for(spark, bootstrap, settings, client)
    if code is not None:
        return _run(code, names, settings)
    if not sys.stdin.isatty():
        return _run(sys.stdin.read(), names, settings)
    say(_greeting(spark, bootstrap, settings))
    if find_spec("IPython") is not None:
        from IPython import start_ipython

        start_ipython(argv=["--no-banner"], user_ns=names)
        return 0
    _converse(names, settings)
    return 0


def _greeting(spark: Any, bootstrap: str, settings: SessionSettings) -> str:
    lines = [f"Spark {spark.version} on {settings.where}, topics of {bootstrap}"]
    if not settings.is_connect and spark.sparkContext.uiWebUrl:
        lines.append(f"  Spark UI  {spark.sparkContext.uiWebUrl}")
    lines.append(f"  log       {settings.log}")
    lines.append('  try       topic("orders").groupBy("key").count().show()        Ctrl+D ends it')
    return "\n".join(lines)


def _run(code: str, names: dict[str, Any], settings: SessionSettings) -> int:
    """Run code that is not typed interactively: an error ends it. Raises YakError for Spark's errors."""
    names = {**names, "__name__": "__main__"}
    try:
        exec(compile(code, "<yak spark shell>", "exec"), names)  # noqa: S102 - a shell is for running what it is given
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        if is_of_spark(error):
            raise translate(error, settings.log) from error
        raise
    return 0


def _converse(names: dict[str, Any], settings: SessionSettings) -> None:
    """Run Python's interactive shell, with history and completion if readline is available."""
    import code

    class Console(code.InteractiveConsole):
        def showtraceback(self) -> None:
            error = sys.exc_info()[1]
            if error is None or not is_of_spark(error):
                super().showtraceback()
                return
            self.write("\n".join(error_lines(translate(error, settings.log))) + "\n")

    try:
        import readline
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:
        pass
    Console(names).interact(banner="", exitmsg="")
