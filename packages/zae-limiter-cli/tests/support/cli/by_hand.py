"""What lives here: commands run as people run them, on the stack `my-app`.
What never does: a claim.
"""

import json
from typing import Any

from click.testing import CliRunner, Result

from zae_limiter_cli.main import main


def run(group: str, *args: str) -> Result:
    """A command; nobody is at a terminal."""
    return CliRunner(env={"ZAEL_PRINCIPAL": "ann"}).invoke(main, [group, "-n", "my-app", *args])


def told(group: str, *args: str) -> list[list[str]]:
    """What a command that succeeds tells people: the words of each line."""
    done = run(group, *args)
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    return [line.split() for line in done.stdout.splitlines()]


def document(group: str, command: str, *args: str) -> Any:
    """What it tells programs."""
    done = run(group, command, "-o", "json", *args)
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    return json.loads(done.stdout)


def refused(group: str, *args: str) -> str:
    """The one line that says why a command does nothing."""
    done = run(group, *args)
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: ")
    return line[7:]
