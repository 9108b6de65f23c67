"""What lives here: the commands of `zae-limiter local`, and their options.
What never does: an import that `--help` does not need.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..errors import CommandError, Commands, debug_option
from ..options import OutputForm, output_option

if TYPE_CHECKING:
    from .engines import Choice
    from .home import Home, Running
    from .variables import Form

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_PORT: Final = 4588
LINES_SHOWN: Final = 100


@click.group(cls=Commands)
@debug_option
def local() -> None:
    """An AWS on this machine with a stack in it: table, stream and both Lambdas, which really run.

    It needs no Docker and no account.
    """
    if sys.platform == "win32":
        raise CommandError("`local` runs on Linux and macOS; on Windows use it in WSL")


def _which(function: Function) -> Function:
    """The option that says which stack is meant."""
    told = "The local stack.  [default: the one that runs]"
    return click.option("--name", "-n", envvar="ZAEL_STACK", help=told)(debug_option(function))


@local.command(short_help="Bring a local stack up.")
@click.option(
    "--name",
    "-n",
    envvar="ZAEL_STACK",
    default="zae-limiter",
    show_default=True,
    show_envvar=True,
    help="The stack, and its table.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Where it answers, on 127.0.0.1; 0 for any.",
)
@click.option("--detach", "-d", is_flag=True, help="Stay up in the background.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Directory that keeps the items.")
@click.option(
    "--data-plane",
    type=click.Choice(["auto", "moto", "dynamodb-local", "dynoxide"]),
    default="auto",
    show_default=True,
    help="What keeps the items; auto takes the fastest that is there.",
)
@debug_option
def up(name: str, port: int, data_plane: "Choice", *, detach: bool, data: Path | None) -> None:
    """Bring a local stack up: the same one that `deploy` makes, on this machine, in a few seconds.

    It stays up until Ctrl-C, with --detach until `zae-limiter local down`. Nothing of it outlives that, but for what
    --data keeps.
    """
    from ..stack.options import check_stack_name
    from . import detached, screen
    from .home import Home
    from .up import Wish, run

    check_stack_name(name)
    click.echo(f"{name} comes up, which takes a few seconds.")
    if detach:
        arguments = ["--name", name, "--port", str(port), "--data-plane", data_plane]
        running = detached.start(Home(name), [*arguments, *(["--data", str(data)] if data else [])])
        click.echo(screen.ready(running, detached=True))
        return

    def ready(running: "Running") -> None:
        click.echo(screen.ready(running, detached=False))

    run(Wish(name, port, data_plane, data), ready)
    click.echo(f"{name} is down")
    sys.stdout.flush()
    os._exit(0)  # to free moto's objects one by one takes Python seconds


@local.command(short_help="End a local stack.")
@_which
def down(name: str | None) -> None:
    """End a local stack and every process of it."""
    from .down import end

    home = _home(name)
    click.echo(f"{home.name} {end(home)}")


@local.command(short_help="What a local stack is doing.")
@output_option
@_which
def status(name: str | None, output: OutputForm) -> None:
    """Whether a local stack is up, where, and how far the table's stream has been read."""
    from . import screen
    from .asking import readers

    running = _running(name)
    told = readers(running)
    click.echo(screen.status_json(running, told) if output == "json" else screen.status(running, told))


@local.command(short_help="What the Lambdas have logged.")
@click.argument("function", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on as lines come.")
@click.option(
    "--lines", "-l", type=click.IntRange(0), default=LINES_SHOWN, show_default=True, help="How many of those there are."
)
@_which
def logs(name: str | None, function: str | None, lines: int, *, follow: bool) -> None:
    """What the Lambdas of a local stack have logged; FUNCTION is one of them, by name or by the end of its name.

    Logs stay when the stack is down, until it comes up again.
    """
    from .logs import Logs

    home = _home(name)
    found = Logs(home.logs, function)
    if function is not None and not found.sources():
        there = ", ".join(Logs(home.logs).sources()) or "none"
        raise CommandError(f"there is no log of {function!r}; there are: {there}")
    for line in found.new()[-lines:] if lines else []:
        click.echo(f"{line.time} {line.source}  {line.text}")
    if follow:
        for line in found.follow(home.is_held):
            click.echo(f"{line.time} {line.source}  {line.text}")


@local.command(short_help="Print what a shell has to export.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["sh", "direnv", "powershell"]),
    default="sh",
    show_default=True,
    help="For which shell.",
)
@_which
def env(name: str | None, form: "Form") -> None:
    """Print what a shell has to export so that programs find the local stack: eval "$(zae-limiter local env)"."""
    from .variables import script

    click.echo(script(_running(name), form))


def _home(name: str | None) -> "Home":
    from .home import the_one

    return the_one(name)


def _running(name: str | None) -> "Running":
    home = _home(name)
    running = home.running()
    if running is None:
        raise CommandError(f"{home.name} is not up: `zae-limiter local up --name {home.name}` brings it up")
    return running
