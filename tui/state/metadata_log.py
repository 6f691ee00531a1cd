"""The metadata log as far as it was read: records by offset, page by page, and what is missing. Pure."""

from collections.abc import Mapping
from typing import Any, Final

PAGE_RECORDS: Final = 100
RECORDS_MAX: Final = 20_000
"""Kept at most; the ones farthest from where the user is go first."""


class MetadataLog:
    """Records from `begin` to `end`; `records` has those that were read."""

    def __init__(self) -> None:
        self.begin = 0
        self.end = -1
        self.source = ""
        self.records: dict[int, Mapping[str, Any]] = {}
        self.topic_names: dict[str, str] = {}
        """By topic id, also of topics that are gone, as far as they were read about."""
        self.version = 0

    def __len__(self) -> int:
        return self.end - self.begin + 1 if self.is_loaded else 0

    @property
    def is_loaded(self) -> bool:
        """Whether an answer was taken."""
        return self.end >= 0

    def take(self, page: Mapping[str, Any], near: int | None = None) -> bool:
        """A page. Where it does not go on from what is known, as after a restore, that is forgotten: False.

        `near` is where the user is. What brokers have as their own copy (`source` is `copy`) may begin later and end earlier than the
        log: it takes nothing away.
        """
        is_same = all(
            self.records[each["offset"]]["hash"] == each["hash"]
            for each in page["records"]
            if each["offset"] in self.records
        )
        is_copy = page["source"] == "copy"
        if not is_same or (page["end"] < self.end and not is_copy):
            self.__init__()  # type: ignore[misc]  # begins anew
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
        """Names of topics that records tell of by id only."""
        before = len(self.topic_names)
        self.topic_names.update((each["topicUUID"], each["name"]) for each in image["topics"])
        self.version += len(self.topic_names) != before

    def missing(self, first: int, last: int) -> list[int]:
        """The first offsets of the pages that are not known, of those with the records from `first` to `last`."""
        wanted: list[int] = []
        for offset in range(max(first, self.begin), min(last, self.end) + 1):
            start = max(self.begin, offset - offset % PAGE_RECORDS)
            if offset not in self.records and start not in wanted:
                wanted.append(start)
        return wanted

    def time_ms(self, offset: int) -> float | None:
        """When a record was written, if it was read."""
        record = self.records.get(offset)
        return None if record is None else record["timestamp"] * 1000

    def _thin(self, near: int) -> None:
        kept = sorted(self.records, key=lambda offset: abs(offset - near))[: RECORDS_MAX // 2]
        kept += [offset for offset in (self.begin, self.end) if offset in self.records]
        self.records = {offset: self.records[offset] for offset in sorted(set(kept))}
