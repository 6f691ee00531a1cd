"""The program's border: exit codes, the error style, and what never reaches the terminal."""

import json
import os
import signal
import subprocess
import sys

import pytest

from yak import __version__
from yak.client.metadata import unknown_topic
from yak.commands.options import split_before
from yak.errors import UsageError

PYTHON = [sys.executable, "-m", "yak.commands.main"]


def test_the_version_is_one_line(yak):
    ran = subprocess.run([*PYTHON, "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"yak {__version__}\n", "")
    assert json.loads(yak("version", "-o", "json").out)["yak"] == __version__


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        (["prodce"], "unknown-command"),
        (["topics", "lst"], "unknown-command"),
        (["topics", "list", "--nope"], "usage"),
        (["--nope"], "usage"),
        (["-o"], "usage"),
        (["topics", "list", "-o", "end"], "did-you-mean-offset"),
        (["consume", "-o", "beginning"], "did-you-mean-offset"),
        (["consume", "-o", "s@1795176000"], "did-you-mean-offset"),
        (["consume", "-o", "-10"], "did-you-mean-offset"),
        (["topics", "list", "-o", "jsn"], "bad-format"),
        (["topics", "list", "--timeout", "soon"], "bad-duration"),
        (["topics", "list", "-b", "host:x"], "bad-setting"),
        (["consume", "--offset", "soon"], "bad-offset"),
        (["consume", "--filter", "v:.a >"], "bad-filter"),
        (["consume", "--from", "yesterday"], "bad-time"),
        (["produce", "-m", "x", "-z", "rar"], "usage"),
        (["produce", "-m", "x", "--acks", "2"], "usage"),
        (["produce", "-m", "x", "-f", "y"], "usage"),
        (["produce", "--readonly", "-m", "x"], "readonly"),
        (["topics", "create", "x", "--readonly"], "readonly"),
        (["topics", "delete", "x", "--readonly"], "readonly"),
        (["context", "use", "-"], "no-previous-context"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_slug(yak, args, slug):
    ran = yak(*args)
    assert ran.code == 2
    assert ran.err.startswith(f"error[{slug}]: ")
    assert ran.out == ""
    assert len(ran.err.splitlines()) <= 5


def test_error_messages_have_the_agreed_format(yak, golden):
    texts = [
        yak(*args).err
        for args in (
            ["prodce"],
            ["consume", "-o", "end"],
            ["produce", "--dry-run", "-f", "missing.csv"],
            ["topics", "create"],
            ["topics", "list", "--config", "/dev/null", "-C", "prod"],
        )
    ]
    golden("errors/usage.txt", "\n".join(texts))


def test_with_o_json_an_error_is_a_document_on_stderr(yak):
    for args in (["prodce", "-o", "json"], ["-o", "json", "consume", "--offset", "soon"], ["topics", "lst", "-ojson"]):
        ran = yak(*args)
        assert ran.code == 2
        assert ran.out == ""
        error = json.loads(ran.err)["error"]
        assert set(error) == {"code", "kafka_code", "message", "why", "try"}


def test_unreachable_broker_is_reported_within_the_timeout_with_exit_code_3(yak, golden):
    ran = yak("topics", "list", "-b", "127.0.0.1:1", "--timeout", "500ms")
    assert ran.code == 3
    assert ran.err.startswith("error[unreachable]: no broker answered at 127.0.0.1:1\n  why:  connection refused, 1 ")
    assert "yak doctor -b 127.0.0.1:1" in ran.err


def test_traceback_is_stored_in_a_file_and_named_only_with_v(yak, tmp_path):
    args = ("topics", "list", "-b", "127.0.0.1:1", "--timeout", "200ms")
    ran = yak(*args)
    assert "Traceback" not in ran.err
    kept = tmp_path / "xdg_state_home" / "yak" / "last-error.txt"
    assert "no broker answered" in kept.read_text()
    assert str(kept) not in ran.err
    assert str(kept) in yak(*args, "-v").err


def test_stored_command_line_has_no_secrets_and_other_users_cannot_read_it(yak, tmp_path):
    secrets = ("-c", "ssl.key.password=open sesame=1", "--config-override=delegation.token.secret.key=open sesame")
    yak("serve", "--dry-run", *secrets, "--redis-url", "redis://ann:sesame@h", "-c", "num.partitions=many")
    kept = tmp_path / "xdg_state_home" / "yak" / "last-error.txt"
    shown = "yak serve --dry-run -c ssl.key.password=(set) --config-override=delegation.token.secret.key=(set)"
    assert kept.read_text().startswith(f"{shown} --redis-url redis://ann:***@h -c num.partitions=many\n")
    assert "sesame" not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    yak("ui", "--web", "--token", "sesame", "--nonsense")
    assert "sesame" not in kept.read_text()


def test_a_bug_has_a_file_of_its_own_which_the_message_names(yak, tmp_path, monkeypatch):
    def broken(*_):
        raise ExceptionGroup("tasks", [RuntimeError("the moon is gone")])

    monkeypatch.setattr("yak.commands.settings.Settings.all", broken)
    state = tmp_path / "xdg_state_home" / "yak"
    ran = yak("config", "show")
    assert ran.code == 1
    assert ran.err.startswith("error[internal]: yak has a bug\n  why:  RuntimeError: the moon is gone\n")
    assert "Traceback" not in ran.err
    (kept,) = state.glob("bug-*.txt")
    assert f"try:  less {kept}\n" in ran.err
    assert 'RuntimeError("the moon is gone")' in kept.read_text()
    assert yak("topics", "nonsense").code == 2  # a later error leaves it alone
    assert "the moon is gone" in kept.read_text()


def test_newest_bug_files_are_retained(yak, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("the moon is gone")

    monkeypatch.setattr("yak.commands.settings.Settings.all", broken)
    state = tmp_path / "xdg_state_home" / "yak"
    state.mkdir(parents=True)
    for number in range(30):
        (state / f"bug-20200101-0000{number:02}-1.txt").touch()
    yak("config", "show")
    names = sorted(path.name for path in state.glob("bug-*"))
    assert len(names) == 20
    assert names[-2] == "bug-20200101-000029-1.txt"


def test_qq_says_nothing_at_all(yak):
    ran = yak("topics", "list", "-qq", "-b", "127.0.0.1:1", "--timeout", "200ms")
    assert (ran.code, ran.out, ran.err) == (3, "", "")


def test_a_reader_that_went_away_ends_it_quietly_with_0():
    writer = subprocess.Popen([*PYTHON, "help", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writer.stdout.close()
    assert writer.wait(30) == 0
    assert writer.stderr.read() == b""
    writer.stderr.close()


def test_connection_that_a_broker_closed_is_an_error_and_no_closed_stdout(yak, monkeypatch):
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("yak.commands.options.Globals.broker_that_answers", lambda _g: ("b:1", 1.0))
    monkeypatch.setattr("yak.client.raw_connection.RawConnection", closed)
    ran = yak("acls", "list")
    assert ran.code == 3
    assert "error[unreachable]: the ACLs could not be read\n  why:  b:1 did not answer: " in ran.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_client_command_with_their_code(number, code):
    environment = {**os.environ, "YAK_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    child = subprocess.Popen(
        [*PYTHON, "-v", "produce", "--dry-run", "--tee"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    child.stdin.write(b"one\n")
    child.stdin.flush()
    # Its handlers are set before it reads; it waits in that read until the signal.
    _wait_until_reading(child.pid)
    child.send_signal(number)
    _, err = child.communicate(timeout=20)
    assert child.returncode == code, err
    assert b"Traceback" not in err


def _wait_until_reading(pid: int) -> None:
    import psutil

    process = psutil.Process(pid)
    quiet = 0
    while quiet < 5:
        before = process.cpu_times().user
        try:
            process.wait(0.1)
        except psutil.TimeoutExpired:
            quiet = quiet + 1 if process.cpu_times().user == before else 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["isr", "--unavailable"], "no such option: --unavailable\n  why:  closest: --unavailable-partitions\n"),
        (["produce", "orders", "--csv"], "no such option: --csv\n"),
        (["topics", "alter", "orders", "a=b"], "too many arguments: a=b\n"),
        (["topics", "alter", "orders", "a=b", "c"], "too many arguments: a=b c\n"),
    ],
)
def test_parser_errors_are_printed_with_the_text_of_yak(yak, args, said):
    ran = yak(*args)
    assert ran.code == 2
    assert f"error[usage]: {said}" in ran.err
    assert "Possible" not in ran.err


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["produce", "orders", "--transactional", "--resume"], "yak produce --help"),
        (["transactions", "hanging", "--idle"], "yak transactions hanging --help"),
        (["topics", "list", "--nope"], "yak topics list --help"),
        (["context", "add", "p", "-b", "b:1", "--set", "security_protocol"], "--set security_protocol=SSL"),
        (["brokers", "config", "1", "--set", "log.retention.ms"], "--set log.retention.ms=3600000"),
        (["topics", "create", "orders", "-c", "retention.ms"], "-c retention.ms=60000"),
    ],
)
def test_wrong_usage_is_advised_with_the_help_or_the_option_of_its_command(yak, args, advice):
    ran = yak(*args)
    assert ran.code == 2
    assert ran.err.endswith(f"  try:  {advice}\n")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("delegation.token.secret.key", ["yak serve --properties FILE"]),
        ("ssl.keystore.key", ["yak up --tls", "yak serve --properties FILE"]),
        ("listener.name.external.ssl.keystore.password", ["yak up --tls", "yak serve --properties FILE"]),
    ],
)
def test_up_with_a_secret_is_advised_with_what_replaces_it(yak, name, advice):
    ran = yak("up", "-c", f"{name}=abc", "-o", "json")
    error = json.loads(ran.err)["error"]
    assert error["code"] == "secret-config"
    assert [each.partition("   ")[0] for each in error["try"]] == advice


def test_global_options_are_read_before_and_after_the_command(yak):
    before = yak("-o", "json", "config", "show").out
    assert yak("config", "-o", "json", "show").out == before
    assert yak("config", "show", "-o", "json").out == before
    assert yak("config", "show", "--output=json").out == before
    later_wins = yak("-o", "table", "config", "show", "-o", "json")
    assert later_wins.out == before
    assert yak("-o", "json", "--version").out == yak("version", "-o", "json").out


def test_hidden_names_of_other_tools_are_understood(yak):
    for args in (["--brokers", "h:1"], ["--broker-list=h:1"], ["--bootstrap-servers", "h:1"]):
        rows = {row["name"]: row["value"] for row in json.loads(yak("config", "show", "-o", "json", *args).out)}
        assert rows["bootstrap_servers"] == "h:1"


def test_options_in_front_are_split_from_the_command():
    flags, rest = split_before(["-vv", "-qo", "json", "-bh:1", "--context=c", "topics", "-x"])
    assert (flags.verbose, flags.quiet, flags.output) == (2, 1, "json")
    assert (flags.bootstrap_server, flags.context, rest) == ("h:1", "c", ["topics", "-x"])
    with pytest.raises(UsageError):
        split_before(["--timeout"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["version", "--version"])
def test_output_that_cannot_be_written_ends_with_1_and_the_reason(yak, command, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        ran = subprocess.run([*PYTHON, command], stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[0] == "error[system]: No space left on device"
    assert "Exception ignored" not in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_error_that_cannot_be_written_ends_with_its_exit_code():
    with open("/dev/full", "w") as full:
        assert subprocess.run([*PYTHON, "nosuch"], stderr=full).returncode == 2


def test_command_in_a_deleted_working_directory_names_that_reason(yak, tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    ran = yak("topics", "list")
    assert (ran.code, ran.err.splitlines()[0]) == (1, "error[system]: the working directory does not exist")


def test_shell_completion_offers_commands(yak):
    environment = {**os.environ, "_YAK_COMPLETE": "complete_bash", "COMP_WORDS": "yak to", "COMP_CWORD": "1"}
    ran = subprocess.run([*PYTHON], capture_output=True, text=True, env=environment)
    assert "topics" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("consume", "--max-messages", "abc"), "'-n': it is not a whole number"),
        (("up", "--brokers", "99999"), "'--brokers': it is not from 1 to 64"),
        (("node", "kill", "--", "-5"), "it is less than 0"),
        (("ui", "--fps", "x"), "'--fps': it is not a number"),
        (("ui", "--fps", "99"), "'--fps': it is not from 0.2 to 10"),
        (("up", "--brokers", "9" * 5000), "'--brokers': it is not a whole number"),
        (("node", "kill", "\udce4"), "'NODE': it is not a "),
    ],
)
def test_wrong_number_is_refused_without_the_text_of_the_library(yak, args, said):
    ran = yak(*args)
    assert ran.code == 2
    assert said in ran.err
    assert "input" not in ran.err.lower()
    assert "range" not in ran.err


def test_advice_for_a_mistyped_command_includes_the_arguments_that_follow(yak):
    assert "try:  yak topics list --sort size\n" in yak("topcis", "list", "--sort", "size").err
    assert "try:  yak topics describe 'a b'\n" in yak("topics", "descrbe", "a b").err


@pytest.mark.parametrize("option", ["-p", "-r"])
def test_topics_create_with_less_than_one_is_refused_before_connecting(yak, option):
    ran = yak("topics", "create", "orders", option, "-1", "-b", "127.0.0.1:1")
    assert ran.code == 2
    assert "it is not from 1 to" in ran.err


def test_readonly_advice_removes_what_turned_it_on(yak, monkeypatch):
    assert "try:  leave out --readonly\n" in yak("topics", "create", "x", "--readonly").err
    monkeypatch.setenv("YAK_READONLY", "1")
    assert "try:  YAK_READONLY=0 yak" in yak("topics", "create", "x").err


def test_a_mistyped_topic_is_replaced_in_the_advised_command(monkeypatch, yak):
    def refuse(*_: object, **__: object) -> None:
        raise unknown_topic("ordres", ["orders", "payments"])

    monkeypatch.setattr("yak.commands.topics.describe_topic", refuse)
    monkeypatch.setattr("yak.client.admin.Admin", lambda *_, **__: None)
    assert "yak topics describe orders -o json" in yak("topics", "describe", "ordres", "-o", "json").err
    assert "yak topics describe orders\n" in yak("topics", "describe", "ordres", "--yes").err
