"""The CSV form of a record: the output of `consume -o csv`, a header line and a line for each record.

    topic,partition,offset,timestamp,key,value,headers

Bytes that are not UTF-8 are base64; headers are JSON as in `record_json`, and empty when there are none.
"""

import json
from collections.abc import Callable
from typing import Final

from yak.client.consumer import ConsumerRecord
from yak.client.csv_files import csv_row
from yak.client.record_json import record_document
from yak.plain_text import spreadsheet_cell

CSV_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def csv_header() -> str:
    """The line of names."""
    return ",".join(CSV_COLUMNS) + "\n"


def csv_line(record: ConsumerRecord, when: Callable[[int], str], *, formulas: bool = False) -> str:
    """One record; `when` formats a timestamp in ms.

    Unless `formulas`, a key or value that a spreadsheet would evaluate is quoted.
    """
    document = record_document(record, when)
    headers = json.dumps(document["headers"], ensure_ascii=False) if record.headers else ""
    return csv_row(
        [
            record.topic,
            record.partition,
            record.offset,
            document["timestamp"],
            *(
                each if formulas or not isinstance(each, str) else spreadsheet_cell(each)
                for each in (document["key"], document["value"])
            ),
            headers,
        ]
    )
