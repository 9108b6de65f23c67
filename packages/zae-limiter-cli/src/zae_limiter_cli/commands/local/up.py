"""`zae-limiter local up`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import debug_option
from ...options import stack_option, yes_accepted

if TYPE_CHECKING:
    from ...local.engines import Choice
    from ...local.state_dir import Running


@click.command(short_help="Start a local stack.")
@stack_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    show_default="4588, or a free one if that is in use",
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
@click.option(
    "--audit-retention-days",
    type=click.IntRange(0, 36_500),
    show_default="90",
    help="Days that audit events stay in the table; 0 for ever.",
)
@debug_option
@yes_accepted
def up(
    name: str,
    port: int | None,
    data_plane: "Choice",
    audit_retention_days: int | None,
    *,
    detach: bool,
    data: Path | None,
) -> None:
    """Start a local stack in a few seconds: the stack that `deploy` creates, on this machine.

    It runs until Ctrl-C, with --detach until `zae-limiter local down`. Then all of it is gone, except for the items
    that --data keeps.
    """
    from ...local import detached, messages
    from ...local.state_dir import StateDir
    from ...local.up import UpRequest, check_extra, run

    check_extra()
    state_dir = StateDir(name)
    click.echo(f"Starting {name}, which takes a few seconds.")

    def ready(running: "Running") -> None:
        another = messages.another_port(running) if port is None else None
        if another is not None:
            click.echo(another)
        click.echo(messages.ready(running, detached=detach))

    if detach:
        options = {
            "--name": name,
            "--port": port,
            "--data-plane": data_plane,
            "--data": data,
            "--audit-retention-days": audit_retention_days,
        }
        given = [[option, str(value)] for option, value in options.items() if value is not None]
        ready(detached.start(state_dir, [word for words in given for word in words]))
        return

    run(UpRequest(name, port, data_plane, data, audit_retention_days), ready)
    click.echo(f"{name} is down")
    sys.stdout.flush()
    os._exit(0)  # to free moto's objects one by one takes Python seconds
