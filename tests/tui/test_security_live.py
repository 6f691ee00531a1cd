"""The security screen on a broker with logins and ACLs: as a super user, and as a user who may read nothing."""

import asyncio
from contextlib import asynccontextmanager, closing

import pytest
from driving import fill_in, texts, until
from support.raft_cluster import RaftCluster
from textual.widgets import Input

from yak.acls.bindings import bindings_of
from yak.client.admin import Admin
from yak.client.login import ClientLogin, use_login
from yak.client.users import set_password
from yak.tui.app import YakApp
from yak.tui.settings import UiSettings
from yak.tui.source import security
from yak.tui.source.live import LiveSource
from yak.tui.widgets.dialogs import ConfirmDialog
from yak.tui.widgets.grid import Grid

PATIENCE_S = 40.0
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = ("admin", "ann")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("security")
    users = folder / "users"
    users.write_text("".join(f"{user}:secret-of-{user}\n" for user in USERS))
    users.chmod(0o600)
    flags = ["--users-file", str(users)]
    for config in (
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        f"authorizer.class.name={AUTHORIZER}",
        "super.users=User:admin",
    ):
        flags += ["-c", config]
    with closing(RaftCluster(folder, brokers=1, voters=1, flags=tuple(flags))) as cluster:
        yield cluster.start()


@pytest.fixture
def log_in():
    yield lambda user: use_login(ClientLogin("SCRAM-SHA-256", user, f"secret-of-{user}"))
    use_login(None)


def table(app, name):
    return next(iter(app.screen_below().query(f"#{name}").results(Grid)), None)


def lines(app, name):
    grid = table(app, name)
    return [] if grid is None else texts(grid)


@asynccontextmanager
async def on_security(broker, tab):
    app = YakApp(LiveSource(broker.bootstrap, title="test"), UiSettings(start="security", start_with=tab))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: table(app, tab) is not None and app.focused is table(app, tab), "focus")
        yield app, pilot
        assert app._exception is None


async def remove(app, pilot, typed=""):
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not isinstance(app.screen, ConfirmDialog):  # a table that is being read has no line for a moment
        assert asyncio.get_running_loop().time() < deadline, "no question"
        await pilot.press("X")
        await pilot.pause(0.5)  # before it is pressed again
    if typed:
        app.screen.query_one("#typed", Input).value = typed
    await pilot.press("enter" if typed else "y")


async def test_super_user_adds_and_removes_acls(broker, log_in):
    log_in("admin")

    async with on_security(broker, "acls") as (app, pilot):
        await pilot.press("a")
        await fill_in(pilot, principal="ann", name="orders")
        expected = ["User:ann", "allow", "read", "topic orders", "literal", "*"]
        await until(pilot, lambda: lines(app, "acls") == [expected], "ACL")
        acl = next(bindings_of({"TOPIC,LITERAL,orders": {"ALLOW,READ,*,User:ann": ""}}))
        assert list(security.list_acls(broker.bootstrap).values()) == [acl]
        await remove(app, pilot)
        await until(pilot, lambda: lines(app, "acls") == [], "removal")
        assert security.list_acls(broker.bootstrap) == {}


async def test_super_user_sets_and_removes_quotas(broker, log_in):
    log_in("admin")

    async with on_security(broker, "quotas") as (app, pilot):
        await pilot.press("a")
        await fill_in(pilot, user="ann", client_id="<default>", value="1000000")
        expected = ["user=ann,client-id=<default>", "producer_byte_rate", "1 000 000 B/s"]
        await until(pilot, lambda: lines(app, "quotas") == [expected], "quota")
        assert [each.value for each in security.list_quotas(broker.bootstrap).values()] == [1_000_000.0]
        await remove(app, pilot)
        await until(pilot, lambda: lines(app, "quotas") == [], "removal")
        assert security.list_quotas(broker.bootstrap) == {}


async def test_super_user_removes_a_user(broker, log_in):
    log_in("admin")

    for user in ("cid", "dan"):
        set_password(Admin(broker.bootstrap), user, "secret", ("SCRAM-SHA-256", "SCRAM-SHA-512"), 4096)

    async with on_security(broker, "users") as (app, pilot):
        mechanisms = ["SCRAM-SHA-256, SCRAM-SHA-512", "4 096"]
        await until(pilot, lambda: lines(app, "users") == [["cid", *mechanisms], ["dan", *mechanisms]], "users")
        table(app, "users").move_to("dan")
        await remove(app, pilot, typed="dan")
        await until(pilot, lambda: [line[0] for line in lines(app, "users")] == ["cid"], "removal")
        assert set(security.list_users(broker.bootstrap)) == {"cid"}


async def test_user_without_rights_sees_the_needed_acl(broker, log_in):
    log_in("ann")

    async with on_security(broker, "users") as (app, pilot):
        needs = {"users": "describe", "acls": "describe", "quotas": "describe-configs"}
        await until(pilot, lambda: all("need" in table(app, name)._empty for name in needs), "refusals")
        for name, operation in needs.items():
            said = table(app, name)._empty
            assert "Cluster authorization failed" in said
            assert said.endswith(f"yak acls add --allow USER --operation {operation} --cluster")
