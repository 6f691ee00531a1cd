from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.contexts import add_context
from yak.commands import ui
from yak.commands.app import as_arguments
from yak.commands.options import Flags, Globals, split_before
from yak.commands.ui import check_web
from yak.errors import UsageError
from yak.tui.settings import UiSettings
from yak.tui.web import launch
from yak.tui.web.options import WebOptions

VALUES = st.none() | st.text("ab=-/: ", min_size=1)
FLAGS = st.builds(
    Flags,
    context=VALUES,
    bootstrap_server=VALUES,
    output=VALUES,
    timeout=VALUES,
    config=VALUES,
    quiet=st.integers(0, 2),
    verbose=st.integers(0, 3),
    readonly=st.booleans(),
    no_color=st.booleans(),
    local=st.booleans(),
)


@given(FLAGS)
def test_child_process_receives_the_global_arguments_of_its_parent(flags):
    assert split_before([*as_arguments(flags), "ui"]) == (flags, ["ui"])


@pytest.mark.parametrize("args", [("--port", "1"), ("--host", "127.0.0.1"), ("--token", "x")])
def test_ui_options_for_browsers_need_web(yak, args):
    ran = yak("ui", *args)
    assert ran.code == 2
    assert f"{args[0]} needs --web" in ran.err


def test_lines_are_not_for_browsers():
    with pytest.raises(UsageError):
        check_web(True, plain=True)
    check_web(True, plain=False, port=0)


def test_an_open_address_is_refused_before_anything_starts(yak):
    ran = yak("ui", "--web", "--demo", "--host", "0.0.0.0")
    assert ran.code == 2
    assert ran.err.startswith("error[open-to-all]: ")
    assert "starting" not in ran.err


@pytest.mark.parametrize(("args", "extra", "package"), [((), "ui", "textual"), (("--web",), "web", "textual_serve")])
def test_an_install_without_the_extra_names_it(yak, monkeypatch, args, extra, package):
    monkeypatch.setattr(ui, "find_spec", lambda name: None if name == package else object())
    ran = yak("ui", *args)
    assert ran.code == 2
    assert ran.err.startswith("error[ui-not-installed]: ")
    assert package in ran.err
    assert f"pip install 'yak-broker[{extra}]'" in ran.err


@pytest.fixture
def served(monkeypatch):
    """The words after `ui` that a tab would be started with."""
    found = []
    monkeypatch.setattr(launch, "yak_argv", lambda *args: list(args))
    monkeypatch.setattr(launch, "serve", lambda _options, argv, **_how: found.extend(argv))
    return found


def run(*args, demo=False):
    launch.run(WebOptions(), args, say=print, warn=print, demo=demo, keep=False)


def test_a_tab_gets_the_line_as_it_was(served):
    run("--readonly", "--", "messages", "--odd-topic")
    assert served == ["ui", "--readonly", "--", "messages", "--odd-topic"]


def test_a_tab_of_a_demo_gets_its_cluster_before_the_screen(served, monkeypatch):
    @contextmanager
    def cluster(**_how):
        yield "127.0.0.1:7", "/demo"

    monkeypatch.setattr(launch, "demo_cluster", cluster)
    run("--bootstrap-server=old:1", "--", "topics", demo=True)
    assert served == [
        "ui", "--bootstrap-server=old:1", "--bootstrap-server=127.0.0.1:7", "--data-dir=/demo", "--", "topics",
    ]  # fmt: skip


def test_a_demo_that_does_not_start_says_why_and_is_closed(monkeypatch):
    from yak.tui.demo.state import DemoState

    closed = []

    class Failing:
        data_dir = "/demo"

        def __init__(self, **_how):
            self.state = DemoState()

        def start(self):
            self.state.take({"kind": "error", "code": "port-in-use", "message": "taken", "why": "", "try_": []})
            self.on_change()

        def close(self):
            closed.append(self)

    monkeypatch.setattr(launch, "DemoRun", Failing)
    with pytest.raises(Exception, match="taken"), launch.demo_cluster(keep=False, say=print):
        pass
    assert len(closed) == 1


@pytest.mark.parametrize(("args", "token"), [((), "of-the-variable"), (("--token", "of-the-line"), "of-the-line")])
def test_a_token_comes_from_the_line_or_from_a_variable_that_no_list_of_processes_shows(yak, monkeypatch, args, token):
    found = []
    monkeypatch.setenv("YAK_UI_TOKEN", "of-the-variable")
    monkeypatch.setattr(launch, "run", lambda options, tab, **_how: found.append((options, tab)))
    assert yak("ui", "--web", "--readonly", *args, "activity").code == 0
    ((options, tab),) = found
    assert options == WebOptions(token=token, readonly=True)
    assert tab == ["--readonly", "--fps=4.0", "--", "activity"]


def test_public_tab_knows_its_own_context_only_and_offers_no_first_run(tmp_path, monkeypatch):
    monkeypatch.setenv("YAK_UI_PUBLIC", "1")
    path = str(tmp_path / "config.toml")
    for name in ("one", "two"):
        add_context(path, name, {"bootstrap_servers": f"{name}.example:9092"})
    g = Globals.resolve(Flags(config=path, context="two", readonly=True))
    settings = ui._settings(g, None, None, ui.ScreenOptions())
    assert list(settings.contexts) == ["two"]
    assert not ui.is_first_run(g, UiSettings(is_public=settings.is_public))


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "ann", "sasl_password": "secret"}
OAUTH = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "file:///run/token",
}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {**LOGIN, "sasl_username": "bob"},
        {**LOGIN, "security_protocol": "SASL_SSL"},
        {"ssl_ca_location": "ca"},
        OAUTH,
    ],
)
@pytest.mark.parametrize("is_from", [True, False])
def test_context_with_another_login_is_not_used_by_the_one_of_this_cluster(tmp_path, other, is_from):
    path = str(tmp_path / "config.toml")
    add_context(path, "one", {"bootstrap_servers": "one.example:9092", **LOGIN})
    add_context(path, "two", {"bootstrap_servers": "two.example:9092", **other})
    here, there = ("one", "two") if is_from else ("two", "one")
    g = Globals.resolve(Flags(config=path, context=here))
    with pytest.raises(UsageError) as refused:
        ui._other(g, UiSettings(), there)
    assert refused.value.code == "other-login"


@pytest.mark.parametrize("login", [{}, LOGIN, OAUTH])
def test_context_with_the_same_login_is_used(tmp_path, login):
    path = str(tmp_path / "config.toml")
    for name in ("one", "two"):
        add_context(path, name, {"bootstrap_servers": f"{name}.example:9092", **login})
    source = ui._other(Globals.resolve(Flags(config=path, context="one")), UiSettings(), "two")
    assert (source.title, source.bootstrap) == ("two", "two.example:9092")


def test_keep_without_a_demo_is_refused(yak):
    ran = yak("ui", "--keep")
    assert ran.code == 2
    assert "--keep goes with --demo" in ran.err
