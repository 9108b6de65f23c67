"""`zae-limiter local up`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...errors import debug_option
from ...options import stack_option

if TYPE_CHECKING:
    from ...local.engines import Choice
    from ...local.state_dir import Running

DEFAULT_PORT: Final = 4588


@click.command()
@stack_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes any free one.",
)
@click.option("--detach", "-d", is_flag=True, help="Run in the background.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Directory in which to keep the items.")
@click.option(
    "--data-plane",
    type=click.Choice(["auto", "moto", "dynamodb-local", "dynoxide"]),
    default="auto",
    show_default=True,
    help="Engine that holds the items; auto takes the fastest one installed.",
)
@debug_option
def up(name: str, port: int, data_plane: "Choice", *, detach: bool, data: Path | None) -> None:
    """Start a local stack in a few seconds: the stack that `deploy` creates, on this machine.

    It runs until Ctrl-C, with --detach until `zae-limiter local down`. Then all of it is gone, except for the items
    that --data keeps.
    """
    from ...local import detached, messages
    from ...local.state_dir import StateDir
    from ...local.up import UpRequest, run
    from ...stack.options import check_stack_name

    check_stack_name(name)
    click.echo(f"Starting {name}, which takes a few seconds.")
    if detach:
        arguments = ["--name", name, "--port", str(port), "--data-plane", data_plane]
        running = detached.start(StateDir(name), [*arguments, *(["--data", str(data)] if data else [])])
        click.echo(messages.ready(running, detached=True))
        return

    def ready(running: "Running") -> None:
        click.echo(messages.ready(running, detached=False))

    run(UpRequest(name, port, data_plane, data), ready)
    click.echo(f"{name} is down")
    sys.stdout.flush()
    os._exit(0)  # to free moto's objects one by one takes Python seconds
