"""The body of a response, without its length and header."""

from yak.protocol.codec import encode_response
from yak.protocol.response_encoder import Fields
from yak.protocol.schemas import load_response_schema
from yak.protocol.versions import API_VERSIONS


def encode_response_body(api_key: int, api_version: int, fields: Fields) -> bytes:
    has_tags = api_key != API_VERSIONS and load_response_schema(api_key, api_version).__flexible__
    return b"".join(map(bytes, encode_response(api_key, api_version, 0, fields)))[9 if has_tags else 8 :]
