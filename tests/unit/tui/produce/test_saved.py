import os

import pytest

from yak.client.templates.messages import Maker
from yak.errors import UsageError, YakError
from yak.tui.produce.form import Form
from yak.tui.produce.saved import BUILT_IN, TemplateFolder, templates_directory, with_message


@pytest.fixture
def folder(tmp_path):
    return TemplateFolder(str(tmp_path / "yak" / "templates"))


def test_those_that_come_with_yak_can_be_sent():
    for saved in BUILT_IN:
        assert saved.form.problem() is None, saved.name
        make = Maker(saved.form.message(), lambda: 0, seed=1)
        assert make() != make()
        assert saved.about


def test_a_template_is_kept_and_found_again(folder):
    form = Form(topic="t", key="{{i}}", value="hello {{name}}", value_kind="text", headers="a=b", acks="0")
    path = folder.save("my own", form, "greets")
    assert os.path.basename(path) == "my own.json"
    assert folder.names() == ["my own", *(each.name for each in BUILT_IN)]
    found = folder.load("my own")
    assert (found.about, found.is_built_in) == ("greets", False)
    assert found.form == Form(topic="t", key="{{i}}", value="hello {{name}}", value_kind="text", headers="a=b")
    folder.remove("my own")
    assert "my own" not in folder.names()


def test_ones_own_stands_before_one_of_that_name_that_comes_with_yak(folder):
    folder.save("orders", Form(topic="mine", value="{}"))
    assert folder.load("orders").form.topic == "mine"
    assert folder.names().count("orders") == 1
    folder.remove("orders")
    assert folder.load("orders").is_built_in


def test_a_template_leaves_how_it_is_sent_and_a_topic_that_is_named(folder):
    form = with_message(Form(topic="here", partition="1", acks="1"), folder.load("sensor"))
    assert (form.topic, form.partition, form.acks) == ("here", "1", "1")
    assert "celsius" in form.value
    assert with_message(Form(), folder.load("sensor")).topic == "sensors"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a\n"])
def test_a_name_that_is_no_file_is_refused(folder, name):
    with pytest.raises(UsageError) as caught:
        folder.save(name, Form())
    assert caught.value.code == "bad-name"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"key": 1}', '{"value_kind": "yaml"}', '{"is_template": "yes"}', "\udcff"]
)
def test_a_file_that_is_none_says_so(folder, text):
    folder.save("x", Form())
    with open(folder.path_of("x"), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(YakError) as caught:
        folder.load("x")
    assert caught.value.code == "template-unreadable"


def test_what_is_not_there_and_what_cannot_be_written(folder, tmp_path):
    with pytest.raises(UsageError, match='no template "zzz"'):
        folder.load("zzz")
    (tmp_path / "yak").write_text("a file where the directory should be")
    with pytest.raises(YakError) as caught:
        folder.save("x", Form())
    assert caught.value.code == "file"


def test_templates_are_beside_the_config():
    assert templates_directory({"YAK_CONFIG": "/etc/yak/c.toml"}) == "/etc/yak/templates"
    assert templates_directory({"XDG_CONFIG_HOME": "/x"}) == "/x/yak/templates"
    assert templates_directory({}).endswith("/.config/yak/templates")
