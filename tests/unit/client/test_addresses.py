import pytest

from yak.client.addresses import parse_addresses


def test_addresses_get_the_usual_port():
    assert parse_addresses(" a , b:1,[::1]:2,::1") == "a:9092,b:1,[::1]:2,[::1]:9092"


@pytest.mark.parametrize(
    "bad", ["", ",", "a:x", "a:0", "a:70000", ":9092", "PLAINTEXT://a:9092", "http://a", "a..b", f"{'a' * 64}:1"]
)
def test_text_that_is_no_address_is_refused(bad):
    with pytest.raises(ValueError, match=r"."):
        parse_addresses(bad)
