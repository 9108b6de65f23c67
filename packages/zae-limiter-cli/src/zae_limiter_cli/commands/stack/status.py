"""`zae-limiter status` and `zae-limiter list`."""

from typing import TYPE_CHECKING

import click

from ...columns import hanging, say_columns, say_json
from ...options import OutputForm, connected_to_stack, output_option

if TYPE_CHECKING:
    from ...connection import Connection
    from ...stack.status import Check
    from ...stack.versions import Comparison


@click.command()
@connected_to_stack
@output_option
def status(*, connection: "Connection", output: OutputForm) -> None:
    """Check every part of the stack NAME, and compare it with this release: schema, version record, code of the
    Lambdas.

    The exit code is 0 for a healthy stack of this release, 1 if a part failed, and 2 if all are healthy and one needs
    an upgrade; the last line names it.
    """
    from ...stack.status import checks
    from ...stack.versions import compare_if_there

    found = list(checks(connection))
    versions = compare_if_there(connection)
    if output == "json":
        parts = [{"part": each.part, "ok": each.ok, "message": each.message, **each.details} for each in found]
        say_json({"parts": parts, "versions": versions and versions.plain()})
    else:
        _show(found)
        if versions is not None:
            _show_versions(versions)
    if any(each.ok is False for each in found):
        raise click.exceptions.Exit(1)
    if versions is not None and not versions.fits:
        raise click.exceptions.Exit(2)


def _show_versions(versions: "Comparison") -> None:
    if not versions.fits:
        click.echo()
        say_columns([("", "STACK", "HERE"), *((each.part, each.stack, each.here) for each in versions.parts)])
    click.echo(versions.advice)


def _show(found: list["Check"]) -> None:
    from ...terminal import Terminal

    terminal = Terminal.of_stdout()
    width = max(len(each.part) for each in found)
    for each in found:
        word = {True: terminal.paint("ok    ", "green"), False: terminal.paint("FAILED", "red"), None: "-     "}[
            each.ok
        ]
        terminal.say(f"{word}  {each.part.ljust(width)}  {hanging(each.message, len('ok    ') + 2 + width + 2)}")


@click.command("list")
@connected_to_stack
@output_option
def list_stacks(*, connection: "Connection", output: OutputForm) -> None:
    """List the stacks of the region that have the tag of `deploy`."""
    from ...stack.cloudformation import find_all

    found = sorted(find_all(connection.client("cloudformation")), key=lambda stack: stack.name)
    if output == "json":
        say_json([{"name": each.name, "status": each.status, "changed_at": each.changed_iso} for each in found])
    elif not found:
        click.echo("No stacks in this region.")
    else:
        say_columns([("NAME", "STATUS", "CHANGED"), *((each.name, each.status, each.changed_at) for each in found)])
