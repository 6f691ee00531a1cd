"""Controlled shutdown of a broker over HTTP: this one, or another by a request to it."""

import os
import signal
from typing import Final

import trio

from yak.cluster.image import BrokerInfo
from yak.ids import NodeId
from yak.lifecycle.liveness import is_serving
from yak.server.http.context import Context
from yak.server.http.other_brokers import OtherAnswer, ask_broker
from yak.server.http.problems import Problem

_ANSWER_FIRST_SECONDS: Final = 0.05
"""The client gets its answer before the connections are closed."""

_ASKED: Final = "shutdown"


def find_broker(context: Context, node_id: NodeId) -> BrokerInfo:
    """A running broker. Raises Problem: 404 `broker-id-not-registered`, 409 `broker-not-running`."""
    brokers = context.broker.image.brokers
    info = brokers.get(node_id)
    if info is None:
        known = ", ".join(map(str, sorted(brokers))) or "none"
        raise Problem(404, "broker-id-not-registered", f"broker {node_id} does not exist", f"brokers are {known}")
    if not is_serving(info):
        raise Problem(
            409,
            "broker-not-running",
            f"broker {node_id} is {info.state.value}",
            "only an active broker can be shut down",
        )
    return info


def stop_this_broker(context: Context) -> None:
    """Like SIGTERM: leaderships are moved away, the logs are flushed, the process ends."""

    shutdown = context.broker.shutdown
    if shutdown.is_stopping or shutdown.is_draining or context.parts.get(_ASKED):
        return  # a second SIGTERM would end the process at once
    context.parts[_ASKED] = True

    async def stop() -> None:
        await trio.sleep(_ANSWER_FIRST_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    context.shell.nursery.start_soon(stop)


async def stop_broker(context: Context, info: BrokerInfo, authorization: str | None) -> OtherAnswer | None:
    """Start the shutdown of a broker; returns the other broker's answer if it refused. Raises Problem 503."""
    if info.node_id == context.broker.node_id:
        stop_this_broker(context)
        return None
    headers = {} if authorization is None else {"authorization": authorization}
    answer = await ask_broker(info, "POST", f"/api/brokers/{info.node_id}/shutdown", headers=headers)
    return None if answer.status == 202 else answer
