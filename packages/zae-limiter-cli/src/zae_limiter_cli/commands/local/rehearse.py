"""`zae-limiter local rehearse`."""

import click

from ...options import yes_accepted
from .running import which

SCENE_NAMES = ("table-throttles", "stream-stops", "aggregator-fails")


@click.command(short_help="Break a part of a local stack, to practise its runbook.")
@click.argument("scene", metavar="SCENE", type=click.Choice(SCENE_NAMES))
@click.option(
    "--seconds",
    type=click.IntRange(1, 3600),
    default=120,
    show_default=True,
    help="Time until the part works again.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 200),
    default=20,
    show_default=True,
    help="Calls a second meanwhile, in a namespace of its own.",
)
@which
@yes_accepted
def rehearse(name: str | None, scene: str, seconds: int, rate: float) -> None:
    """Break one part of a local stack for a while, under calls, so that a team practises its runbook.

    SCENE is table-throttles, stream-stops or aggregator-fails.

    It prints where the failure shows, the runbook that ends it, and what becomes of the calls. Ctrl-C ends it at once,
    and puts the part back.
    """
    from ...local.rehearsal import SCENES
    from ...local.rehearsal import rehearse as run
    from ...local.state_dir import running_stack

    run(running_stack(name), SCENES[scene], seconds, rate, click.echo)
