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
    topics,
)
from yak.tui.screens.table import BY_NAME, SCREENS

MODULES = (
    activity, consumer, contexts, dashboard, failover, groups, messages, metadata, producer, replication, topics,
)  # fmt: skip


def test_every_screen_of_the_table_is_there_under_its_own_name():
    made = {f"{module.__name__.rpartition('.')[2]}:{name}" for module in MODULES for name in vars(module)}
    assert {entry.place for entry in SCREENS} <= made
    assert sorted(module.__name__.rpartition(".")[2] for module in MODULES) == sorted(BY_NAME)


def test_no_word_and_no_digit_goes_to_two_screens():
    words = [word for entry in SCREENS for word in (entry.name, *entry.aliases)]
    assert len(words) == len(set(words))
    digits = [entry.digit for entry in SCREENS if entry.digit]
    assert sorted(digits) == sorted("1234567890")
