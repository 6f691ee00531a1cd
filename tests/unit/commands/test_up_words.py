"""What can be said to `yak up`, and what makes no sense together."""

import pytest

from yak.commands.up_words import Action, check_data, check_together, read_action
from yak.errors import UsageError


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (None, None),
        ([], None),
        (["add"], Action("add")),
        (["kill", "3"], Action("kill", 3)),
        (["restart", "1"], Action("restart", 1)),
    ],
)
def test_actions_are_read(words: list[str] | None, action: Action | None) -> None:
    assert read_action(words) == action


@pytest.mark.parametrize(
    "words", [["kill"], ["add", "2"], ["pause", "x"], ["stop", "1"], ["resume", "1", "2"], ["kill", "²"]]
)
def test_what_is_no_action_is_told_which_there_are(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_action(words)
    assert caught.value.code == "bad-up-action"
    assert caught.value.why == "actions are add, and kill, pause, resume, restart with the number of a node"


NOTHING = {"status": False, "down": False, "action": None, "purge": False, "hard": False, "role": None}


@pytest.mark.parametrize(
    "said",
    [
        {"status": True, "down": True},
        {"down": True, "action": Action("add")},
        {"purge": True},
        {"hard": True},
        {"hard": True, "action": Action("kill", 1)},
        {"role": "leader"},
        {"role": "leader", "action": Action("restart", 1)},
    ],
)
def test_what_makes_no_sense_together_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        check_together(**{**NOTHING, **said})  # type: ignore[arg-type]
    assert caught.value.code == "bad-up-action"


def test_what_makes_sense_passes() -> None:
    for said in ({}, {"down": True, "purge": True}, {"hard": True, "action": Action("restart", 1)}):
        check_together(**{**NOTHING, **said})  # type: ignore[arg-type]
    check_together(**{**NOTHING, "role": "leader", "action": Action("add")})  # type: ignore[arg-type]
    check_data(ephemeral=False, keep=True, purge=False, looks_only=False)


def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        check_together(**{**NOTHING, "role": "boss", "action": Action("add")})  # type: ignore[arg-type]
    assert caught.value.code == "bad-role"


@pytest.mark.parametrize("other", ["ephemeral", "purge", "looks_only"])
def test_data_is_kept_or_deleted(other: str) -> None:
    said = {"ephemeral": False, "purge": False, "looks_only": False, other: True}
    with pytest.raises(UsageError) as caught:
        check_data(keep=True, **said)
    assert caught.value.code == "bad-up-action"
