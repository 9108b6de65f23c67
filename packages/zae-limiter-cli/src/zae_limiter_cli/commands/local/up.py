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
    from ...local import detached, messages
    from ...local.state_dir import StateDir
    from ...local.up import UpRequest, run
    from ...stack.options import check_stack_name

    check_stack_name(name)
    click.echo(f"{name} comes up, which takes a few seconds.")
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
