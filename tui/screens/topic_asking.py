"""Requests of the topic screens, made only while their data is visible, and the answers so far."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from yak.client.admin import ConfigValue
from yak.errors import YakError
from yak.tui.rows.replicas import PartitionDetail
from yak.tui.rows.topic_readers import Message, Reader, reader_of
from yak.tui.rows.topics import TopicFacts
from yak.tui.source.live import path_of
from yak.tui.source.topic_asking import topic_configs

if TYPE_CHECKING:
    from yak.tui.app import YakApp

FACTS_MS: Final = 2_000
DETAIL_MS: Final = 900
OTHER_DETAIL_MS: Final = 3_000
"""The age limit for visible partitions that are not under the cursor."""
DETAILS_MAX: Final = 24
GROUPS_MS: Final = 3_000
CONFIGS_MS: Final = 5_000
TAIL_MS: Final = 900
TAIL_PARTITIONS: Final = 8
TAIL_MESSAGES: Final = 100
"""Records of the whole topic. Each partition is asked for as many, so that the topic's newest are among them."""
GROUPS_MAX: Final = 100
AT_ONCE: Final = 4


class TopicAnswers:
    """All answers about one topic. `errors` has the last error of each kind."""

    def __init__(self, app: "YakApp", topic: str, facts: TopicFacts | None) -> None:
        self._app, self.topic = app, topic
        self.facts = facts
        self.details: dict[int, PartitionDetail] = {}
        self.readers: dict[str, Reader] | None = None
        self.groups_left_out = 0
        self.messages: dict[int, list[Message]] = {}
        self.has_tail = False
        self.configs: list[ConfigValue] = []
        self.errors: dict[str, YakError] = {}
        self._asked_ms: dict[str, int] = {}
        self._begun: dict[str, None] = {}

    def forget(self) -> None:
        """Treat all answers as old."""
        self._asked_ms.clear()

    def configs_by_name(self) -> dict[str, ConfigValue]:
        """The configs by name."""
        return {each.name: each for each in self.configs}

    async def ask(self, wanted: Iterable[str], partitions: Sequence[int]) -> bool:
        """Request those of `facts`, `detail`, `groups`, `configs` and `tail` that are old; return whether any were.

        `partitions` are those whose detail is wanted; the first one is refreshed most often.
        """
        due = []
        for name in wanted:
            if name == "detail":
                due += [
                    self._one(name, f"detail {number}", number)
                    for place, number in enumerate(partitions[:DETAILS_MAX])
                    if self._is_due(f"detail {number}", DETAIL_MS if not place else OTHER_DETAIL_MS)
                ]
            elif self._is_due(name, _AGES[name]):
                due.append(self._one(name, name))
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(question: Coroutine[None, None, None]) -> None:
            async with gate:
                await question

        await asyncio.gather(*map(one, due))
        return bool(due)

    def _is_due(self, key: str, age_ms: int) -> bool:
        """Whether a request is due; if so, it counts as made."""
        now_ms = self._app.now_ms()
        if key in self._begun or now_ms - self._asked_ms.get(key, -(10**9)) < age_ms:
            return False
        self._asked_ms[key] = now_ms
        self._begun[key] = None
        return True

    async def _one(self, name: str, key: str, partition: int = 0) -> None:
        try:
            if name == "facts":
                self.facts = TopicFacts.of(await self._get("topics", self.topic), self._app.now_ms())
            elif name == "detail":
                answer = await self._get("api", "partitions", self.topic, partition)
                self.details[partition] = PartitionDetail.of(answer, self._app.now_ms())
            elif name == "groups":
                await self._ask_groups()
            elif name == "configs":
                self.configs = await self._app.source.kafka(topic_configs, self.topic)
            elif name == "tail":
                await self._ask_tail()
            self.errors.pop(name, None)
        except YakError as error:
            self.errors[name] = error  # shown in place of the answer; the request is repeated when due
        finally:
            self._begun.pop(key, None)

    async def _get(self, *parts: object) -> dict[str, object]:
        found: dict[str, object] = await self._app.source.ask("GET", path_of(*parts))
        return found

    async def _ask_groups(self) -> None:
        listed = await self._app.source.ask("GET", "/api/groups")
        names = [each["group"] for each in listed["groups"]]
        self.groups_left_out = max(0, len(names) - GROUPS_MAX)
        gate, known = asyncio.Semaphore(AT_ONCE), self.readers or {}

        async def one(group: str) -> Reader | None:
            async with gate:
                try:
                    answer = await self._app.source.ask("GET", path_of("api", "groups", group))
                except YakError:
                    return known.get(group)  # its coordinator is moving; the request is repeated soon
            return reader_of(self.topic, answer, known.get(group), self._app.now_ms())

        found = await asyncio.gather(*(one(name) for name in names[:GROUPS_MAX]))
        self.readers = {each.group: each for each in found if each is not None}

    async def _ask_tail(self) -> None:
        partitions = self._app.picture.topics.get(self.topic, [])
        busiest = sorted(partitions, key=lambda each: -(each.moved_ms or 0))[:TAIL_PARTITIONS]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, end: int) -> None:
            held = self.messages.get(number, [])
            if held and held[-1].offset >= end - 1:
                return
            start = max(0, end - TAIL_MESSAGES)
            if self.facts is not None:
                start = max(start, self.facts.log_starts.get(number) or 0)
            params = {"topic": self.topic, "partition": number, "offset": start, "max_messages": TAIL_MESSAGES}
            async with gate:
                answer = await self._app.source.ask("GET", "/consume", params=params)
            self.messages[number] = [Message.of(number, each) for each in answer["records"]]

        await asyncio.gather(
            *(one(each.partition, each.high_watermark or 0) for each in busiest if each.high_watermark)
        )
        self.has_tail = bool(busiest) and all(each.high_watermark is not None for each in busiest)


_AGES: Final = {"facts": FACTS_MS, "groups": GROUPS_MS, "configs": CONFIGS_MS, "tail": TAIL_MS}
