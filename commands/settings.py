"""Settings and their origins.

    flag > YAK_* > alias variable > ./yak.toml > context > default

A context named by `--context` has the rank of a flag, so it overrides the environment.

`yak.client.contexts` reads the context file.
"""

import os
import re
import shlex
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from yak.client.addresses import parse_addresses
from yak.client.contexts import ACCENTS, config_path, contexts_in, read_toml, unknown_context
from yak.client.numbers import parse_long
from yak.commands.units import parse_duration_ms
from yak.errors import UsageError, closest
from yak.private_files import distrust
from yak.security.redis_url import PASSWORD_VARIABLE, has_password, without_password

PROJECT_FILE = "yak.toml"
_PROJECT_ORIGIN = f"./{PROJECT_FILE}"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
TRUE_TEXTS = ("1", "true", "yes", "on")
_NAMED_NODE_IDS_FROM = 1_000_000
_PORT_MAX = 65_535
_TIMEOUT_MS_MAX = 2**31 - 1
"""24 days; a longer one does not fit the integers of librdkafka."""
_PASSWORD_HINT = f"use ?password_file=FILE, or {PASSWORD_VARIABLE}"
FALSE_TEXTS = ("", "0", "false", "no", "off")


ContextsFor: TypeAlias = Literal["", "listing", "writing"]
"""What a command does to the contexts: one that writes them also creates their file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name in files, its default, other programs' variables for it, and its flag if named otherwise."""

    name: str
    default: object
    summary: str
    parse: Callable[[str], object] = str
    aliases: tuple[str, ...] = ()
    named: str | None = None

    @property
    def flag(self) -> str:
        """Its flag; empty if it has none."""
        return "--" + self.name.removesuffix("_seconds").replace("_", "-") if self.named is None else self.named

    @property
    def variable(self) -> str:
        return f"YAK_{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class ResolvedSetting:
    """A setting's value, and its origin as text."""

    name: str
    value: Any
    origin: str


def parse_bool(text: str) -> bool:
    """`1 true yes on` and their opposites. Raises ValueError."""
    lowered = text.strip().lower()
    if lowered in TRUE_TEXTS:
        return True
    if lowered in FALSE_TEXTS:
        return False
    raise ValueError(f'"{text}" is neither true nor false')


def parse_accent(text: str) -> str:
    """A colour: a terminal colour's name, or `#rrggbb`. Raises ValueError."""
    word = text.strip().lower()
    if word not in ACCENTS and not re.fullmatch(r"#[0-9a-f]{6}", word):
        raise ValueError(f'"{text}" is none of {", ".join(ACCENTS)}, nor #rrggbb')
    return word


def one_of(texts: tuple[str, ...]) -> Callable[[str], str]:
    """A parser that takes one of these texts, in any case. Raises ValueError."""

    def parse(text: str) -> str:
        word = text.strip().upper()
        if word not in texts:
            raise ValueError(f'"{text}" is none of {", ".join(texts)}')
        return word

    return parse


def parse_port(text: str) -> int:
    """A TCP port; 0 lets the system choose. Raises ValueError."""
    port = parse_long(text.strip())
    if port is None or port > _PORT_MAX:
        raise ValueError(f"it is not a number from 0 to {_PORT_MAX}")
    return port


def parse_node_id(text: str) -> int:
    """A broker's id.

    A name is converted: to its trailing digits (`broker-2` is 2), otherwise to its checksum, so that a name is the same
    broker everywhere. Raises ValueError.
    """
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d+", stripped):
        number = int(stripped)
    elif not stripped:
        raise ValueError("it is empty")
    else:
        digits = re.search(r"\d+$", stripped)
        number = int(digits[0]) if digits else _NAMED_NODE_IDS_FROM + zlib.crc32(stripped.encode()) % 1_000_000_000
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is not between 0 and 2147483647")
    return number


def _seconds(text: str) -> float:
    return parse_duration_ms(text, bare_unit="s") / 1000


def _timeout_ms(text: str) -> int:
    return min(parse_duration_ms(text, bare_unit="s"), _TIMEOUT_MS_MAX)


SETTINGS: tuple[Setting, ...] = (
    Setting("context", None, "the named cluster in use"),
    Setting(
        "bootstrap_servers",
        "127.0.0.1:9092",
        "addresses that clients ask first",
        parse_addresses,
        named="--bootstrap-server",
    ),
    Setting("output", None, "output format"),
    Setting("timeout", 10_000, "how long a command may wait", _timeout_ms),
    Setting("readonly", False, "refuse every command that changes a cluster", parse_bool),
    Setting("tz", "UTC", "time zone of times read and printed: UTC, local, or an IANA name", named="--local"),
    Setting("theme", "yak-dark", "colours of yak ui"),
    Setting("ascii", False, "letters instead of signs in yak ui", parse_bool),
    Setting("accent", None, "colour that marks a cluster in yak ui: a name, or #rrggbb", parse_accent, named=""),
    Setting("production", False, "yak ui says PROD, in red", parse_bool, named=""),
    Setting("http_token", None, "token of HTTP requests that change something; yak serve requires it", named=""),
    Setting(
        "security_protocol",
        SECURITY_PROTOCOLS[0],
        "how clients connect: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        one_of(SECURITY_PROTOCOLS),
        named="",
    ),
    Setting(
        "sasl_mechanism",
        SASL_MECHANISMS[0],
        "mechanism of the login: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN or OAUTHBEARER",
        one_of(SASL_MECHANISMS),
        named="",
    ),
    Setting("sasl_username", None, "user that clients log in as; for OAUTHBEARER the client id", named=""),
    Setting("sasl_password", None, "password of that user, or secret of that client; never a flag", named=""),
    Setting(
        "sasl_oauthbearer_token_endpoint_url",
        None,
        "where the tokens of OAUTHBEARER come from: an issuer's token endpoint, or file:///PATH of a token",
        named="",
    ),
    Setting("sasl_oauthbearer_scope", None, "scope that is requested from the token endpoint", named=""),
    Setting("ssl_ca_location", None, "PEM file of trusted certificates; default: the system's", named=""),
    Setting("ssl_certificate_location", None, "PEM file of the client's certificate", named=""),
    Setting("ssl_key_location", None, "PEM file of its private key, if not in the same file", named=""),
    Setting("ssl_key_password", None, "password of the private key", named=""),
    Setting(
        "ssl_check_host_name",
        True,
        "whether a broker's certificate has to name the host that was connected to",
        parse_bool,
        named="",
    ),
    Setting("role", "leader", "what this broker prefers to be: leader or follower"),
    Setting("node_id", 1, "this broker's id", parse_node_id, ("BROKER_ID",)),
    Setting("host", "127.0.0.1", "address the broker listens on"),
    Setting("port", 9092, "port the broker listens on", parse_port),
    Setting("http_port", 8080, "port the broker answers HTTP on", parse_port, ("FLASK_RUN_PORT",)),
    Setting("advertised_host", None, "advertised host", named="--advertised"),
    Setting("advertised_port", None, "advertised port", parse_port, named="--advertised"),
    Setting("redis_url", "redis://127.0.0.1:6379/0", "metadata store", str, ("REDIS_HOST", "REDIS_PORT")),
    Setting("metadata", "redis", "where the metadata are: redis, raft (a quorum of brokers), or both while they move"),
    Setting("voters", "", "first voters of the quorum, ID@HOST:PORT,...; empty: this broker"),
    Setting("cluster_secret_file", None, "file with the secret that the brokers of a quorum share"),
    Setting("project_redis", None, "Redis to which a quorum's leader writes ISR and offsets, to look at"),
    Setting("data_dir", "./yak-data", "where the broker keeps its log"),
    Setting("rack", None, "rack or zone of this broker, which replicas are spread over"),
    Setting("cores", "1", "brokers of this machine, or auto: one for each core"),
    Setting("followers", "", "addresses of the followers that this leader waits for"),
    Setting(
        "followers_timeout_seconds", 30.0, "how long it waits for them before it creates replicated topics", _seconds
    ),
    Setting(
        "lease_time_seconds",
        6.0,
        "how long a broker, the controller too, may be silent before others take its place",
        _seconds,
        ("LEASE_TIME_SECONDS",),
    ),
    Setting(
        "renew_interval_seconds",
        None,
        "how often a broker says that it lives; when not set 0.5 s, or a third of a short lease",
        _seconds,
        ("RENEW_INTERVAL_SECONDS",),
    ),
    Setting("log_level", "info", "least level of the broker's log"),
    Setting("log_format", "text", "text or json"),
)
SECRETS = ("http_token", "sasl_password", "ssl_key_password")
"""Settings whose values no command prints."""
PROTECTION = ("security_protocol", "sasl_mechanism", "ssl_ca_location", "ssl_check_host_name")
"""Settings that decide who can read a secret on its way."""
_REDIS_URLS = ("redis_url", "project_redis")
"""Addresses that may have a password in them, which no command prints."""
BY_NAME = {setting.name: setting for setting in SETTINGS}


def without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by setting, with `(set)` in place of secrets, and `***` in that of the passwords of addresses."""
    return {name: printable(name, value) for name, value in values.items()}


def printable(name: str, value: Any) -> Any:
    """A setting's value as commands print it."""
    if name in SECRETS and value:
        return "(set)"
    return without_password(value) if name in _REDIS_URLS and isinstance(value, str) else value


@dataclass(slots=True)
class Settings:
    """All sources, read once; `get` resolves one setting and records a warning when two variables disagree."""

    flags: dict[str, str]
    """The command line's values by setting name, as typed."""
    environment: Mapping[str, str]
    project: dict[str, Any]
    """./yak.toml"""
    config_file: str
    contexts: dict[str, dict[str, Any]]
    current: str | None
    warnings: list[str] = field(default_factory=list)
    about_contexts: bool = False
    """Whether the command lists or changes the contexts: the one in use need not exist."""

    @classmethod
    def load(
        cls,
        flags: dict[str, str],
        *,
        config_flag: str | None = None,
        environment: Mapping[str, str] | None = None,
        contexts_for: ContextsFor = "",
    ) -> "Settings":
        """Read the files. The context file may be absent at its default path, or for a command that writes it.

        Raises UsageError (`config-file`, `unknown-setting`).
        """
        environment = os.environ if environment is None else environment
        path = config_path(config_flag, environment)
        if contexts_for != "writing" and (config_flag or environment.get("YAK_CONFIG")) and not os.path.lexists(path):
            raise _missing_config(path, "--config" if config_flag else "YAK_CONFIG")
        document = read_toml(path)
        project, warnings = _read_project()
        contexts = contexts_in(document, path)
        for name, context in contexts.items():
            _refuse_unknown(context, f"context {name} in {path}")
        return cls(
            flags,
            environment,
            project,
            path,
            contexts,
            document.get("current") or None,
            warnings,
            about_contexts=bool(contexts_for),
        )

    def context_name(self) -> str | None:
        """The current context. Raises UsageError (`unknown-context`) when it was named and does not exist."""
        return self._context()[0]

    def _context(self) -> tuple[str | None, str]:
        for value, origin in (
            (self.flags.get("context"), "flag --context"),
            (self.environment.get("YAK_CONTEXT"), "env YAK_CONTEXT"),
            (self.project.get("context"), _PROJECT_ORIGIN),
            (self.current, self.config_file),
        ):
            is_empty_flag = value == "" and origin.startswith("flag ")  # of a script whose variable is not set
            if value or (is_empty_flag and self.contexts):
                name = str(value)
                if name not in self.contexts:
                    if self.about_contexts:
                        break
                    raise unknown_context(name, sorted(self.contexts), self.config_file)
                return name, origin
        return None, "default"

    def get(self, name: str, flag: object = None) -> ResolvedSetting:
        """The value of one setting; `flag` is the command's own option, if given.

        Raises UsageError (`bad-setting`) for an invalid value.
        """
        setting = BY_NAME[name]
        if name == "context":
            return ResolvedSetting(name, *self._context())
        for value, origin in self._sources(setting, flag):
            if value is not None:
                if name in _REDIS_URLS and origin.startswith("flag ") and has_password(str(value)):
                    self._warn(
                        f"{setting.flag} has a password, which other users of this machine see: {_PASSWORD_HINT}"
                    )
                return ResolvedSetting(name, parsed(name, value, origin), origin)
        return ResolvedSetting(name, setting.default, "default")

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def is_from_directory(self, found: ResolvedSetting) -> bool:
        """Whether ./yak.toml, which comes with a folder, gave this value, or chose the context that gave it."""
        context, origin = self._context()
        return found.origin == _PROJECT_ORIGIN or (found.origin == f"context {context}" and origin == _PROJECT_ORIGIN)

    def value(self, name: str, flag: object = None) -> Any:
        """The value of `get`, without its origin."""
        return self.get(name, flag).value

    def all(self) -> list[ResolvedSetting]:
        return [self.get(setting.name) for setting in SETTINGS]

    def _sources(self, setting: Setting, flag: object) -> list[tuple[object, str]]:
        context, context_origin = self._context()
        from_context = (self.contexts[context].get(setting.name) if context else None, f"context {context}")
        sources: list[tuple[object, str]] = [
            (flag if flag is not None else self.flags.get(setting.name), f"flag {setting.flag}")
        ]
        if context_origin == "flag --context":
            sources.append(from_context)
        variable = self.environment.get(setting.variable) or None
        alias, alias_names = self._alias(setting)
        if variable is not None and alias is not None and variable != alias:
            printed = printable(setting.name, variable)
            warning = f"{setting.variable}={printed} and {alias_names} differ; {setting.variable} is used"
            self._warn(warning)
        sources += [
            (variable, f"env {setting.variable}"),
            (alias, f"env {alias_names}"),
            (self.project.get(setting.name), _PROJECT_ORIGIN),
            from_context,
        ]
        return sources

    def _alias(self, setting: Setting) -> tuple[str | None, str]:
        """The values of other programs' variables, and the origin with their names."""
        given = {name: self.environment[name] for name in setting.aliases if self.environment.get(name)}
        if not given:
            return None, ""
        variables = ", ".join(f"{name}={value}" for name, value in given.items())
        if setting.name == "redis_url":
            host, port = given.get("REDIS_HOST", "127.0.0.1"), given.get("REDIS_PORT", "6379")
            return f"redis://{host}:{port}/0", variables
        return next(iter(given.values())), variables


def _missing_config(path: str, origin: str) -> UsageError:
    return UsageError(
        "config-file",
        f"{path} does not exist",
        why=f"{origin} names it",
        try_=(f"yak context add NAME -b HOST:PORT --config {shlex.quote(path)}", f"leave out {origin}"),
    )


def _read_project() -> tuple[dict[str, Any], list[str]]:
    """The content of ./yak.toml if the user owns it, otherwise a warning. Raises UsageError (`unknown-setting`)."""
    try:
        problem = distrust(PROJECT_FILE)
    except OSError:
        return {}, []
    if problem:
        return {}, [f"./{PROJECT_FILE} is not used: {problem}"]
    project = {key.replace("-", "_"): value for key, value in read_toml(PROJECT_FILE).items()}
    _refuse_unknown(project, PROJECT_FILE)
    return project, []


def _refuse_unknown(values: Mapping[str, object], where: str) -> None:
    for name in values:
        if name.replace("-", "_") not in BY_NAME:
            raise unknown_setting(name, where)


def unknown_setting(name: str, where: str) -> UsageError:
    """The error for a setting that does not exist."""
    guess = closest(name, BY_NAME)
    why = f'closest: "{guess}"' if guess else f"settings are: {', '.join(BY_NAME)}"
    return UsageError("unknown-setting", f'"{name}" in {where} is not a setting', why=why, try_=("yak config show",))


def parsed(name: str, value: object, origin: str) -> object:
    """The value of a setting, from text or from TOML. Raises UsageError (`bad-setting`, `bad-duration`)."""
    setting = BY_NAME[name]
    try:
        return setting.parse(str(value))
    except ValueError as error:
        raise UsageError(
            "bad-setting",
            f'"{value}" cannot be the value of {setting.name}',
            why=f"{error} (from {origin})",
            try_=(f"{setting.flag} {setting.default}",) if setting.flag and setting.default else (),
        ) from None
