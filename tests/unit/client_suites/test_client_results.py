"""The results of the clients' own tests: the four forms of reports, surprises, and the page."""

from pathlib import Path

from tests.clients import results

JUNIT = """<testsuites><testsuite>
<testcase classname="test.a.TestB" name="good"/>
<testcase classname="test.a.TestB" name="bad"><failure message="1 is not 2"/></testcase>
<testcase classname="test.a.TestB" name="torn_down"/>
<testcase classname="test.a.TestB" name="torn_down"><error message="left over"/></testcase>
<testcase classname="test.a" name="later"><skipped/></testcase>
</testsuite></testsuites>"""
GO = """\
{"Action":"run","Test":"TestGood"}
{"Action":"pass","Test":"TestGood"}
{"Action":"run","Test":"TestParts"}
{"Action":"run","Test":"TestParts/one"}
{"Action":"fail","Test":"TestParts/one"}
{"Action":"run","Test":"TestParts/two"}
{"Action":"pass","Test":"TestParts/two"}
{"Action":"fail","Test":"TestParts"}
{"Action":"run","Test":"TestLater"}
{"Action":"skip","Test":"TestLater"}
{"Action":"run","Test":"TestHangs"}
{"Action":"output","Output":"panic: test timed out"}
panic: not JSON
"""
LIBRDKAFKA = """{ "id": "1", "tests": {"<MAIN>": {"name": "<MAIN>", "state": "PASSED", "extra": "" },
"0001_a": {"name": "0001_a", "state": "PASSED", "known_issue": false, "extra": "", "report": [  ] },
"0002_b": {"name": "0002_b", "state": "FAILED", "known_issue": false, "extra": "a "quote"", "report": [  ] },
"0003_c": {"name": "0003_c", "state": "RUNNING", "known_issue": false, "report": [  ] },
"0004_d": {"name": "0004_d", "state": "SKIPPED", "known_issue": false, "report": [  ] },
"0005_e": {"name": "0005_e", "state": "DID NOT RUN", "known_issue": false, "report": [  ] }}"""
JEST = """\
{"file": "src/admin/__tests__/createTopics.spec.js", "tests": [["Admin creates", "passed"], ["Admin needs TLS", "pending"], \
["Admin retries", "failed"], ["Admin retries", "passed"]]}
{"file": "src/network/connection.spec.js", "tests": null}
"""


def test_a_failure_in_the_teardown_is_a_failure() -> None:
    assert results.read_junit(JUNIT) == {
        "TestB.good": "passed",
        "TestB.bad": "failed",
        "TestB.torn_down": "failed",
        "a.later": "skipped",
    }


def test_jests_tests_are_named_by_file_and_title() -> None:
    assert results.read_jest(JEST) == {
        "admin/createTopics: Admin creates": "passed",
        "admin/createTopics: Admin needs TLS": "skipped",
        "admin/createTopics: Admin retries": "failed",
        "network/connection": "failed",
    }


def test_gos_subtests_are_counted_and_not_their_parents() -> None:
    assert results.read_go(GO) == {
        "TestGood": "passed",
        "TestParts/one": "failed",
        "TestParts/two": "passed",
        "TestLater": "skipped",
        "TestHangs": "failed",
    }


def test_librdkafkas_report_is_read_though_it_is_no_json() -> None:
    assert results.read_librdkafka(LIBRDKAFKA) == {
        "0001_a": "passed",
        "0002_b": "failed",
        "0003_c": "failed",
        "0004_d": "skipped",
    }


def test_a_missing_report_is_a_surprise(tmp_path: Path) -> None:
    (suite, *_) = results.SUITES
    read = results.read_results(suite, tmp_path / "absent")
    assert results.Known({}, {}).surprises([read]) == [f"{suite.name}: no test ran"]


def test_surprises_are_new_failures_and_known_ones_that_pass() -> None:
    read = results.Results("franz-go", results.read_go(GO))
    known = results.Known(
        {"franz-go": {"TestParts/one": "why", "TestGood": "why"}},
        {"franz-go": {"TestHangs": "why", "TestParts/two": "why"}},
    )
    assert known.surprises([read]) == ["franz-go: TestGood passes: remove it from known_failures.toml"]
    assert results.Known({}, {}).surprises([read]) == ["franz-go: TestHangs fails", "franz-go: TestParts/one fails"]


def test_the_page_has_each_failure_with_its_reason() -> None:
    read = results.Results("franz-go", results.read_go(GO))
    known = results.Known({"franz-go": {"TestParts/one": "YAK has no parts"}}, {})
    page = results.page([read], known)
    assert "| [franz-go](https://github.com/twmb/franz-go) | v1.21.5 | 2 | 2 | 1 |" in page
    assert "- franz-go `TestParts/one`: YAK has no parts." in page
    assert "- franz-go `TestHangs`: not explained." in page


def test_the_page_keeps_the_lines_of_a_suite_that_has_no_results() -> None:
    known = results.Known({"franz-go": {"TestParts/one": "YAK has no parts"}}, {})
    written = results.page([results.Results("franz-go", results.read_go(GO))], known)
    page = results.page([results.Results("sarama", {"TestFuncA": results.Kind.FAILED})], known, written)
    assert "| [franz-go](https://github.com/twmb/franz-go) | v1.21.5 | 2 | 2 | 1 |" in page
    assert "- franz-go `TestParts/one`: YAK has no parts." in page
    assert "- sarama `TestFuncA`: not explained." in page
    assert results.page([], known, page) == page
