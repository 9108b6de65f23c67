"""`zae-limiter lambda-export`."""

from pathlib import Path
from typing import Final

import click

from ..errors import debug_option
from ..options import yes_accepted

NAMES: Final = ("aggregator", "provisioner", "planner")


@click.command()
@click.argument("name", metavar=f"[{'|'.join(NAMES)}]", type=click.Choice(NAMES))
@click.option(
    "--out", "path", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: NAME.zip]"
)
@debug_option
@yes_accepted
def lambda_export(name: str, path: Path | None) -> None:
    """Build the code of a Lambda from the installed packages, without a download, and write it to a zip file.

    It is the code that `deploy` uploads, byte for byte, and runs on x86_64 and arm64. Provisioner and planner have the
    same code, and a handler each.
    """
    from ..artifacts.builder import build_artifact
    from ..results import write_file

    artifact = build_artifact(name)  # type: ignore[arg-type]  # click has checked it
    target = path or Path(f"{name}.zip")
    write_file(target, artifact.content)
    click.echo(f"{target}: {len(artifact.content):,} bytes, handler {artifact.handler}, sha256 {artifact.code_sha256}")
    for distribution, version in artifact.versions.items():
        click.echo(f"  {distribution} {version}")
