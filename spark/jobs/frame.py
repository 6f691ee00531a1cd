"""Assembles and runs a job: options, session, query, signals. A job module only defines its computation.

`python -m yak.spark.jobs NAME ...` (`yak.spark.jobs.__main__`) and the tests call this module. It imports pyspark only
when it runs a job.
"""

import dataclasses
import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from yak.errors import UsageError, YakError
from yak.local import spark_runs
from yak.spark.jobs.options import JobOptions, SparkOptions

if TYPE_CHECKING:
    import typer
    from pyspark.sql import DataFrame, SparkSession

    from yak.spark.driver.settings import SessionSettings
    from yak.spark.jobs.sinks import StartedJob


def _append_only(options: Any) -> tuple[str, ...]:  # noqa: ARG001 - every job is asked with its options
    return ("append",)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `build` computes its result from options of the class `options`.

    `keys` are the result columns that form the record key in a topic. `modes` are the output modes that the job allows
    with these options, the best first. `start` replaces the default way of writing and returns what runs. `identity`
    names the options that shape the state; a checkpoint is valid only for the same values.
    """

    name: str
    summary: str
    options: type[SparkOptions]
    build: "Callable[[SparkSession, Any], DataFrame]"
    keys: tuple[str, ...] = ("key",)
    modes: Callable[[Any], tuple[str, ...]] = _append_only
    modes_by_spark: bool = False
    """Whether only Spark knows the allowed mode: the modes are tried in turn."""
    start: "Callable[[SparkSession, Any], StartedJob] | None" = None
    identity: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    """Spark settings that the job requires."""
    examples: tuple[str, ...] = ()


def command(job: Job, arguments: Sequence[str] = ()) -> "typer.Typer":
    """The Typer application of one job."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    hints = get_type_hints(job.options)

    def run_it(**values: Any) -> None:
        chosen: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        raise typer.Exit(run(job, _with_client_options(job.options(**chosen)), arguments))

    parameters = [_parameter(each, hints[each.name]) for each in dataclasses.fields(job.options)]
    # Click requires mandatory options first.
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    run_it.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_it.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run_it.__doc__ = inspect.getdoc(job.build)
    epilog = "Examples:  " + "   ".join(job.examples) if job.examples else None
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    app.command(job.name, context_settings=settings, epilog=epilog)(run_it)
    return app


def _parameter(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    """The command-line option of a field. Typer supports lists, but no tuples of variable length."""
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    if isinstance(default, tuple):
        hint, default = list[str], list(default)
    annotation = Annotated[hint, _option(**field.metadata)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(names: str, help_: str, panel: str | None, **more: Any) -> Any:
    import typer

    return typer.Option(*names.split(", "), help=help_, rich_help_panel=panel, **more)


def _with_client_options(options: Any) -> Any:
    """The options with TLS and login of the command that started this process, which `--option` overrides."""
    given = json.loads(os.environ.pop(spark_runs.CLIENT_OPTIONS, "{}"))
    if not given or getattr(options, "connector", "yak") != "yak":
        return options
    return dataclasses.replace(options, option=(*(f"{name}={value}" for name, value in given.items()), *options.option))


def run(job: Job, options: SparkOptions, arguments: Sequence[str] = ()) -> int:
    """Run a job to its end, or to SIGTERM or Ctrl-C; return the exit code. Raises YakError before Spark starts."""
    options.check()
    from yak.spark.driver.job_process import running

    with running(
        job.name,
        session_settings(job, options),
        arguments=arguments,
        bootstrap=getattr(options, "bootstrap", None),
        checkpoint=getattr(options, "checkpoint_dir", None),
    ) as process:
        if getattr(options, "is_batch", True):
            process.cancel_on_stop()
        started = start(job, process.spark, options)
        process.wait(*filter(None, [started.query]))
        if not process.stopping.is_set():
            started.show()
        elif started.is_unread:
            raise SystemExit(process.stopping.exit_code)
    return 0


def start(job: Job, spark: "SparkSession", options: Any) -> "StartedJob":
    """Start a job. A batch has ended when this function returns."""
    from yak.spark.jobs import sinks

    for name, value in job.conf:
        if name.startswith("spark.sql."):  # the others are taken when the session is made
            spark.conf.set(name, value)
    if job.start is not None:
        return job.start(spark, options)
    assert isinstance(options, JobOptions), "a job with other options writes by itself"
    return sinks.write(job, job.build(spark, options), options)


def session_settings(job: Job, options: SparkOptions) -> "SessionSettings":
    """The settings of the job's session."""
    connector = getattr(options, "connector", "yak")
    return options.settings(f"yak-{job.name}", conf=dict(job.conf), connector=connector)


def main(arguments: Sequence[str]) -> int:
    """`python -m yak.spark.jobs`: run one job; without arguments, list the jobs."""
    from yak.spark import jobs

    if not arguments or arguments[0] in {"-h", "--help"}:
        for name, summary in jobs.summaries():
            print(f"{name:<8}  {summary}")  # noqa: T201 - this is its output
        return 0
    folder = os.environ.get(spark_runs.VARIABLE)
    program = f"yak spark run {arguments[0]}"
    try:
        job = jobs.load(arguments[0])
        code = command(job, arguments[1:])(list(arguments[1:]), prog_name=program, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except Exception as error:
        from yak.spark.driver.errors import report

        failure = error if isinstance(error, YakError) else _usage_error(error, f"{program} --help")
        if failure is None:
            raise
        return report(spark_runs.load(Path(folder)) if folder else None, failure)


def _usage_error(error: Exception, help_: str) -> UsageError | None:
    """The error for options that Typer cannot parse; None for any other exception."""
    describe = getattr(error, "format_message", None)
    if not callable(describe):
        return None
    text = " ".join(describe().split()).rstrip(".")
    return UsageError("usage", text[:1].lower() + text[1:], try_=(help_,))


def unsupported(what: str, why: str, *try_: str) -> UsageError:
    """An error for options that cannot be combined."""
    return UsageError("spark-options", what, why=why, try_=try_)
