from yak.tui.keys import SCREENS

BY_NAME = {entry.name: entry for entry in SCREENS}


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
