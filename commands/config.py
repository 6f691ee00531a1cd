"""`yak config`."""

from yak.commands.app import OUTPUT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.settings import BY_NAME, printable

config = CommandGroup(
    "config",
    examples=("yak config show --origin", "YAK_PORT=9093 yak config show --origin -o json"),
)


@config.command("show", examples=("yak config show", "yak config show --origin"))
def show(
    g: Globals,
    origin: bool = flag("--origin", "Also show the origin of each value.", OUTPUT, default=False),
) -> None:
    """Show every setting.

    Order of precedence: flags, YAK_* variables, aliases (BROKER_ID, REDIS_HOST and REDIS_PORT, LEASE_TIME_SECONDS,
    RENEW_INTERVAL_SECONDS), ./yak.toml, the context, defaults. The default brokers are those of the cluster that
    yak up runs in the data directory.
    """
    from yak.commands.local_cluster import bootstrap_servers

    servers = bootstrap_servers(g.settings)

    rows = [
        {
            "name": each.name,
            "value": f"{each.value}ms" if each.name == "timeout" else printable(each.name, each.value),
            "origin": each.origin,
            "variable": BY_NAME[each.name].variable,
            "summary": BY_NAME[each.name].summary,
        }
        for each in (servers if found.name == servers.name else found for found in g.settings.all())
    ]
    g.out.warn_once(g.settings.warnings)
    if not origin:
        rows = [{name: value for name, value in row.items() if name != "origin"} for row in rows]
    g.out.table(rows, ("name", "value", *(("origin",) if origin else ())), ("variable", "summary"))
