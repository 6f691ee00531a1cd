"""DescribeUserScramCredentials, AlterUserScramCredentials (keys 50 and 51, v0; KIP-554): the users that may log in.

The credentials are configs of a user in the metadata (`yak.cluster.records.USER`). A description names mechanisms and
iterations, never keys. Kafka's ScramImage and ScramControlManager have the errors: a request may change each user once,
so both mechanisms of a user take two requests. Each user has its own result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.cluster.records import USER
from yak.cluster.topic_changes import plan_alter
from yak.errors import ErrorCode, PeerError
from yak.security.scram import BY_CODE, MECHANISMS, Mechanism, ScramCredential, bad_upsertion, bad_user

if TYPE_CHECKING:
    from yak.broker.broker import Broker

SCRAM_ABSENT = ("an empty salt or salted password, which Kafka stores: UNACCEPTABLE_CREDENTIAL",)
_TIMEOUT_MS = 10_000


def describe_user_scram_credentials(broker: Broker, call: Call) -> Outcome:
    """Describe these users; all when none is named."""
    try:
        broker.authorization.check_cluster(call, Operation.DESCRIBE)
    except PeerError as error:
        refused = [_result(user.name, error) | {"credential_infos": []} for user in call.request.users or ()]
        return Now({**error_fields(error), "results": refused})
    known = broker.image.user_credentials
    times = Counter(user.name for user in call.request.users or ()) or dict.fromkeys(sorted(known), 1)
    return Now({"results": [_described(user, known.get(user), number) for user, number in times.items()]})


def _described(user: str, texts: Any, times: int) -> Fields:
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _result(user, PeerError(ErrorCode.duplicate_resource, message)) | {"credential_infos": []}
    if texts is None:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return _result(user, PeerError(ErrorCode.resource_not_found, message)) | {"credential_infos": []}
    parsed = ((MECHANISMS.get(name), ScramCredential.parse(text)) for name, text in sorted(texts.items()))
    infos = [
        {"mechanism": mechanism.code, "iterations": credential.iterations}
        for mechanism, credential in parsed
        if mechanism is not None and credential is not None
    ]
    return _result(user, None) | {"credential_infos": infos}


def alter_user_scram_credentials(broker: Broker, call: Call) -> Outcome:
    """Set and delete credentials; the answer follows when they are in force on this broker.

    Another broker may have just set one that this image lacks: to delete it, the image must be the newest.
    """
    known = broker.image.user_credentials
    lacks = any(
        mechanism is not None and mechanism.name not in known.get(deletion.name, {})
        for deletion in call.request.deletions
        for mechanism in [BY_CODE.get(int(deletion.mechanism))]
    )
    may_alter = broker.authorization.may_see(call, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    return from_newest_image(broker, call, _TIMEOUT_MS, _alter, is_needed=lacks and may_alter)


def _alter(broker: Broker, call: Call) -> Outcome:
    request = call.request
    requested: dict[str, list[Any]] = {}
    for change in (*request.deletions, *request.upsertions):
        requested.setdefault(change.name, []).append(change)

    def build(results: dict[str, PeerError | None]) -> Outcome:
        return Now({"results": [_result(user, results.get(user)) for user in requested]})

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    for user, named in requested.items():
        try:
            broker.authorization.check_cluster(call, Operation.ALTER)
            changes = _changes(broker, user, named)
        except PeerError as error:
            waiting.refuse(user, error)
        else:
            waiting.change(user, plan_alter(USER, user, changes))
    return waiting.outcome()


def _changes(broker: Broker, user: str, requested: Sequence[Any]) -> dict[str, str | None]:
    """The user's changed credential by its mechanism, None for a deletion. Raises PeerError.

    `requested` has the deletions before the upsertions. A request changes a user once, whatever the mechanisms: the
    first change is checked, a second one is a duplicate.
    """
    first = requested[0]
    mechanism = _mechanism(user, first.mechanism)
    credential: str | None = None
    if hasattr(first, "salted_password"):
        salt, salted, iterations = bytes(first.salt), bytes(first.salted_password), first.iterations
        if problem := bad_upsertion(user, salt, salted, iterations):
            raise PeerError(ErrorCode.unacceptable_credential, problem)
        credential = mechanism.credential(salted, salt, iterations).to_text()
    elif mechanism.name not in broker.image.user_credentials.get(user, {}):
        raise PeerError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
    if len(requested) > 1:
        message = "A user credential cannot be altered twice in the same request"
        raise PeerError(ErrorCode.duplicate_resource, message)
    return {mechanism.name: credential}


def _mechanism(user: str, code: int) -> Mechanism:
    """The mechanism of a change. Raises PeerError; an empty name comes first, as in Kafka."""
    if not user:
        raise PeerError(ErrorCode.unacceptable_credential, str(bad_user(user)))
    mechanism = BY_CODE.get(int(code))
    if mechanism is None:
        raise PeerError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    return mechanism


def _result(user: str, error: PeerError | None) -> Fields:
    return {"user": user, **error_fields(error)}


APIS = (
    Api(50, "DescribeUserScramCredentials", range(1), describe_user_scram_credentials),
    Api(51, "AlterUserScramCredentials", range(1), alter_user_scram_credentials, SCRAM_ABSENT),
)
