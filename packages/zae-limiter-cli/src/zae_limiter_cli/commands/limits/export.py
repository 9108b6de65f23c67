"""`zae-limiter limits export`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...columns import counted
from ...confirmation import confirm
from ...errors import CommandError
from ...options import connected, in_namespace, yes_option
from ...progress import reporter
from .options import out_option

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer, LimitsManifest

    from ...connection import Connection

HEAD: Final = """\
# The limits of {namespace}, as `zae-limiter limits export` found them. An apply of this file changes none of them: it
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


@click.command(short_help="Print live limits as a manifest, or write a first one.")
@connected
@in_namespace
@out_option
@yes_option
def export(*, connection: "Connection", namespace: str, out: Path | None, yes: bool) -> None:
    """Print all live limits of a namespace as a manifest: the managed ones, and those set by hand.

    With --out, write a file to go on with: entities with the same limits share a part of it, and a namespace without
    limits, or one that does not exist yet, gets examples in comments. Editors check it by zae-limiter.schema.json,
    which is written beside it unless one is there or above. Asks before it overwrites a file, unless --yes is given. In
    a region with a share, the limits are its share of each limit, and not those of the files.
    """
    from zae_limiter_manifest import Request, dump

    from ...limits.asking import as_command_errors
    from ...limits.editor import FILE, schema_near, schema_text, with_schema
    from ...limits.provisioner import Planner
    from ...limits.showing import report_left_out
    from ...results import write_file

    with as_command_errors():
        request = Request("export", namespace)
    if out is not None and out.exists() and not yes:
        confirm(f"Overwrite {out}?")
    answer = Planner(connection, reporter(quiet=False)).ask(request)
    if out is None:
        text = dump(_manifest_of(namespace, answer))
        report_left_out(answer)
        click.echo(text, nl=False)
        return
    text, found = _first_file(namespace, answer)
    report_left_out(answer)
    schema = schema_near(out)
    if schema is None:
        schema = out.parent / FILE
        write_file(schema, schema_text())
        click.echo(f"{schema}: the schema with which editors check the file", err=True)
    write_file(out, with_schema(text, out, schema))
    click.echo(f"{out}: {found}", err=True)
    click.echo(f"Next: zae-limiter limits plan {connection.option} -f {shlex.quote(str(out))}", err=True)


def _manifest_of(namespace: str, answer: "Answer") -> "LimitsManifest":
    """Return the manifest of an answer. Raises ``CommandError`` if it has none."""
    from ...limits.showing import refuse

    refuse(namespace, answer)
    if answer.manifest is None:
        raise CommandError(f"{namespace}: the answer contains no manifest")
    return answer.manifest


def _first_file(namespace: str, answer: "Answer") -> tuple[str, str]:
    """Return the text of the file, and what it has."""
    from zae_limiter_manifest import dump_grouped

    is_new = any(failure.code == "namespace_not_found" for failure in answer.errors)
    manifest = None if is_new else _manifest_of(namespace, answer)
    items = 0 if manifest is None else sum(1 for _ in manifest.declared())
    if manifest is None or not items:
        what = "there is no such namespace yet, which an apply registers" if is_new else "the namespace has no limits"
        return START.format(namespace=namespace), f"{what}; examples in comments"
    text, parts = dump_grouped(manifest)
    head = HEAD.format(namespace=namespace) + (PARTS if parts else "")
    shared = f"; {sum(parts.values()):,} entities share {counted(len(parts), 'part')}" if parts else ""
    return head + text, f"{counted(items, 'item')} of {namespace}{shared}"
