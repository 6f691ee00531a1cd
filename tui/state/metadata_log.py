"""The metadata log as far as it was read: records by offset, page by page, and the missing pages. Pure."""

from collections.abc import Mapping
from typing import Any, Final

PAGE_RECORDS: Final = 100
RECORDS_MAX: Final = 20_000
"""The most records buffered; those farthest from the user's position are dropped first."""


class MetadataLog:
    """Records from `begin` to `end`; `records` has those that were read."""

    def __init__(self) -> None:
        self.begin = 0
        self.end = -1
        self.source = ""
        self.records: dict[int, Mapping[str, Any]] = {}
        self.topic_names: dict[str, str] = {}
        """Names by topic id, also of deleted topics, as far as their records were read."""
        self.version = 0

    def __len__(self) -> int:
        return self.end - self.begin + 1 if self.is_loaded else 0

    @property
    def is_loaded(self) -> bool:
        return self.end >= 0

    def take(self, page: Mapping[str, Any], near: int | None = None) -> bool:
        """Take a page; False if its records differ from the known ones. `near` is the user's position.

        If the page contradicts the known log, as after a restore, everything known is dropped. A broker's own copy
        (`source` is `copy`) may begin later and end earlier than the log: a shorter copy drops nothing.
        """
        is_same = all(
            self.records[each["offset"]]["hash"] == each["hash"]
            for each in page["records"]
            if each["offset"] in self.records
        )
        is_copy = page["source"] == "copy"
        if not is_same or (page["end"] < self.end and not is_copy):
            self.__init__()  # type: ignore[misc]  # starts again, empty
        self.source = page["source"]
        if is_copy and self.is_loaded:
            self.begin, self.end = min(self.begin, page["begin"]), max(self.end, page["end"])
        else:
            self.begin, self.end = page["begin"], page["end"]
        before = len(self.records)
        for each in page["records"]:
            self.records[each["offset"]] = each
            if each["kind"] == "Topic":
                self.topic_names[each["record"]["topicUUID"]] = each["record"]["name"]
        self.version += 1
        if len(self.records) > RECORDS_MAX and len(self.records) > before:
            self._thin(self.end if near is None else near)
        return is_same

    def learn_names(self, image: Mapping[str, Any]) -> None:
        """Learn the names of topics that records give by id only."""
        before = len(self.topic_names)
        self.topic_names.update((each["topicUUID"], each["name"]) for each in image["topics"])
        self.version += len(self.topic_names) != before

    def missing(self, first: int, last: int) -> list[int]:
        """The first offsets of the missing pages that cover the records from `first` to `last`."""
        wanted: list[int] = []
        for offset in range(max(first, self.begin), min(last, self.end) + 1):
            start = max(self.begin, offset - offset % PAGE_RECORDS)
            if offset not in self.records and start not in wanted:
                wanted.append(start)
        return wanted

    def time_ms(self, offset: int) -> float | None:
        """When a record was written; None if it was not read."""
        record = self.records.get(offset)
        return None if record is None else record["timestamp"] * 1000

    def _thin(self, near: int) -> None:
        retained = sorted(self.records, key=lambda offset: abs(offset - near))[: RECORDS_MAX // 2]
        retained += [offset for offset in (self.begin, self.end) if offset in self.records]
        self.records = {offset: self.records[offset] for offset in sorted(set(retained))}
