"""Connections to a listener with SASL on a simulated broker, request by request, for tests."""

from kio.schema.errors import ErrorCode

from tests.rig import Rig
from yak.security.oauth_messages import OAUTHBEARER, TokenMessage
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, ScramClient

METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 3, 17, 18, 36
PASSWORD, SALT = "pass=word,", b"salt of the user"
ALL = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"
NAMES = ("ann", "a,b=c")


def make_rig(**configs):
    made = Rig(settings={"sasl.enabled.mechanisms": ALL} | {name.replace("_", "."): v for name, v in configs.items()})
    for mechanism in MECHANISMS.values():
        salted = mechanism.salt_password(PASSWORD, SALT, 4096)
        users = [
            {"name": name, "mechanism": mechanism.code, "iterations": 4096, "salt": SALT, "salted_password": salted}
            for name in NAMES
        ]
        made.ask(51, 0, deletions=[], upsertions=users)
    return made


class Client:
    """A connection to a listener with SASL."""

    def __init__(self, rig):
        self.rig, self.channel = rig, rig.new_client()
        self.connection_id = self.channel.connection_id
        self.connection = rig.node.broker.connections[self.connection_id]
        rig.node.broker.logins.begin(self.connection)

    @property
    def is_open(self):
        return self.connection_id in self.rig.node.broker.connections

    def ask(self, api_key, version, **fields):
        return self.rig.ask(api_key, version, client=self.channel, **fields)

    def handshake(self, mechanism, version=1):
        return self.ask(HANDSHAKE, version, mechanism=mechanism)

    def token(self, raw):
        return self.ask(AUTHENTICATE, 2, auth_bytes=raw)

    def metadata(self):
        return self.ask(METADATA, 9, topics=[], allow_auto_topic_creation=False)

    def log_in(self, mechanism, user="ann", password=PASSWORD, *, is_token=False):
        """The last answer."""
        assert self.handshake(mechanism).error_code == ErrorCode.none
        if mechanism == "PLAIN":
            return self.token(PlainToken(user, password).encode())
        if mechanism == OAUTHBEARER:
            return self.token(TokenMessage(password, user).encode())
        scram = ScramClient(MECHANISMS[mechanism], user, password, b"nonce of the client", is_token=is_token)
        answer = self.token(scram.final(self.token(scram.first()).auth_bytes))
        if answer.error_code == ErrorCode.none:
            scram.check(answer.auth_bytes)
        return answer
