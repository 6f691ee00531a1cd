"""Write the site's reference from the code: commands, configs, metrics, errors, routes, and what was run on YAK.

    python docs/generate_reference.py [--out build/reference]

`make site` puts the same pages into the site (`site_hooks.py`). None is kept in the repository, so none can be out of
date. docs/kafka-apis.md, which README links, has a generator of its own and a test that compares them.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from typer.main import get_command

from yak.commands import registry
from yak.commands.app import CommandGroup, Leaf, load, typer_app
from yak.commands.help import EXIT_CODES, EXPLANATIONS
from yak.commands.settings import SETTINGS
from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.definitions import ConfigDef, ConfigType, Update
from yak.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from yak.config.topic_config_table import TOPIC_CONFIGS
from yak.server.http import metrics, openapi
from yak.server.http.metrics.text import Family
from yak.server.http.routes import ROUTES

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
FOLDER = "reference"
CONFIG_TABLES: Mapping[str, Mapping[str, ConfigDef]] = {
    "Broker": BROKER_CONFIGS,
    "Topic": TOPIC_CONFIGS,
    "Group": GROUP_CONFIGS,
    "Client metrics": CLIENT_METRICS_CONFIGS,
}
_UPDATES = {
    Update.READ_ONLY: "needs a restart of the broker",
    Update.PER_BROKER: "can be changed on a running broker, for each broker",
    Update.CLUSTER_WIDE: "can be changed on running brokers, for one or all",
}


def cell(text: object) -> str:
    """Text as a cell of a table: on one line, and no bar or tag in it."""
    return escaped(" ".join(str(text).split())).replace("|", "\\|")


def escaped(text: str) -> str:
    """Prose in which angle brackets, asterisks and underscores outside of code stay what they are."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_\[\]])", r"\\\1", part.replace("<", "&lt;")) for part in parts
    )


def fenced(text: str, language: str = "text") -> list[str]:
    """A fenced block."""
    return [f"```{language}", text.rstrip("\n"), "```", ""]


# ---------------------------------------------------------------------------------------------------------- commands


def help_of(leaf: Leaf, program: str) -> str:
    """What `--help` of a command prints."""
    command = get_command(typer_app(leaf))
    # What Click leaves of a terminal of 100 columns, the widest that the help uses.
    context: Any = command.make_context(program, [], resilient_parsing=True, terminal_width=98)
    return command.get_help(context)


def command_page(entry: registry.Entry) -> str:
    """`yak NAME` with its subcommands."""
    found = load(entry)
    lines = [f"# yak {entry.name}", "", escaped(entry.summary), ""]
    if isinstance(found, CommandGroup):
        if found.default is not None:
            lines += [f"Without a subcommand: `yak {entry.name} {found.default}`.", ""]
        for name, leaf in found.visible().items():
            program = f"yak {entry.name} {name}"
            lines += [f"## {program}", "", escaped(leaf.summary), "", *fenced(help_of(leaf, program))]
    else:
        lines += fenced(help_of(found, f"yak {entry.name}"))
    return "\n".join(lines)


def commands_page() -> str:
    """All commands by section, the exit codes, and the environment's settings."""
    lines = ["# Commands", "", "Each page has the output of `--help`, for a command and its subcommands.", ""]
    for section in registry.SECTIONS:
        lines += [f"## {section}", "", "| command | |", "| --- | --- |"]
        lines += [
            f"| [`yak {entry.name}`](commands/{entry.name}.md) | {cell(entry.summary)} |"
            for entry in registry.ENTRIES
            if entry.section == section
        ]
        lines += [""]
    lines += ["## Exit codes", "", "| code | |", "| --: | --- |"]
    lines += [f"| {code} | {cell(meaning)} |" for code, meaning in EXIT_CODES]
    lines += ["", "## Environment", "", "| variable | also | flag | default |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{each.variable}` | {', '.join(f'`{name}`' for name in each.aliases)} | {f'`{each.flag}`' if each.flag else ''} "
        f"| {'' if each.default in (None, '') else f'`{each.default}`'} |"
        for each in SETTINGS
    ]
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------------------------------- configs


def config_lines(kind: str, definition: ConfigDef) -> Iterator[str]:
    """One config: type, default, when a change takes effect, and what it is for."""
    value = "no default" if definition.default is None else f"default `{definition.default}`"
    facts = [f"`{definition.type.name.lower()}`", "default empty" if definition.default == "" else value]
    if kind == "Broker":
        facts.append(_UPDATES[definition.update])
    elif kind in ("Topic", "Group"):
        facts.append("can be changed at any time")
    if definition.type is ConfigType.PASSWORD:
        facts.append("its value is never returned")
    yield from (f"### {definition.name}", "", f"{', '.join(facts)}.", "", escaped(definition.documentation), "")
    if definition.synonyms:
        names = ", ".join(f"`{each.name}`" for each in definition.synonyms)
        yield from (f"Without a value of its own: the broker's {names}.", "")
    if not definition.has_effect or kind == "Client metrics":
        yield from ("It has no effect in this version of YAK: only its default is accepted.", "")


def configs_page() -> str:
    """All configs of brokers, topics, groups and client metrics."""
    lines = [
        "# Configs",
        "",
        "Names, types and rules are Kafka's. `yak brokers config`, `yak topics config` and Kafka's",
    ]
    lines += ["`kafka-configs` read and change them; `yak serve -c NAME=VALUE` sets those of a broker.", ""]
    for kind, table in CONFIG_TABLES.items():
        lines += [f"## {kind} configs", ""]
        for definition in table.values():
            lines += config_lines(kind, definition)
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------------------------- metrics


def families() -> list[Family]:
    """YAK's own metrics: the families that the modules of `yak.server.http.metrics` define, by name."""
    modules = [import_module(f"{metrics.__name__}.{found.name}") for found in iter_modules(metrics.__path__)]
    found = {each for module in modules for each in vars(module).values() if isinstance(each, Family)}
    return sorted(found, key=lambda family: family.name)


def of_process() -> list[tuple[str, str, str]]:
    """(name, type, HELP) of what prometheus-client adds about the process, as on this system."""
    from yak.server.http.metrics.process import Process

    return sorted((each.name, each.type, each.documentation) for each in Process().collect())


def metrics_page() -> str:
    """All metrics with their HELP."""
    lines = [
        "# Metrics",
        "",
        "`GET /metrics` of each broker. A counter's sample has `_total` at the end of its name, a",
    ]
    lines += ["histogram's `_bucket`, `_count` and `_sum`. [HTTP](../http.md#metrics) has examples.", ""]
    lines += ["| metric | type | |", "| --- | --- | --- |"]
    lines += [f"| `{each.name}` | {each.kind} | {cell(each.what)} |" for each in families()]
    lines += ["", "## Of the process", "", "From prometheus-client. On macOS some are missing.", ""]
    lines += ["| metric | type | |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {kind} | {cell(what)} |" for name, kind, what in of_process()]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------------ errors


def errors_page() -> str:
    """All errors of the commands, as `yak help SLUG` explains them."""
    lines = [
        "# Errors",
        "",
        "A command that fails prints `error[SLUG]`, the reason and a remedy. `yak help SLUG` prints",
    ]
    lines += ["the same as this page. Clients get Kafka's error codes: [Kafka APIs](../kafka-apis.md).", ""]
    for slug, entry in sorted(EXPLANATIONS.items()):
        lines += [f"## {slug}", "", escaped(entry.message), "", escaped(entry.why), "", *fenced("\n".join(entry.try_))]
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------------------------- HTTP


def kind_of(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a word or two."""
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{text}, default `{schema['default']}`" if "default" in schema else text


def route_lines(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """One route: parameters, body, answers."""
    yield from (f"### {method.upper()} {path}", "", escaped(operation["summary"]), "")
    if "description" in operation:
        yield from (escaped(operation["description"]), "")
    if operation["parameters"]:
        yield from ("| parameter | in | type | |", "| --- | --- | --- | --- |")
        for each in operation["parameters"]:
            need = ", required" if each["required"] else ""
            yield f"| `{each['name']}` | {each['in']}{need} | {cell(kind_of(each['schema']))} | {cell(each['description'])} |"
        yield ""
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from (f"Body: `{media_type}`.", "")
        if "example" in content:
            example = content["example"]
            yield from fenced(example if isinstance(example, str) else json.dumps(example, indent=2), "json")
    answers = {code: each["description"] for code, each in operation["responses"].items() if "description" in each}
    yield from ("| status | |", "| --- | --- |")
    yield from (f"| {code} | {cell(text)} |" for code, text in answers.items())
    yield ""


def http_page() -> str:
    """All routes, from the OpenAPI document."""
    document = openapi.document(ROUTES)
    lines = [
        "# HTTP routes",
        "",
        "Written from the document that each broker serves at `/openapi.json`. [HTTP](../http.md)",
    ]
    lines += ["explains them, with examples. Every route may also answer 4xx and 5xx with a JSON error.", ""]
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", escaped(tag["description"]), ""]
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    lines += route_lines(method, path, operation)
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ clients, programs


def rows(page: str, first: str) -> list[list[str]]:
    """The rows of the table of a page whose first heading is `first`."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if re.match(rf"\| {re.escape(first)} \|", line, re.IGNORECASE):
            next(lines)
            break
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([part.strip() for part in line.strip("|").split(" | ")])
    return found


def compatibility_page() -> str:
    """Clients and programs with the versions that were run, in one table; from the pages that their tests keep."""
    lines = [
        "# Clients and programs",
        "",
        "Everything that was run on YAK, with its version. [Clients](../clients.md) has each failed",
    ]
    lines += ["test with its reason, [programs](../programs.md) what was done and Kafka's command line tools,"]
    lines += ["[Kafka's own tests](../kafka-tests.md) those of Apache Kafka.", ""]
    lines += ["| client or program | version | what was run | result |", "| --- | --- | --- | --- |"]
    for name, tag, passed, failed, skipped, _ in rows("clients.md", "Library"):
        result = f"{passed} passed, {failed} failed, {skipped} skipped"
        lines.append(f"| {name} | {tag.lstrip('v')} | the library's own tests | {result} |")
    for program, what, result in rows("programs.md", "program"):
        versions = ", ".join(dict.fromkeys(re.findall(r"\d+(?:\.\d+)+", program)))
        assert versions, f"docs/programs.md names no version of: {program}"
        lines.append(f"| {program} | {versions} | {what} | {result} |")
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------------- all of it


def pages() -> dict[str, str]:
    """Every page by its path below docs/."""
    written = {
        "commands": commands_page(),
        "configs": configs_page(),
        "metrics": metrics_page(),
        "errors": errors_page(),
        "http-routes": http_page(),
        "compatibility": compatibility_page(),
    }
    written |= {f"commands/{entry.name}": command_page(entry) for entry in registry.ENTRIES}
    return {f"{FOLDER}/{name}.md": text for name, text in written.items()}


def main(argv: list[str]) -> int:
    """Write the pages; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the reference pages.")
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    out: Path = parser.parse_args(argv).out
    for name, text in pages().items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{out / FOLDER}: {len(pages())} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
