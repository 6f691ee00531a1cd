"""The file of contexts: added, used, forgotten; and what it refuses."""

import stat

import pytest

from tests.errors import raises_error
from yak.client.contexts import add_context, config_path, read_contexts, read_toml, remove_context, use_context
from yak.errors import UsageError


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "deep" / "config.toml")


def test_the_first_context_is_used_and_a_later_one_when_it_is_said(path):
    assert add_context(path, "a", {"bootstrap_servers": "a:1"})
    assert not add_context(path, "b", {"bootstrap_servers": "b:1", "production": True})
    assert read_toml(path)["current"] == "a"
    assert add_context(path, "c", {"bootstrap_servers": "c:1"}, use=True)
    assert use_context(path, "-") == ("a", {"bootstrap_servers": "a:1"})
    assert read_contexts(path)["b"] == {"bootstrap_servers": "b:1", "production": True}


def test_folder_in_place_of_the_file_is_refused_with_the_systems_reason(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_toml(str(tmp_path))
    assert caught.value.why == "Is a directory"


def test_other_tables_of_the_file_stay(path, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.toml").write_text('[keys]\n"topics.create" = "A"\n')
    add_context(path, "a", {"bootstrap_servers": "a:1"})
    assert read_toml(path)["keys"] == {"topics.create": "A"}


def test_only_the_owner_reads_it_for_it_may_hold_secrets(path, tmp_path):
    add_context(path, "a", {"http_token": "secret"})
    assert stat.S_IMODE((tmp_path / "deep" / "config.toml").stat().st_mode) == 0o600
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["config.toml"]


def test_a_forgotten_context_is_not_in_use_any_more(path):
    add_context(path, "a", {"bootstrap_servers": "a:1"})
    remove_context(path, "a")
    assert read_toml(path) == {"contexts": {}} or read_toml(path) == {}
    with raises_error(UsageError, "no-previous-context"):
        use_context(path, "-")


@pytest.mark.parametrize("name", ["", "-"])
def test_names_that_mean_something_else_are_refused(path, name):
    with pytest.raises(UsageError, match="cannot be the name"):
        add_context(path, name, {})


def test_an_unknown_context_is_answered_with_the_closest(path):
    add_context(path, "staging", {})
    for change in (use_context, remove_context):
        with pytest.raises(UsageError) as caught:
            change(path, "stagin")
        assert 'closest: "staging"' in caught.value.why


def test_a_file_that_holds_something_else_is_not_overwritten(path, tmp_path):
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "config.toml"
    for text in ("contexts = 3\n", "[contexts]\na = 1\n", "= broken"):
        file.write_text(text)
        with raises_error(UsageError, "config-file"):
            add_context(path, "a", {})
        assert file.read_text() == text


def test_config_path_follows_flag_variable_and_xdg():
    assert config_path("f", {"YAK_CONFIG": "v"}) == "f"
    assert config_path(None, {"YAK_CONFIG": "v"}) == "v"
    assert config_path(None, {"XDG_CONFIG_HOME": "/x"}) == "/x/yak/config.toml"
