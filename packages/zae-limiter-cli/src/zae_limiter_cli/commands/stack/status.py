"""`zae-limiter status` and `zae-limiter list`."""

from typing import TYPE_CHECKING

import click

from ...columns import hanging, say_columns, say_json
from ...options import OutputForm, connected_to_stack, output_option

if TYPE_CHECKING:
    from ...connection import Connection
    from ...stack.status import Check


@click.command()
@connected_to_stack
@output_option
def status(*, connection: "Connection", output: OutputForm) -> None:
    """Check every part of the stack NAME. The exit code is 0 if all parts are healthy, and 1 otherwise."""
    from ...stack.status import checks

    found = list(checks(connection))
    if output == "json":
        say_json([{"part": each.part, "ok": each.ok, "message": each.message, **each.details} for each in found])
    else:
        _show(found)
    if any(each.ok is False for each in found):
        raise click.exceptions.Exit(1)


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
