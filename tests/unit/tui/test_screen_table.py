from yak.tui.screens import (
    activity,
    consumer,
    contexts,
    dashboard,
    failover,
    groups,
    messages,
    metadata,
    producer,
    replication,
    security,
    topics,
)
from yak.tui.screens.base import SCREENS

MODULES = (
    activity, consumer, contexts, dashboard, failover, groups, messages, metadata, producer, replication, security,
    topics,
)  # fmt: skip
BY_NAME = {entry.name: entry for entry in SCREENS}


def test_every_screen_of_the_table_is_there_under_its_own_name():
    made = {f"{module.__name__.rpartition('.')[2]}:{name}" for module in MODULES for name in vars(module)}
    assert {entry.place for entry in SCREENS} <= made
    assert sorted(module.__name__.rpartition(".")[2] for module in MODULES) == sorted(BY_NAME)


def test_no_name_and_no_digit_opens_two_screens():
    text = [word for entry in SCREENS for word in (entry.name, *entry.aliases)]
    assert len(text) == len(set(text))
    digits = [entry.digit for entry in SCREENS if entry.digit]
    assert sorted(digits) == sorted("1234567890")


def test_alias_of_a_tab_opens_the_tab():
    security_entry, groups_entry = BY_NAME["security"], BY_NAME["groups"]
    assert security_entry.opens("acls", None) == "acls"
    assert security_entry.opens("security", "") is None
    assert security_entry.opens("security", "quotas") == "quotas"
    assert groups_entry.opens("group", "billing") == "billing"
    assert groups_entry.opens("group", None) is None
