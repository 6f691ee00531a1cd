"""Java's sixty lines become three of ours."""

from pathlib import Path

import pytest

from yak.errors import UsageError, YakError
from yak.spark.driver.errors import is_of_spark, needs_pyspark, report, translate
from yak.spark.source.errors import SourceError, data_loss

TRACE = "\n\tat org.apache.spark.sql.execution.X.run(X.scala:1)" * 60
WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed:
Traceback (most recent call last):
  File "stream.py", line 3, in latestOffset
yak.spark.source.errors.SourceError: {error}
 SQLSTATE: 38000"""


class AnalysisException(Exception):
    """As PySpark's."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition

    def getCondition(self) -> str:  # noqa: N802
        return self.condition


class Py4JNetworkError(Exception):
    """As Py4J's."""


@pytest.mark.parametrize(
    ("text", "slug", "exit_code"),
    [
        (
            "SparkIllegalArgumentException: System memory 209715200 must be at least 471859200. Please",
            "spark-memory",
            2,
        ),
        ("Executor memory 104857600 must be at least 471859200. Please increase", "spark-memory", 2),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "spark-memory", 2),
        ("Error occurred: Could not reserve enough space for 2097152KB object heap", "spark-memory", 2),
        ("All masters are unresponsive! Giving up.", "spark-master", 2),
        (
            "AssertionError: There are [2] sources in the checkpoint offsets and now there are [1] sources",
            "spark-checkpoint",
            2,
        ),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", "spark-checkpoint", 2),
        ("Multiple streaming queries are concurrently using file:/ck/offsets", "spark-checkpoint-used", 2),
        ("UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled", "spark-missing", 2),
        ("unresolved dependency: org.apache.spark#spark-sql-kafka", "spark-package", 2),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure", "spark-package", 2),
        ("[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03", "spark-path", 2),
        ("[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected", "spark-json", 2),
        ("Caused by: java.lang.ArithmeticException: / by zero", "spark-failed", 1),
        ("", "spark-failed", 1),
    ],
)
def test_each_spark_failure_has_its_error_code(text: str, slug: str, exit_code: int) -> None:
    error = translate(RuntimeError(text + TRACE))
    assert (error.code, error.exit_code) == (slug, exit_code)
    assert error.try_ or slug == "spark-failed"
    said = f"{error.message}\n{error.why}"
    assert "\tat " not in said
    assert len(said) < 700


def test_memory_error_is_in_mebibytes() -> None:
    error = translate(RuntimeError("System memory 209715200 must be at least 471859200. Please"))
    assert error.message == "200 MiB are too little memory for Spark's driver"
    assert error.why == "it needs 450 MiB before it does anything"
    assert error.try_ == ("--driver-memory 1g",)


@pytest.mark.timeout(20)
def test_error_with_a_large_record_in_its_line_is_translated() -> None:
    text = f"[CAST_INVALID_INPUT] The value '{'x' * 300_000}' of the type STRING cannot be cast. SQLSTATE: 22018"
    found = translate(AnalysisException("CAST_INVALID_INPUT", text))
    assert found.code == "spark-sql"
    assert found.message.startswith("The value 'xxx")
    assert len(found.message) <= 300


def test_refused_query_has_line_and_column_and_no_sqlstate() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved. Did you mean `key`? "
        "SQLSTATE: 42703; line 1 pos 7;\n'Project ['nope]\n+- SubqueryAlias orders"
    )
    error = translate(AnalysisException("UNRESOLVED_COLUMN.WITH_SUGGESTION", text))
    assert error.code == "spark-sql"
    assert error.message == "A column with name `nope` cannot be resolved. Did you mean `key`?"
    assert error.why == "at line 1, column 8 (UNRESOLVED_COLUMN.WITH_SUGGESTION)"


@pytest.mark.parametrize(
    "raised",
    [
        SourceError(
            "unknown-topic", 'topic "a: b" does not exist', why='closest: "ab"', try_=("yak topics create x", "y")
        ),
        SourceError("spark-option", 'option startingOffsets="{"a": 1}" cannot be taken', why="it is JSON", try_=("z",)),
        data_loss("orders-0: offset 5 was asked for", ["the first is 9"]),
        SourceError("spark-write", "alone"),
    ],
)
def test_our_own_errors_come_through_spark_whole(raised: SourceError) -> None:
    error = translate(RuntimeError(WORKER.format(error=raised)))
    assert isinstance(error, UsageError)
    assert (error.code, error.message, error.why, error.try_) == (raised.code, raised.message, raised.why, raised.try_)


def test_so_does_what_sql_raises() -> None:
    text = (
        "[USER_RAISED_EXCEPTION] SourceError: [spark-json] record t/0/1 is malformed: why. Try: a; or b SQLSTATE: P0001"
    )
    error = translate(RuntimeError(text))
    assert (error.code, error.message, error.exit_code) == ("spark-json", "record t/0/1 is malformed", 2)
    assert (error.why, error.try_) == ("why", ("a", "b"))


def test_an_error_of_ours_stays_what_it_is() -> None:
    error = YakError("some-slug", "message")
    assert translate(error) is error


def test_failed_python_worker_is_reported_by_its_last_line() -> None:
    text = "PythonException:\nTraceback (most recent call last):\n  File x\nValueError: bad thing\n" + TRACE
    assert translate(RuntimeError(text)).why == "ValueError: bad thing"


def test_java_that_ended_is_explained_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert translate(Py4JNetworkError("Answer from Java side is empty")).code == "spark-died"
    log.write_text("x\n" * 9 + "OpenJDK: There is insufficient memory for the Java Runtime Environment to continue.\n")
    error = translate(Py4JNetworkError("Answer from Java side is empty"), log)
    assert error.code == "spark-memory"
    assert error.try_[-1] == f"less {log}"
    log.write_text("Error: Could not find or load main class x\n")
    assert translate(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), log).why == (
        "Error: Could not find or load main class x"
    )


def test_errors_of_spark_and_of_the_program_are_distinguished() -> None:
    assert is_of_spark(YakError("a", "b"))
    assert not is_of_spark(ValueError())


def test_python_without_pyspark_names_the_package_to_install() -> None:
    error = needs_pyspark(["pyspark", "pyarrow"])
    assert (error.code, error.exit_code) == ("spark-missing", 2)
    assert error.message == "this Python has no pyspark and no pyarrow"
    assert error.try_[0] == "pip install 'yak-broker[spark]'"


def test_record_that_spark_quotes_does_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    raised = RuntimeError("[MALFORMED_RECORD_IN_PARSING] Malformed records are detected: [\x1b[2J\x1b[H].")
    assert report(None, translate(raised)) == 2
    assert r"[\x1b[2J\x1b[H]" in capsys.readouterr().err
