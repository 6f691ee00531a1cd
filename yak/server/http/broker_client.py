"""The broker client of the handlers: sends Kafka requests to this broker or to another one.

    topics = await broker_client.ask(METADATA, {"topics": None})
    answer = await broker_client.ask(PRODUCE, fields, node_id=leader)

Fields are plain values by kio's names (see `yak.protocol.response_encoder`); the answer is kio's object.
"""

from collections.abc import Mapping
from typing import Any, Final

import trio

from yak.broker.apis import TABLE
from yak.broker.broker import Broker
from yak.errors import ProtocolViolation
from yak.ids import NodeId
from yak.protocol.codec import decode_response, encode_request
from yak.server.http.problems import Problem
from yak.server.http.remote import RemoteBrokers, RemoteLost
from yak.server.in_process import Closed, InProcess

CLIENT_ID: Final = "yak-http"
TIMEOUT_SECONDS: Final = 30.0


class BrokerClient:
    """Sends requests to this broker, or to another by its node id."""

    def __init__(self, broker: Broker, in_process: InProcess) -> None:
        self._broker = broker
        self._in_process = in_process
        self._remote = RemoteBrokers()

    async def ask(
        self,
        api_key: int,
        fields: Mapping[str, object],
        *,
        node_id: NodeId | None = None,
        timeout_s: float = TIMEOUT_SECONDS,
        version: int | None = None,
    ) -> Any:
        """Send a request and wait for the answer. Without a node id this broker answers.

        Raises Problem: 503 `broker-unreachable` when the other broker cannot be reached, 504 `no-answer` on a timeout.
        """
        version = max(TABLE[api_key].VERSIONS) if version is None else version
        frame = encode_request(api_key, version, 0, CLIENT_ID, fields)
        try:
            with trio.fail_after(timeout_s):
                answer = await self._exchange(frame, node_id)
            return decode_response(api_key, version, answer)
        except trio.TooSlowError:
            raise Problem(
                504, "no-answer", f"node {self._name(node_id)} did not answer within {timeout_s:g} s", "try again"
            ) from None
        except (RemoteLost, Closed, ProtocolViolation) as error:
            raise Problem(
                503,
                "broker-unreachable",
                f"node {self._name(node_id)} did not answer: {error}",
                "it may be restarting: retry; GET /get_active_brokers lists the live brokers",
            ) from None

    async def tell(self, api_key: int, version: int, fields: Mapping[str, object], node_id: NodeId) -> None:
        """Send a request without an answer (acks=0). Raises Problem 503 `broker-unreachable` when it cannot be sent."""
        frame = encode_request(api_key, version, 0, CLIENT_ID, fields)
        try:
            if node_id == self._broker.node_id:
                self._in_process.tell(frame, CLIENT_ID)
                return
            info = self._broker.image.brokers.get(node_id)
            if info is None:
                raise RemoteLost("it is not registered")
            with trio.fail_after(TIMEOUT_SECONDS):
                await self._remote.tell(info.host, info.port, frame)
        except (RemoteLost, Closed, trio.TooSlowError) as error:
            raise Problem(
                503, "broker-unreachable", f"node {node_id} rejected the request: {error}", "try again"
            ) from None

    async def _exchange(self, frame: bytes, node_id: NodeId | None) -> bytes:
        if node_id is None or node_id == self._broker.node_id:
            return await self._in_process.ask(frame, CLIENT_ID)
        info = self._broker.image.brokers.get(node_id)
        if info is None:
            raise RemoteLost("it is not registered")
        return await self._remote.ask(info.host, info.port, frame)

    def _name(self, node_id: NodeId | None) -> NodeId:
        return self._broker.node_id if node_id is None else node_id
