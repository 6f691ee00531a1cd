"""Restores a `YakError` from Spark's text: a worker's exception arrives as text of its traceback, in a Java trace.

Two formats are parsed. `yak.spark.source.errors.SourceError` is one line, `[slug] what: why. Try: this; or that`. SQL's
`raise_error` writes `yak-error: ` and a JSON list of slug, what, why, what to try, and exit code.
"""

import json
import re

from yak.errors import UsageError, YakError

_LINE = re.compile(r"SourceError: \[([a-z]+(?:-[a-z]+)*)\] ([^\n]+)")
_QUOTES = {'"': '"', "{": "}", "[": "]"}


def found_in(text: str) -> YakError | None:
    """The last `YakError` in a text; None when there is none."""
    listed = _listed(text)
    if listed is not None:
        return listed
    found = _LINE.findall(text)
    if not found:
        return None
    slug, words = found[-1]
    words, _, tries = words.partition(". Try: ")
    message, why = parts_of(words)
    return UsageError(slug, message, why=why, try_=tuple(tries.split("; or ")) if tries else ())


def _listed(text: str) -> YakError | None:
    decoder = json.JSONDecoder()
    for mark in reversed([found.end() for found in re.finditer("yak-error: ", text)]):
        try:
            (code, message, why, try_, exit_code), _ = decoder.raw_decode(text, mark)
        except ValueError:
            continue
        error = YakError(code, message, why=why, try_=tuple(try_))
        error.exit_code = exit_code
        return error
    return None


def parts_of(words: str) -> tuple[str, str]:
    """Split `what: why`. Ignores a colon in quotes or brackets, and one after the first word (`orders-0: …`)."""
    closing: list[str] = []
    for index, sign in enumerate(words):
        if closing and sign == closing[-1]:
            closing.pop()
        elif sign in _QUOTES:
            closing.append(_QUOTES[sign])
        elif not closing and words.startswith(": ", index) and " " in words[:index]:
            return words[:index], words[index + 2 :]
    return words, ""
