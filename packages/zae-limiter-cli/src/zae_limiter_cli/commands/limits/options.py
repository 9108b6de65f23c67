"""The options that the commands of `limits` share."""

from collections.abc import Callable
from pathlib import Path

import click

from ...options import DocumentForm, Function


def files_option(*, required: bool) -> Callable[[Function], Function]:
    """Add ``-f``; the command gets ``files``, paths as they were typed."""
    told = "Manifest, directory of *.yaml and *.yml manifests, or - for standard input. Repeatable."
    return click.option("--file", "-f", "files", multiple=True, required=required, metavar="FILE", help=told)


def namespace_option(function: Function) -> Function:
    """Add ``--namespace`` to a command whose files name theirs; the command gets ``namespace``, ``None`` for all of
    them.

    The environment does not choose here: a leftover variable would silently leave files out.
    """
    told = "Take the manifest of this namespace alone; an error if no file is of it.  [default: all]"
    return click.option("--namespace", "-N", help=told)(function)


def form_option(*forms: DocumentForm) -> Callable[[Function], Function]:
    """Add ``--output`` with these choices; the command gets ``form``."""
    return click.option(
        "--output",
        "-o",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="Output format.",
    )


def exit_code_option(condition: str) -> Callable[[Function], Function]:
    """Add ``--exit-code``; the command gets ``exit_code``."""
    return click.option("--exit-code", is_flag=True, help=f"Exit with code 2 if {condition}.")


take_over_option = click.option(
    "--take-over", is_flag=True, help="Take over the namespace from its owner, such as a stack."
)


target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="PATTERN",
    help="Change items that fit this PATTERN alone, such as 'entity acme/*'. All others stay. Repeatable.",
)

share_option = click.option(
    "--share",
    metavar="PERCENT",
    help="Give this region its share of each limit, such as 60%.  [default: that of the last apply]",
)

allow_deletes_option = click.option(
    "--allow-deletes", is_flag=True, help="Allow a plan that deletes over 30 % of ten or more managed items, or all."
)
lock_timeout_option = click.option(
    "--lock-timeout",
    type=click.IntRange(0, 900),
    default=0,
    help="Seconds to wait for another apply to end.  [default: 0]",
)
expect_hash_option = click.option(
    "--expect-hash", metavar="HASH", help="Apply only the plan with this hash, which `limits plan` prints."
)
pace_option = click.option(
    "--changes-per-second",
    type=click.IntRange(min=1),
    help="Make at most this many changes a second; each takes about 4 write units.  [default: as many as go]",
)


out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write.  [default: standard output]",
)
full_option = click.option("--full", is_flag=True, help="Show each item of a large plan, not its kinds of changes.")


def view_options(function: Function) -> Function:
    """Add ``--full``, ``--entity`` and ``--filter``, which choose what is shown; the command gets ``full``,
    ``entities`` and ``pattern``.
    """
    told = "Show this entity's items alone. Repeatable."
    by_entity = click.option("--entity", "-e", "entities", multiple=True, metavar="ENTITY_ID", help=told)
    by_pattern = click.option(
        "--filter", "pattern", metavar="PATTERN", help="Show items that fit alone, such as 'resource gpt-*', '*/gpt-4'."
    )
    return full_option(by_entity(by_pattern(function)))
