"""The global options: accepted before and after the command, and resolved to one `Globals`."""

import os
import shlex
import time
from dataclasses import dataclass, fields
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import CONNECTION, OUTPUT, fields_by_option, flag, takes_value
from yak.commands.settings import BY_NAME, PROTECTION, ContextsFor, ResolvedSetting, Settings
from yak.commands.shell_completion import complete_context
from yak.errors import UsageError, closest
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.login import ClientLogin
    from yak.client.security import ClientSecurity
    from yak.commands.output import Output
    from yak.local.status import ClusterStatus

PREFIX = "global_"
FORMATS = ("table", "json", "yaml", "wide", "csv", "raw")


@dataclass(slots=True)
class Flags:
    """The global options as typed, in the order of the help; None, False or 0 means not given."""

    output: str | None = flag("--output, -o", "Format: table, json, yaml, wide, csv or raw.", OUTPUT, metavar="FORMAT")
    quiet: int = flag(
        "--quiet, -q", "Print no notes; -qq: no warnings or errors either.", OUTPUT, default=0, count=True
    )
    verbose: int = flag("--verbose, -v", "Say more; -vv shows the client library's log.", OUTPUT, default=0, count=True)
    no_color: bool = flag("--no-color", "No colours, as with NO_COLOR.", OUTPUT, default=False)
    no_headers: bool = flag("--no-headers", "No header line in tables and CSV.", OUTPUT, default=False)
    unescaped: bool = flag(
        "--unescaped",
        "Print clients' text unchanged: control characters to a terminal, formulas in CSV.",
        OUTPUT,
        default=False,
    )
    local: bool = flag("--local", "Read and print times in this machine's zone, not UTC.", OUTPUT, default=False)
    context: str | None = flag(
        "--context, -C",
        "Use this named cluster (yak context list).",
        CONNECTION,
        metavar="NAME",
        autocompletion=complete_context,
    )
    bootstrap_server: str | None = flag(
        "--bootstrap-server, -b", "Bootstrap brokers.", CONNECTION, metavar="HOST:PORT,..."
    )
    timeout: str | None = flag(
        "--timeout", "How long to wait: 500ms, 10s, 2m; to connect at most 3s.", CONNECTION, metavar="DURATION"
    )
    readonly: bool = flag("--readonly", "Refuse to change anything in the cluster.", CONNECTION, default=False)
    yes: bool = flag("--yes, -y", "Do not ask before changing or deleting.", CONNECTION, default=False)
    config: str | None = flag("--config", "Read contexts from this file.", CONNECTION, metavar="FILE")
    context_alias: str | None = flag("--cluster, --profile", "", CONNECTION, metavar="NAME", hidden=True)
    bootstrap_alias: str | None = flag(
        "--bootstrap-servers, --brokers, --broker-list", "", CONNECTION, metavar="HOST:PORT", hidden=True
    )

    def overlaid_by(self, later: "Flags") -> "Flags":
        """These flags, overridden by `later` ones; counts are added."""
        merged = Flags()
        for each in fields(Flags):
            mine, theirs = getattr(self, each.name), getattr(later, each.name)
            if each.type is int:
                setattr(merged, each.name, mine + theirs)
            else:
                setattr(merged, each.name, mine if theirs == each.default else theirs)
        merged.context = merged.context if merged.context is not None else merged.context_alias
        merged.bootstrap_server = (
            merged.bootstrap_server if merged.bootstrap_server is not None else merged.bootstrap_alias
        )
        return merged


OPTIONS = fields_by_option(Flags)
"""Every name of every global option, with the field that it sets."""


def global_parameters(taken: set[str]) -> dict[str, tuple[Any, Any]]:
    """Typer annotation and default of each global option, except names that the command uses itself."""
    from yak.commands.parameters import option

    parameters: dict[str, tuple[Any, Any]] = {}
    for each in fields(Flags):
        names = [name for name, found in OPTIONS.items() if found is each and name not in taken]
        if names:
            given = {**each.metadata, "names": ", ".join(names), "show_default": False}
            parameters[each.name] = (Annotated[each.type, option(**given)], each.default)
    return parameters


def split_before(arguments: list[str]) -> tuple[Flags, list[str]]:
    """Parse the global options before the command; the rest begins with the command or an unknown option.

    Raises UsageError (`usage`) when an option's value is missing.
    """
    flags = Flags()
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest[0]
        name, equals, attached = word.partition("=")
        option = OPTIONS.get(name)
        if option is None and not word.startswith("--") and len(word) > 2:
            option, equals, attached = OPTIONS.get(word[:2]), "short", word[2:]
        if option is None:
            break
        rest.pop(0)
        if takes_value(option):
            if not equals:
                if not rest:
                    raise UsageError("usage", f"{name} needs a value", try_=("yak --help",))
                attached = rest.pop(0)
            setattr(flags, option.name, attached)
            continue
        setattr(flags, option.name, True if option.type is bool else getattr(flags, option.name) + 1)
        if equals == "short" and attached:
            rest.insert(0, "-" + attached)
    return Flags().overlaid_by(flags), rest


@dataclass(slots=True)
class Globals:
    """Resolved global options, settings and output; every command receives it."""

    settings: Settings
    out: "Output"
    timeout_ms: int
    timeout_given: bool
    readonly: bool
    yes: bool
    zone: tzinfo | None
    """The zone of times that are read and printed; None is this machine's, whose offset depends on the moment."""
    flags: Flags
    named_by: str = ""
    """The context that names the brokers of this command, for questions; empty if none does."""

    @classmethod
    def resolve(cls, flags: Flags, *, contexts_for: ContextsFor = "") -> "Globals":
        """Read the settings files and variables. Raises UsageError for an invalid value, or a missing file."""
        from yak.commands.output import Output

        given = {
            "context": flags.context,
            "bootstrap_servers": flags.bootstrap_server,
            "output": flags.output,
            "timeout": flags.timeout,
            "readonly": "true" if flags.readonly else None,
            "tz": "local" if flags.local else None,
        }
        settings = Settings.load(
            {name: value for name, value in given.items() if value is not None},
            config_flag=flags.config,
            contexts_for=contexts_for,
        )
        chosen = settings.value("output")
        timeout = settings.get("timeout")
        color = not flags.no_color and wants_color(settings)
        out = Output(
            check_format(chosen) if chosen else "table",
            quiet=flags.quiet,
            verbose=flags.verbose,
            color=color,
            headers=not flags.no_headers,
            unescaped=flags.unescaped,
        )
        resolved = cls(
            settings=settings,
            out=out,
            timeout_ms=timeout.value,
            timeout_given=timeout.origin != "default",
            readonly=settings.value("readonly"),
            yes=flags.yes,
            zone=find_zone(settings.value("tz")),
            flags=flags,
        )
        out.warn_once(settings.warnings)
        return resolved

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers, `host:port,...`. Raises UsageError (`bad-setting`)."""
        from yak.commands.local_cluster import is_from_directory

        found, security, login = self.connection()
        self.out.warn_once(self.settings.warnings)
        _connect_with(security, login)
        self.named_by = found.origin if found.origin.startswith("context ") else ""
        if is_from_directory(self.settings, found):
            named = ", which ./yak.toml names" if found.origin.startswith("context ") else ""
            self.out.note_once(f"brokers: {found.value} ({found.origin}{named})")
        return str(found.value)

    def connection(self) -> "tuple[ResolvedSetting, ClientSecurity, ClientLogin | None]":
        """The brokers, and the TLS and the login for connections to them. Raises UsageError (`bad-setting`)."""
        from yak.commands.local_cluster import bootstrap_servers, is_of_yak_up, security_of_yak_up

        found = bootstrap_servers(self.settings)
        of_settings = str(self.settings.value("security_protocol")), None
        protocol, ca_file = security_of_yak_up(self.settings) if is_of_yak_up(found) else of_settings
        return found, self._security(protocol, ca_file), self._login(found, protocol)

    def admin(self) -> "Admin":
        """A connection to the cluster. Raises UsageError (`bad-setting`), Unreachable."""
        from yak.client.admin import Admin

        return Admin(self.bootstrap_servers, timeout_ms=self.timeout_ms, verbose=self.out.verbose)

    def broker_that_answers(self) -> tuple[str, float]:
        """The address of a broker that answers, and the time to wait for it in seconds. Raises Unreachable."""
        admin = self.admin()
        admin.metadata()
        return admin.answered, admin.timeout_s

    def servers_of_local(self, local: "ClusterStatus") -> str:
        """The addresses of a cluster of `yak up`; connections get its security protocol, authority and a login."""
        from yak.commands.local_cluster import bootstrap_servers

        protocol, brokers = local.security_protocol, bootstrap_servers(self.settings)
        _connect_with(self._security(protocol, local.ca_file), self._login(brokers, protocol))
        return local.bootstrap

    def _security(self, protocol: str, ca_file: str | None) -> "ClientSecurity":
        from yak.client.security import ClientSecurity

        names = ("ca_location", "certificate_location", "key_location", "key_password", "check_host_name")
        authority, *others = (self.settings.value(f"ssl_{name}") for name in names)
        return ClientSecurity(protocol, ca_file or authority, *others)

    def _login(self, brokers: "ResolvedSetting", protocol: str) -> "ClientLogin | None":
        """The login at the brokers, if they ask for one and the password is meant for them (`_is_meant_for`)."""
        from yak.client.login import login_of

        get = self.settings.value
        password = self.settings.get("sasl_password")
        endpoint = self.settings.get("sasl_oauthbearer_token_endpoint_url")
        secret = password.value if self._is_meant_for(brokers, password, "password") else None
        url = endpoint.value if self._is_meant_for(brokers, endpoint, "token endpoint") else None
        if secret is not None and url is not None and not self._may_get(endpoint, password):
            url = None
        return login_of(
            protocol, get("sasl_mechanism"), get("sasl_username"), secret, url, get("sasl_oauthbearer_scope")
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
        return str(token.value or "") if self._is_meant_for(brokers, token, "token") else ""

    def _is_meant_for(self, brokers: "ResolvedSetting", secret: "ResolvedSetting", noun: str) -> bool:
        """Whether a secret may be sent to these brokers (`http_token` has the rule); prints a warning if not.

        Nor may a file in the working directory say how it is protected: by which authority, or in clear text.
        """
        from yak.commands.local_cluster import is_from_directory, is_of_yak_up

        is_contexts = secret.origin.startswith("context ")
        if not is_contexts and not secret.origin.startswith("env "):
            return True
        whose = f"the {noun} of {secret.origin}" if is_contexts else secret.origin.removeprefix("env ")
        is_theirs = secret.origin == brokers.origin
        if not is_theirs and is_from_directory(self.settings, brokers, or_started_here=is_contexts):
            named = f"to send it, name the brokers: -b {brokers.value}"
            self.out.warn_once([f"{whose} is not sent to {brokers.value} ({brokers.origin}); {named}"])
            return False
        for name in () if is_of_yak_up(brokers) else PROTECTION:
            found = self.settings.get(name)
            if found.origin != secret.origin and self.settings.is_from_directory(found):
                yours = f"to send it, export {BY_NAME[name].variable}={found.value}"
                self.out.warn_once([f"{whose} is not sent: {found.origin} sets {name}; {yours}"])
                return False
        return True

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def must_not_be_readonly(self, action: str) -> None:
        """Raise UsageError (`readonly`) when `--readonly` or YAK_READONLY forbids this action."""
        if self.readonly:
            origin, context = self.settings.get("readonly").origin, self.flags.context
            advice = "leave out --readonly" if origin.startswith("flag ") else "YAK_READONLY=0 yak …"
            if origin.startswith("context ") and context is not None:  # which comes before the variables
                advice = f"YAK_CONTEXT={shlex.quote(context)} {advice}          without --context"
            raise UsageError("readonly", f"{action} is refused", why=f"read-only mode is on ({origin})", try_=(advice,))

    def confirm(self, question: str) -> None:
        """Ask for confirmation on the terminal unless `--yes`; without a terminal `--yes` is required.

        Raises UsageError (`not-confirmed`).
        """
        import sys

        if self.yes:
            return
        if self.named_by:
            question = f"{question.removesuffix('?')} ({self.named_by})?"
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


def _connect_with(security: "ClientSecurity", login: "ClientLogin | None") -> None:
    from yak.client.login import use_login
    from yak.client.security import use

    use(security)
    use_login(login)


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
    guess = closest(lowered, FORMATS)
    raise UsageError(
        "bad-format",
        f'"{text}" is not an output format',
        why=f"formats are {', '.join(FORMATS)}" + (f'; closest: "{guess}"' if guess else ""),
        try_=(f"-o {guess or 'json'}",),
    )


def _is_offset(text: str) -> bool:
    names = ("start", "end", "beginning", "earliest", "latest", "oldest", "newest", "stored")
    return text in names or text[:1] in "+-@:" or text[:2] in ("s@", "e@") or text.replace(":", "").isdigit()


def find_zone(name: str) -> tzinfo | None:
    """UTC, None (this machine's zone) for `local`, or an IANA zone. Raises UsageError (`bad-setting`)."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if name.lower() == "local":
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones, such as Europe
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
