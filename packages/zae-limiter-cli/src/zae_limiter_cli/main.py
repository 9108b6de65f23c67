"""What lives here: the command `zae-limiter` and the list of its commands.
What never does: an import that `--help` does not need.
"""

import click

from .demo.command import demo
from .errors import Commands, debug_option


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zae-limiter-cli")
@debug_option
def main() -> None:
    """Rate limits for API calls, kept in one DynamoDB table."""


main.add_command(demo)
