"""The password of an address of Redis: where it comes from, and that nothing shows it."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import UsageError
from yak.security.redis_url import has_password, refuse_password, with_password, without_password
from yak.server.redis_client import RedisAddress

SECRET = "odd:/@secret"
URLS = ["redis://{}h:1/0", "rediss://{}h:1/2?ssl_ca_certs=/ca.pem", "unix://{}/tmp/redis.sock?db=1"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("user", ["", "yak"])
def test_password_comes_from_the_environment(url, user):
    found = with_password(url.format(f"{user}@" if user else ""), {"YAK_REDIS_PASSWORD": SECRET})
    address = RedisAddress.parse(found)
    assert (address.username, address.password) == (user, SECRET)


@pytest.mark.parametrize("url", URLS)
def test_password_comes_from_its_file_before_the_environment(url, file):
    joined = "&" if "?" in url else "?"
    found = with_password(f"{url.format('yak@')}{joined}password_file={file}", {"YAK_REDIS_PASSWORD": "other"})
    assert "password_file" not in found
    assert RedisAddress.parse(found).password == SECRET
    plain = RedisAddress.parse(url.format("yak@"))
    assert RedisAddress.parse(found).database == plain.database
    assert RedisAddress.parse(found).ca_file == plain.ca_file


def test_password_of_the_address_goes_first():
    url = f"redis://yak:{quote(SECRET, safe='')}@h:1/0"
    assert with_password(url, {"YAK_REDIS_PASSWORD": "other"}) == url


def test_address_without_a_password_stays():
    assert with_password("redis://h:1/0", {}) == "redis://h:1/0"


@pytest.mark.parametrize(("mode", "text"), [(0o640, "x"), (0o600, ""), (0o600, "\n")])
def test_file_that_others_read_or_that_is_empty_is_refused(tmp_path, mode, text):
    path = tmp_path / "password"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UsageError) as refused:
        with_password(f"redis://h/0?password_file={path}", {})
    assert refused.value.code == "redis-password"


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError):
        RedisAddress.parse(f"redis://h/0?password_file={tmp_path}/none")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=3).map(lambda text: f"Q{text}Q"))
def test_displayed_address_has_no_password(password):
    quoted = quote(password, safe="")
    for url in (f"redis://yak:{quoted}@h:1/0", f"unix://:{quoted}@/p?db=0", f"redis://h:1/0?password={quoted}"):
        assert has_password(url)
        shown = without_password(f'the store at {url} and "{url}" answers')
        assert quoted not in shown
        assert "the store at" in shown
        with pytest.raises(UsageError) as refused:
            refuse_password(url)
        assert quoted not in f"{refused.value.message} {refused.value.why} {refused.value.try_}"
    assert password not in repr(RedisAddress.parse(f"redis://yak:{quoted}@h:1/0"))


@pytest.mark.parametrize("url", ["redis://h:1/0", "redis://yak@h:1/0?password_file=/f", "no address", "redis://[::1/0"])
def test_address_without_a_password_is_displayed_unchanged(url):
    assert without_password(url) == url
    refuse_password(url)


@pytest.mark.parametrize("password", ["open@sesame", "open:sesame", ":open@sesame:"])
def test_unquoted_signs_in_a_password_hide_all_of_it(password):
    assert without_password(f"no answer from redis://yak:{password}@h:1/0") == "no answer from redis://yak:***@h:1/0"
