"""`zae-limiter limits init`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...columns import counted
from ...confirmation import confirm
from ...errors import CommandError
from ...options import connected, in_namespace, yes_option
from ...progress import reporter

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer

    from ...connection import Connection

HEAD: Final = """\
# The limits of {namespace}, as `zae-limiter limits init` found them. An apply of this file changes none of them: it
# adopts what is not managed yet.
"""
PARTS: Final = """\
# Entities with the same limits share a part (x-tier-1 and so on), each with limits of its own in the table. Where these
# are all managed, the part can become a tier, one item for all of them: put it below `tiers:`, and write `tier: NAME`
# in place of `resources:`.
"""
START: Final = """\
# Nothing is declared yet. Take the "#" off what you need; `zae-limiter limits plan` shows what an apply would do.
namespace: {namespace}

# system:                       # where nothing else is declared
#   limits: {{rpm: 1k/min}}

# resources:                    # of every entity on a resource
#   gpt-4:
#     limits: {{rpm: 100/min, tpm: 10k/min burst 20k}}

# tiers:                        # of the entities that name one
#   gold:
#     resources:
#       _default_: {{limits: {{rpm: 1k/min}}}}   # on all resources

# entities:
#   acme: {{tier: gold}}
#   acme-key-1: {{parent: acme, cascade: true}}  # its acquires take from acme, too
"""


@click.command(short_help="Write a first manifest from the live limits.")
@connected
@in_namespace
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write.  [default: NAMESPACE.limits.yaml]",
)
@yes_option
def init(*, connection: "Connection", namespace: str, out: Path | None, yes: bool) -> None:
    """Write a first manifest of a namespace from its live limits, those set by hand, too.

    Entities with the same limits share a part of the file. A namespace without limits, or one that does not exist yet,
    gets a file with examples in comments. Asks before it overwrites a file, unless --yes is given.
    """
    from zae_limiter_manifest import Request

    from ...limits.asking import as_command_errors
    from ...limits.provisioner import Planner
    from ...limits.showing import report_left_out
    from ...results import write_file

    file = out or Path(f"{namespace}.limits.yaml")
    with as_command_errors():
        request = Request("export", namespace)
    if file.exists() and not yes:
        confirm(f"Overwrite {file}?")
    answer = Planner(connection, reporter(quiet=False)).ask(request)
    text, found = _first_file(namespace, answer)
    report_left_out(answer)
    write_file(file, text)
    click.echo(f"{file}: {found}")
    click.echo(f"Next: zae-limiter limits plan {connection.option} -f {shlex.quote(str(file))}")


def _first_file(namespace: str, answer: "Answer") -> tuple[str, str]:
    """Return the text of the file, and what it has."""
    from zae_limiter_manifest import dump_grouped

    from ...limits.showing import refuse

    is_new = any(failure.code == "namespace_not_found" for failure in answer.errors)
    if not is_new:
        refuse(namespace, answer)
        if answer.manifest is None:
            raise CommandError(f"{namespace}: the answer contains no manifest")
    items = 0 if answer.manifest is None else sum(1 for _ in answer.manifest.declared())
    if answer.manifest is None or not items:
        what = "there is no such namespace yet, which an apply registers" if is_new else "the namespace has no limits"
        return START.format(namespace=namespace), f"{what}; examples in comments"
    text, parts = dump_grouped(answer.manifest)
    head = HEAD.format(namespace=namespace) + (PARTS if parts else "")
    shared = f"; {sum(parts.values()):,} entities share {counted(len(parts), 'part')}" if parts else ""
    return head + text, f"{counted(items, 'item')} of {namespace}{shared}"
