"""`zae-limiter version` and `zae-limiter check`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...errors import CommandError, debug_option
from ...options import OutputForm, connected_to_stack, output_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command()
@output_option
@debug_option
def version(*, output: OutputForm) -> None:
    """Print the version of each distribution of zae-limiter, and of their schema. Needs no network.

    The exit code is 1 where another project's distribution `zae-limiter` is installed as well.
    """
    from ... import namesake
    from ...stack.versions import installed_versions

    found = installed_versions()
    if output == "json":
        say_json(found)
    else:
        say_columns([(name, str(told)) for name, told in found.items()])
    if problem := namesake.problem():
        raise CommandError(problem)


@click.command()
@connected_to_stack
@output_option
def check(*, connection: "Connection", output: OutputForm) -> None:
    """Compare the stack NAME with this release: schema, version record, code of the Lambdas.

    The exit code is 0 if they match, and 1 if one of them needs an upgrade; the last line names it.
    """
    from ...stack.versions import compare

    found = compare(connection)
    if output == "json":
        say_json({"fits": found.fits, "advice": found.advice, "parts": [each._asdict() for each in found.parts]})
    else:
        say_columns([("", "STACK", "HERE"), *((each.part, each.stack, each.here) for each in found.parts)])
        click.echo(found.advice)
    if not found.fits:
        raise click.exceptions.Exit(1)
