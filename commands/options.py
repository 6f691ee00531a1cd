"""The global options: accepted before and after the command, and resolved to one `Globals`."""

import os
import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.settings import ContextsFor, ResolvedSetting, Settings
from yak.errors import UsageError
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.commands.output import Output
    from yak.local.status import ClusterStatus

PREFIX = "global_"
FORMATS = ("table", "json", "yaml", "wide", "csv", "raw")


@dataclass(slots=True)
class Flags:
    """The global options as typed; None or 0 means not given."""

    context: str | None = None
    bootstrap_server: str | None = None
    output: str | None = None
    quiet: int = 0
    verbose: int = 0
    no_color: bool | None = None
    no_headers: bool | None = None
    timeout: str | None = None
    readonly: bool | None = None
    yes: bool | None = None
    local: bool | None = None
    unescaped: bool | None = None
    config: str | None = None
    context_alias: str | None = None
    bootstrap_alias: str | None = None

    def overlaid_by(self, later: "Flags") -> "Flags":
        """These flags, overridden by `later` ones; counts are added."""
        merged = Flags()
        for each in fields(Flags):
            mine, theirs = getattr(self, each.name), getattr(later, each.name)
            if each.name in ("quiet", "verbose"):
                setattr(merged, each.name, mine + theirs)
            else:
                setattr(merged, each.name, mine if theirs is None else theirs)
        merged.context = merged.context if merged.context is not None else merged.context_alias
        merged.bootstrap_server = (
            merged.bootstrap_server if merged.bootstrap_server is not None else merged.bootstrap_alias
        )
        return merged


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    declarations: tuple[str, ...]
    help: str
    kind: str = "value"
    metavar: str | None = None
    hidden: bool = False


OPTIONS: tuple[_Option, ...] = (
    _Option("output", ("--output", "-o"), "Format: table, json, yaml, wide, csv or raw.", metavar="FORMAT"),
    _Option("quiet", ("--quiet", "-q"), "Print no notes; -qq: no warnings or errors either.", "count"),
    _Option("verbose", ("--verbose", "-v"), "Say more; -vv shows the client library's log.", "count"),
    _Option("no_color", ("--no-color",), "No colours, as with NO_COLOR.", "flag"),
    _Option("no_headers", ("--no-headers",), "No header line in tables and CSV.", "flag"),
    _Option(
        "unescaped",
        ("--unescaped",),
        "Print clients' text unchanged: control characters to a terminal, formulas in CSV.",
        "flag",
    ),
    _Option("local", ("--local",), "Read and print times in this machine's zone, not UTC.", "flag"),
    _Option("context", ("--context", "-C"), "Use this named cluster (yak context list).", metavar="NAME"),
    _Option("bootstrap_server", ("--bootstrap-server", "-b"), "Bootstrap brokers.", metavar="HOST:PORT,..."),
    _Option("timeout", ("--timeout",), "How long to wait: 500ms, 10s, 2m; to connect at most 3s.", metavar="DURATION"),
    _Option("readonly", ("--readonly",), "Refuse to change anything in the cluster.", "flag"),
    _Option("yes", ("--yes", "-y"), "Do not ask before changing or deleting.", "flag"),
    _Option("config", ("--config",), "Read contexts from this file.", metavar="FILE"),
    _Option("context_alias", ("--cluster", "--profile"), "", metavar="NAME", hidden=True),
    _Option(
        "bootstrap_alias", ("--bootstrap-servers", "--brokers", "--broker-list"), "", metavar="HOST:PORT", hidden=True
    ),
)
_OUTPUT_PANEL = {"output", "quiet", "verbose", "no_color", "no_headers", "local", "unescaped"}


def global_parameters(taken: set[str]) -> dict[str, tuple[Any, Any]]:
    """Typer annotation and default of each global option, except names that the command uses itself."""
    import typer

    from yak.commands.shell_completion import complete_context

    parameters: dict[str, tuple[Any, Any]] = {}
    for option in OPTIONS:
        declarations = [name for name in option.declarations if name not in taken]
        if not declarations:
            continue
        info = typer.Option(
            *declarations,
            help=option.help,
            hidden=option.hidden,
            metavar=option.metavar,
            count=option.kind == "count",
            show_default=False,
            autocompletion=complete_context if option.name == "context" else None,
            rich_help_panel="Output" if option.name in _OUTPUT_PANEL else "Connection",
        )
        hint: Any = {"count": int, "flag": bool | None, "value": str | None}[option.kind]
        parameters[option.name] = (Annotated[hint, info], 0 if option.kind == "count" else None)
    return parameters


def split_before(arguments: list[str]) -> tuple[Flags, list[str]]:
    """Parse the global options before the command; the rest begins with the command or an unknown option.

    Raises UsageError (`usage`) when an option's value is missing.
    """
    flags = Flags()
    by_name = {name: option for option in OPTIONS for name in option.declarations}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest[0]
        name, equals, attached = word.partition("=")
        option = by_name.get(name)
        if option is None and not word.startswith("--") and len(word) > 2:
            option, equals, attached = by_name.get(word[:2]), "short", word[2:]
        if option is None:
            break
        rest.pop(0)
        if option.kind == "value":
            if not equals:
                if not rest:
                    raise UsageError("usage", f"{name} needs a value", try_=("yak --help",))
                attached = rest.pop(0)
            setattr(flags, option.name, attached)
            continue
        if option.kind == "count":
            setattr(flags, option.name, getattr(flags, option.name) + 1)
        else:
            setattr(flags, option.name, True)
        if equals == "short" and attached:
            rest.insert(0, "-" + attached)
    return Flags().overlaid_by(flags), rest


def global_arguments(flags: Flags) -> list[str]:
    """The global options as arguments, for a child process with the same options."""
    arguments: list[str] = []
    for option in OPTIONS:
        value = getattr(flags, option.name)
        if option.hidden or not value:
            continue  # an alias's value is already stored under the visible option
        first = option.declarations[0]
        if option.kind == "value":
            arguments.append(f"{first}={value}")
        else:
            arguments += [first] * int(value)
    return arguments


@dataclass(slots=True)
class Globals:
    """Resolved global options, settings and output; every command receives it."""

    settings: Settings
    out: "Output"
    output: str
    """One of FORMATS."""
    timeout_ms: int
    timeout_given: bool
    readonly: bool
    yes: bool
    quiet: int
    verbose: int
    zone: tzinfo
    flags: Flags

    @classmethod
    def resolve(cls, flags: Flags, *, contexts_for: ContextsFor = "") -> "Globals":
        """Read the settings files and variables. Raises UsageError for an invalid value, or a missing file."""
        from yak.commands.output import Output

        given = {
            "context": flags.context,
            "bootstrap_servers": flags.bootstrap_server,
            "output": flags.output,
            "timeout": flags.timeout,
            "readonly": None if flags.readonly is None else str(flags.readonly),
            "tz": "local" if flags.local else None,
        }
        settings = Settings.load(
            {name: value for name, value in given.items() if value is not None},
            config_flag=flags.config,
            contexts_for=contexts_for,
        )
        chosen = settings.value("output")
        output = check_format(chosen) if chosen else "table"
        timeout = settings.get("timeout")
        color = not flags.no_color and wants_color(settings)
        out = Output(
            output,
            quiet=flags.quiet,
            verbose=flags.verbose,
            color=color,
            headers=not flags.no_headers,
            unescaped=bool(flags.unescaped),
        )
        resolved = cls(
            settings=settings,
            out=out,
            output=output,
            timeout_ms=timeout.value,
            timeout_given=timeout.origin != "default",
            readonly=settings.value("readonly"),
            yes=bool(flags.yes),
            quiet=flags.quiet,
            verbose=flags.verbose,
            zone=find_zone(settings.value("tz")),
            flags=flags,
        )
        out.warn_once(settings.warnings)
        return resolved

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers, `host:port,...`. Raises UsageError (`bad-setting`)."""
        from yak.commands.local_cluster import bootstrap_servers, is_from_directory

        found = bootstrap_servers(self.settings)
        self.out.warn_once(self.settings.warnings)
        self.connect_as_configured()
        if is_from_directory(self.settings, found):
            named = ", which ./yak.toml names" if found.origin.startswith("context ") else ""
            self.out.note_once(f"brokers: {found.value} ({found.origin}{named})")
        return str(found.value)

    def admin(self) -> "Admin":
        """A connection to the cluster. Raises UsageError (`bad-setting`), Unreachable."""
        from yak.client.admin import Admin

        return Admin(self.bootstrap_servers, timeout_ms=self.timeout_ms, verbose=self.verbose)

    def broker_that_answers(self) -> tuple[str, float]:
        """The address of a broker that answers, and the time to wait for it in seconds. Raises Unreachable."""
        admin = self.admin()
        admin.metadata()
        return admin.answered, admin.timeout_s

    def connect_as_configured(self) -> None:
        """Connect to the brokers with TLS and a login as the settings say.

        Those of `yak up` on this machine have the security protocol and the authority that it started them with.
        """
        from yak.commands.local_cluster import bootstrap_servers, is_of_yak_up, security_of_yak_up

        protocol, ca_file = str(self.settings.value("security_protocol")), None
        if is_of_yak_up(bootstrap_servers(self.settings)):
            protocol, ca_file = security_of_yak_up(self.settings)
        self._secure(protocol, ca_file)
        self._use_login(protocol)

    def servers_of_local(self, local: "ClusterStatus") -> str:
        """The addresses of a cluster of `yak up`; connections get its security protocol, authority and a login."""
        self._secure(local.security_protocol, local.ca_file)
        self._use_login(local.security_protocol)
        return local.bootstrap

    def _secure(self, protocol: str, ca_file: str | None) -> None:
        from yak.client.security import ClientSecurity, use

        get = self.settings.value
        use(
            ClientSecurity(
                protocol=protocol,
                ca_location=ca_file or get("ssl_ca_location"),
                certificate_location=get("ssl_certificate_location"),
                key_location=get("ssl_key_location"),
                key_password=get("ssl_key_password"),
                checks_host_name=get("ssl_check_host_name"),
            )
        )

    def _use_login(self, protocol: str) -> None:
        """Log in at the brokers, if they ask for it and the password is meant for them (`_is_meant_for`)."""
        from yak.client.login import login_of, use_login
        from yak.commands.local_cluster import bootstrap_servers

        brokers = bootstrap_servers(self.settings)
        password = self.settings.get("sasl_password")
        if password.value is not None and not self._is_meant_for(brokers, password, "password"):
            password = ResolvedSetting(password.name, None, password.origin)
        endpoint = self.settings.get("sasl_oauthbearer_token_endpoint_url")
        if endpoint.value is not None and not self._is_meant_for(brokers, endpoint, "token endpoint"):
            endpoint = ResolvedSetting(endpoint.name, None, endpoint.origin)
        if password.value is not None and endpoint.value is not None and not self._may_get(endpoint, password):
            endpoint = ResolvedSetting(endpoint.name, None, endpoint.origin)
        get = self.settings.value
        use_login(
            login_of(
                protocol,
                get("sasl_mechanism"),
                get("sasl_username"),
                password.value,
                endpoint.value,
                get("sasl_oauthbearer_scope"),
            )
        )

    def _may_get(self, endpoint: "ResolvedSetting", password: "ResolvedSetting") -> bool:
        """Whether a token endpoint may get the client's secret; prints a warning if not.

        A file in the working directory, which may come with a folder, must not name where a secret is sent.
        """
        if endpoint.origin == password.origin or not self.settings.is_from_directory(endpoint):
            return True
        self.out.warn_once([f"the secret is not sent to {endpoint.value}, which {endpoint.origin} names"])
        return False

    def http_token(self) -> str:
        """The token for HTTP requests to these brokers; empty if there is none, or it is not meant for them.

        A context's token is for the context's brokers; a token of the environment is for brokers that the user named.
        Neither is sent to brokers that a file in the working directory names, because such a file may come with a
        folder. The state of `yak up` is an exception for the environment's token, because its brokers were started with
        it.
        """
        from yak.commands.local_cluster import bootstrap_servers

        token, brokers = self.settings.get("http_token"), bootstrap_servers(self.settings)
        if token.value is None or not self._is_meant_for(brokers, token, "token"):
            return ""
        return str(token.value)

    def _is_meant_for(self, brokers: "ResolvedSetting", secret: "ResolvedSetting", noun: str) -> bool:
        """Whether a secret may be sent to these brokers (`http_token` has the rule); prints a warning if not."""
        from yak.commands.local_cluster import is_from_directory

        if secret.origin == brokers.origin:
            return True
        is_contexts, is_environments = secret.origin.startswith("context "), secret.origin.startswith("env ")
        if (is_contexts and is_from_directory(self.settings, brokers)) or (
            is_environments and self.settings.is_from_directory(brokers)
        ):
            whose = f"the {noun} of {secret.origin}" if is_contexts else secret.origin.removeprefix("env ")
            named = f"to send it, name the brokers: -b {brokers.value}"
            self.out.warn_once([f"{whose} is not sent to {brokers.value} ({brokers.origin}); {named}"])
            return False
        return True

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def must_not_be_readonly(self, action: str) -> None:
        """Raise UsageError (`readonly`) when `--readonly` or YAK_READONLY forbids this action."""
        if self.readonly:
            origin = self.settings.get("readonly").origin
            raise UsageError(
                "readonly",
                f"{action} is refused",
                why=f"read-only mode is on ({origin})",
                try_=("leave out --readonly" if origin.startswith("flag ") else "YAK_READONLY=0 yak …",),
            )

    def confirm(self, question: str) -> None:
        """Ask for confirmation on the terminal unless `--yes`; without a terminal `--yes` is required.

        Raises UsageError (`not-confirmed`).
        """
        import sys

        if self.yes:
            return
        if sys.stdin.isatty() and sys.stderr.isatty():
            sys.stderr.write(f"{one_line(question)} [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                return
            raise UsageError("not-confirmed", "nothing was changed", why="the answer was not yes")
        raise UsageError(
            "not-confirmed",
            "nothing was changed",
            why=f"{question} There is no terminal to ask on.",
            try_=("add --yes",),
        )


def check_format(text: str) -> str:
    """A format's name in lower case. Raises UsageError (`did-you-mean-offset`, `bad-format`)."""
    lowered = text.lower()
    if lowered in FORMATS:
        return lowered
    if _is_offset(lowered):
        raise UsageError(
            "did-you-mean-offset",
            f'"-o {text}" is not an output format',
            why="in yak -o is --output; kcat and rpk use it for the offset",
            try_=(f"--offset {text}",),
        )
    from yak.commands.settings import closest

    guess = closest(lowered, list(FORMATS))
    raise UsageError(
        "bad-format",
        f'"{text}" is not an output format',
        why=f"formats are {', '.join(FORMATS)}" + (f'; closest: "{guess}"' if guess else ""),
        try_=(f"-o {guess or 'json'}",),
    )


def _is_offset(text: str) -> bool:
    names = ("start", "end", "beginning", "earliest", "latest", "oldest", "newest", "stored")
    return text in names or text[:1] in "+-@:" or text[:2] in ("s@", "e@") or text.replace(":", "").isdigit()


def find_zone(name: str) -> tzinfo:
    """UTC, this machine's zone for `local`, or an IANA zone. Raises UsageError (`bad-setting`)."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if name.lower() == "local":
        return datetime.now().astimezone().tzinfo or UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(
            "bad-setting", f'"{name}" is not a time zone', why="YAK_TZ is UTC, local, or a name such as Europe/Berlin"
        ) from None


def wants_color(settings: Settings) -> bool:
    """Follow NO_COLOR and FORCE_COLOR (no-color.org, force-color.org); otherwise whether stdout and stderr are terminals."""
    import sys

    if settings.environment.get("NO_COLOR"):
        return False
    if settings.environment.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
