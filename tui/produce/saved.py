"""Named templates: one file each beside the config, and some built-in ones.

$XDG_CONFIG_HOME/yak/templates/NAME.json   {"topic", "key_kind", "key", "value_kind", "value", "headers", "is_template"}
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from yak.errors import UsageError, YakError
from yak.tui.produce.form import KEY_KINDS, VALUE_KINDS, Form

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")
_KEPT: Final = ("topic", "key_kind", "key", "value_kind", "value", "headers", "is_template")
FILE_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """A named template; `about` describes it. Built-in ones cannot be removed; a file of the same name hides them."""

    name: str
    about: str
    form: Form
    is_built_in: bool = False


BUILT_IN: Final = (
    Saved(
        "orders",
        "an order: the customer is the key",
        Form(
            topic="orders",
            key="{{customer=hex 6}}",
            value="""{
  "order_id": "{{uuid}}",
  "customer": "{{customer}}",
  "item": "{{choice lamp desk chair shelf rug}}",
  "quantity": {{int 1 5}},
  "total": {{float 5 500:.2}},
  "currency": "{{choice EUR USD GBP}}",
  "at": "{{now}}"
}""",
            headers="source={{choice web app shop}}",
        ),
        is_built_in=True,
    ),
    Saved(
        "sensor",
        "readings of 20 sensors",
        Form(
            topic="sensors",
            key="sensor-{{id=int 1 20:02}}",
            value='{"sensor":"sensor-{{id}}","celsius":{{float -10 40:.1}},"battery":{{int 5 100}},"at_ms":{{now ms}}}',
        ),
        is_built_in=True,
    ),
    Saved(
        "log line",
        "lines of a web server's log, as text",
        Form(
            topic="logs",
            key="{{host=choice web-1 web-2 web-3}}",
            value_kind="text",
            value='{{now}} {{host}} {{choice INFO INFO INFO WARN ERROR}} {{ip}} "{{choice GET POST PUT}} /{{choice cart '
            'items users login}}/{{int 1 999}}" {{choice 200 200 200 404 500}} {{int 1 900}}ms {{text 24}}',
        ),
        is_built_in=True,
    ),
    Saved(
        "counter",
        "numbers in order, to see what is lost or doubled",
        Form(topic="counter", key="{{i}}", value='{"number":{{i}},"at_ms":{{now ms}}}'),
        is_built_in=True,
    ),
)


def templates_directory(environ: Mapping[str, str]) -> str:
    """The directory beside the config: of `YAK_CONFIG`, else of `XDG_CONFIG_HOME`, else of `~/.config`."""
    if config := environ.get("YAK_CONFIG"):
        return os.path.join(os.path.dirname(os.path.abspath(config)), "templates")
    base = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "yak", "templates")


class TemplateFolder:
    """The templates of one directory, and the built-in ones.

    Raises YakError: `bad-name`, `file`, `template-unreadable`.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def names(self) -> list[str]:
        """All names: the user's by name, then the built-in ones."""
        try:
            files = os.listdir(self.directory)
        except FileNotFoundError:
            files = []
        except OSError as error:
            raise _no_file(self.directory, error, "read") from None
        own = sorted(name for each in files if (name := each.removesuffix(".json")) != each and _NAME.fullmatch(name))
        return [*own, *(each.name for each in BUILT_IN if each.name not in own)]

    def load(self, name: str) -> Saved:
        """Load a template."""
        path = self.path_of(name)
        try:
            with open(path, encoding="utf-8") as file:
                document = json.loads(file.read(FILE_BYTES_MAX))
        except FileNotFoundError:
            found = next((each for each in BUILT_IN if each.name == name), None)
            if found is None:
                raise UsageError(
                    "unknown-template", f'there is no template "{name}"', why=f"there are: {', '.join(self.names())}"
                ) from None
            return found
        except OSError as error:
            raise _no_file(path, error, "read") from None
        except ValueError as error:
            raise _unreadable(path, f"not JSON: {error}") from None
        return Saved(name, str(document.get("about", "")) if isinstance(document, dict) else "", _form(path, document))

    def save(self, name: str, form: Form, about: str = "") -> str:
        """Save a form's record, without send options; returns the path. Replaces an existing file atomically."""
        path = self.path_of(name)
        document = {"about": about} | {key: value for key, value in asdict(form).items() if key in _KEPT}
        try:
            os.makedirs(self.directory, exist_ok=True)
            with open(f"{path}.tmp", "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2, ensure_ascii=False)
                file.write("\n")
            os.replace(f"{path}.tmp", path)
        except OSError as error:
            raise _no_file(path, error, "written") from None
        return path

    def remove(self, name: str) -> None:
        """Remove one of the user's templates."""
        path = self.path_of(name)
        try:
            os.remove(path)
        except OSError as error:
            raise _no_file(path, error, "removed") from None

    def path_of(self, name: str) -> str:
        """The path of a template."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                "bad-name",
                f'"{name}" cannot be the name of a template',
                why="it begins with a letter or digit, and has letters, digits, spaces and . _ - behind, 64 at most",
            )
        return os.path.join(self.directory, f"{name}.json")


def with_message(form: Form, saved: Saved) -> Form:
    """The form with a template's record. The send options stay, and so does the topic, if set."""
    kept = {name: getattr(saved.form, name) for name in _KEPT}
    kept["topic"] = form.topic or saved.form.topic
    return replace(form, **kept)


def _form(path: str, document: Any) -> Form:
    if not isinstance(document, dict):
        raise _unreadable(path, "not a JSON object")
    fields: dict[str, Any] = {name: document[name] for name in _KEPT if name in document}
    for name, value in fields.items():
        wanted = bool if name == "is_template" else str
        if not isinstance(value, wanted):
            raise _unreadable(path, f'"{name}" is not {"true or false" if wanted is bool else "text"}')
    if fields.get("key_kind", "text") not in KEY_KINDS or fields.get("value_kind", "json") not in VALUE_KINDS:
        raise _unreadable(path, f"key_kind is one of {', '.join(KEY_KINDS)}, value_kind of {', '.join(VALUE_KINDS)}")
    return Form(**fields)


def _unreadable(path: str, why: str) -> YakError:
    return YakError("template-unreadable", f"{path} is not a template", why=why, try_=("mend it, or remove it",))


def _no_file(path: str, error: OSError, done: str) -> YakError:
    return YakError("file", f"{path} cannot be {done}", why=str(error.strerror), try_=("check the directory",))
