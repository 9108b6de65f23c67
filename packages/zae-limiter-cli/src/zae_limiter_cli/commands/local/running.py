"""`zae-limiter local down`, `status`, `logs` and `env`."""

from typing import TYPE_CHECKING, Final

import click

from ...columns import say_json
from ...errors import CommandError, debug_option, one_line
from ...help_page import ConnectionOption
from ...options import Function, OutputForm, output_option, yes_accepted

if TYPE_CHECKING:
    from ...local.logs import Line
    from ...local.variables import Form

LINES_SHOWN: Final = 100


def which(function: Function) -> Function:
    """Add the option that names the local stack."""
    told = "Local stack.  [default: the one that runs]"
    return click.option("--name", "-n", cls=ConnectionOption, envvar="ZAEL_STACK", help=told)(debug_option(function))


@click.command(short_help="Stop a local stack.")
@which
@yes_accepted
def down(name: str | None) -> None:
    """Stop a local stack and all its processes."""
    from ...local.down import end
    from ...local.state_dir import the_one

    state_dir = the_one(name)
    click.echo(f"{state_dir.name} {end(state_dir)}")


@click.command(short_help="Show the status of a local stack.")
@output_option
@which
def status(name: str | None, output: OutputForm) -> None:
    """Show whether a local stack runs, its address, and the progress of its readers of the table's stream."""
    from ...local import messages
    from ...local.state_dir import running_stack
    from ...local.status_client import readers

    running = running_stack(name)
    told = readers(running)
    if output == "json":
        say_json(messages.plain_status(running, told))
    else:
        click.echo(messages.status(running, told))


@click.command(short_help="Show the logs of the Lambdas.")
@click.argument("function", required=False)
@click.option("--follow", "-f", is_flag=True, help="Print new lines as they come.")
@click.option(
    "--lines",
    type=click.IntRange(0),
    default=LINES_SHOWN,
    show_default=True,
    help="Number of earlier lines to print.",
)
@which
def logs(name: str | None, function: str | None, lines: int, *, follow: bool) -> None:
    """Show the logs of a local stack's Lambdas, or of FUNCTION alone: the name of a Lambda, or the end of its name.

    Lines that a Lambda writes as JSON are shown as text: level, message, fields. The logs stay until the stack starts
    again.
    """
    from ...local.logs import Logs
    from ...local.state_dir import the_one

    state_dir = the_one(name)
    found = Logs(state_dir.logs, function)
    if function is not None and not found.sources():
        there = ", ".join(Logs(state_dir.logs).sources()) or "none"
        raise CommandError(f"there is no log of {function!r}, which begins with its first call; available: {there}")
    for line in found.new()[-lines:] if lines else []:
        _say(line)
    if follow:
        for line in found.follow(state_dir.is_held):
            _say(line)


def _say(line: "Line") -> None:
    """Print a line, and below it the lines of an error."""
    head, *more = line.shown()
    click.echo(one_line(f"{line.time} {line.source}  {head}"))
    for each in more:
        click.echo(one_line(f"    {each}"))


@click.command(short_help="Print the variables for a shell to export.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["sh", "direnv", "powershell"]),
    default="sh",
    show_default=True,
    help="Shell that reads them.",
)
@which
def env(name: str | None, form: "Form") -> None:
    """Print the variables with which programs find the local stack: eval "$(zae-limiter local env)"."""
    from ...local.state_dir import running_stack
    from ...local.variables import script

    click.echo(script(running_stack(name), form))
