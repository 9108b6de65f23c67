"""`zae-limiter limits shares`."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ...errors import CommandError
from ...options import OutputForm, connected_to_stack, output_option
from .options import files_option, namespace_option

if TYPE_CHECKING:
    from ...connection import Connection
    from ...limits.shares import Region


@click.command(short_help="Propose shares of the regions by their use.")
@connected_to_stack
@files_option(required=True)
@namespace_option
@click.option("--regions", required=True, metavar="REGION,REGION", help="The regions that share the limits.")
@click.option(
    "--since",
    default="24h",
    metavar="TIME",
    help="Use since 24h or 7d ago, or since a time such as yesterday.  [default: 24h]",
)
@click.option("--by", "limit", metavar="LIMIT", help="Go by tokens of this limit.  [default: by acquires]")
@click.option("--least", default="5%", metavar="PERCENT", help="Least share of each region.  [default: 5%]")
@click.option("--step", default="10%", metavar="PERCENT", help="The most that a share moves.  [default: 10%]")
@output_option
def shares(
    *,
    connection: "Connection",
    files: tuple[str, ...],
    namespace: str | None,
    regions: str,
    since: str,
    limit: str | None,
    least: str,
    step: str,
    output: OutputForm,
) -> None:
    """Propose what share of the limits each region should have, by what was asked for there. It changes nothing.

    It goes by acquires, admitted and refused, of the whole namespaces; with --by it goes by a limit's tokens. The
    shares add up to at most 100 %. The commands to run come in their order: less first, then more.

    It reads the table of each region, with your rights.
    """
    from zae_limiter_manifest.shares import parts_of

    from ...limits.asking import as_command_errors
    from ...limits.files import load_files
    from ...limits.shares import in_order, look_at, propose
    from ...times import parse_instant

    begin = parse_instant("--since", since, datetime.now(UTC))
    names = list(dict.fromkeys(filter(None, map(str.strip, regions.split(",")))))
    if len(names) < 2:  # one region has the whole
        raise CommandError(f"--regions {regions!r}: name the regions that share the limits, at least two")
    with as_command_errors():
        bounds = {"least": parts_of(least), "step": parts_of(step)}
    namespaces = [manifest.namespace for manifest in load_files(files, namespace)]
    # each region is asked before anything is proposed: one that does not answer ends the command
    found = [look_at(replace(connection, region=name), namespaces, begin, limit) for name in names]
    proposed = propose(found, **bounds)
    words = [word for file in files for word in ("-f", file)] + (["-N", namespace] if namespace else [])
    commands = [_command(connection, words, each) for each in in_order(proposed)]
    _show(proposed, commands, output)


def _command(connection: "Connection", words: list[str], region: "Region") -> str:
    from zae_limiter_manifest.shares import write_share

    profile = ["--profile", connection.profile] if connection.profile else []
    where = ["--name", connection.name, "--region", region.name, *profile]
    return shlex.join(
        ["zae-limiter", "limits", "apply", *words, *where, "--share", write_share(region.proposed), "--yes"]
    )


def _show(regions: list["Region"], commands: list[str], output: OutputForm) -> None:
    from zae_limiter_manifest.shares import write_share

    from ...columns import say_columns, say_command, say_json

    if output == "json":
        rows = [
            {
                "region": each.name,
                "share": write_share(each.share),
                "proposed": write_share(each.proposed),
                "asked": each.asked,
            }
            for each in regions
        ]
        say_json({"regions": rows, "commands": commands})
        return
    cells = [(each.name, write_share(each.share), write_share(each.proposed), f"{each.asked:,}") for each in regions]
    say_columns([("REGION", "SHARE", "PROPOSED", "ASKED FOR"), *cells])
    for command in commands:
        say_command(command)
    if not commands:
        click.echo("No share moves.")
