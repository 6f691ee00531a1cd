"""The users of one broker alone, from a file."""

import os

import pytest

from yak.errors import UsageError
from yak.security.scram import MECHANISMS, ScramCredential
from yak.server.options import ServeOptions
from yak.server.users_file import read_users_file


def write(tmp_path, text, mode=0o600):
    path = tmp_path / "users"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.chmod(path, mode)
    return str(path)


def test_users_have_a_credential_for_each_mechanism(tmp_path):
    users = read_users_file(write(tmp_path, "# admins\nann:pass:word\n\na,b=c: x\n"))
    assert list(users) == ["ann", "a,b=c"]
    for mechanism in MECHANISMS.values():
        credential = ScramCredential.parse(users["ann"][mechanism.name])
        assert credential.is_password(mechanism, "pass:word")
        assert not credential.is_password(mechanism, "password")


@pytest.mark.parametrize(
    "text", ["ann", "ann:", ":secret", "ann:x\nann:y", "\x01:x", b"\xff:x", "".join(f"u{n}:x\n" for n in range(101))]
)
def test_bad_file_is_refused_without_its_passwords(tmp_path, text):
    with pytest.raises(UsageError) as caught:
        read_users_file(write(tmp_path, text))
    assert caught.value.code == "users-file"
    assert "secret" not in f"{caught.value} {caught.value.why}"


def test_password_may_have_unicodes_line_separators(tmp_path):
    users, (mechanism, *_) = read_users_file(write(tmp_path, "ann:open\u2028sesame")), MECHANISMS.values()
    assert ScramCredential.parse(users["ann"][mechanism.name]).is_password(mechanism, "open\u2028sesame")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_file_that_others_may_use_is_refused(tmp_path, mode):
    with pytest.raises(UsageError, match="cannot be used") as caught:
        read_users_file(write(tmp_path, "ann:secret", mode))
    assert caught.value.try_ == (f"chmod 600 {tmp_path / 'users'}",)


def test_repr_of_the_options_hides_the_credentials(tmp_path):
    users = read_users_file(write(tmp_path, "ann:secret"))
    assert "ann" not in repr(ServeOptions(users=users))


def test_missing_file_is_refused_with_the_systems_message(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_users_file(str(tmp_path / "none"))
    assert caught.value.why == "no such file or directory"
