import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from yak.security.distinguished_names import rfc2253


def der(*parts: tuple[ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts]).public_bytes()


def test_name_is_written_from_the_last_attribute_to_the_first() -> None:
    name = der((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Yak"), (NameOID.COMMON_NAME, "alice"))
    assert rfc2253(name) == "CN=alice,O=Yak,C=DE"


def test_name_has_the_keywords_of_rfc_2253() -> None:
    oids = (
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.USER_ID,
        NameOID.DOMAIN_COMPONENT,
    )
    assert rfc2253(der(*((oid, "x") for oid in oids))) == "DC=x,UID=x,OU=x,STREET=x,L=x,ST=x"


def test_attribute_without_a_keyword_is_its_number_and_hexadecimal_value() -> None:
    assert rfc2253(der((NameOID.EMAIL_ADDRESS, "a@b"))) == "1.2.840.113549.1.9.1=#1603614062"


def test_attributes_of_one_set_are_joined_by_a_plus_sign() -> None:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    name = x509.Name([x509.RelativeDistinguishedName(parts)]).public_bytes()
    assert set(rfc2253(name).split("+")) == {"CN=a", "UID=b"}


def test_special_characters_and_outer_blanks_are_escaped() -> None:
    assert (
        rfc2253(der((NameOID.COMMON_NAME, ' a, b+c="d"<e>;#\\ '))) == 'CN=\\ a\\, b\\+c\\=\\"d\\"\\<e\\>\\;\\#\\\\\\ '
    )


def test_value_of_blanks_alone_is_escaped_in_whole() -> None:
    assert rfc2253(der((NameOID.COMMON_NAME, "  "))) == "CN=\\ \\ "


@given(st.lists(st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text), min_size=1, max_size=5))
def test_each_value_can_be_read_back(values: list[str]) -> None:
    text = rfc2253(der(*((NameOID.ORGANIZATIONAL_UNIT_NAME, value) for value in values)))
    found, current, escaped = [], "", False
    for character in text:
        if escaped or character not in "\\,":
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        else:
            found.append(current)
            current = ""
    assert [each.removeprefix("OU=") for each in reversed([*found, current])] == values


@given(st.binary(max_size=60))
def test_bytes_that_are_no_name_raise_value_error(data: bytes) -> None:
    try:
        rfc2253(data)
    except ValueError:
        return
    assert data[0] == 0x30


@given(st.data())
def test_name_that_is_cut_raises_value_error(data: st.DataObject) -> None:
    whole = der((NameOID.COMMON_NAME, "alice"), (NameOID.ORGANIZATION_NAME, "Yak"))
    with pytest.raises(ValueError, match="ends early"):
        rfc2253(whole[: data.draw(st.integers(0, len(whole) - 1))])
