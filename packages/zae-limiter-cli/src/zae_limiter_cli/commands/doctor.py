"""`zae-limiter doctor`."""

from collections import Counter
from dataclasses import asdict
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

import click

from ..columns import say_command, say_json, say_wrapped
from ..options import OutputForm, connected, output_option

if TYPE_CHECKING:
    from ..connection import Connection
    from ..doctor.findings import Finding

STATES: Final = ("fail", "warn", "unknown", "ok", "n/a")
CHECK_WIDTH: Final = 13
COMMANDS: Final = 9  # the column where commands begin: that of the checks, which leaves them more room than their own
LEAST_WIDTH: Final = 40


@click.command()
@connected
@output_option
def doctor(*, connection: "Connection", output: OutputForm) -> None:
    """Look for what is wrong, and say how to mend it.

    The checks: region, credentials, clock, stack, table, Lambdas, stream, versions, alarms, sizes, and what the caller
    may do; of a file its content.

    It writes nothing. What the principal may do is asked of IAM, or where that is not allowed, tried by reads that find
    nothing. A check that cannot be made is `unknown`, with the reason. The exit code is 1 if a check fails.
    """
    from ..doctor.run import diagnose

    found: list[Finding] = []
    for finding in diagnose(connection):
        found.append(finding)
        if output == "table":
            _say(finding)
    counts = Counter(each.state for each in found)
    if output == "json":
        say_json({"ok": not counts["fail"], "checks": [asdict(each) for each in found]})
    else:
        click.echo("\n" + ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]))
    if counts["fail"]:
        raise click.exceptions.Exit(1)


def _say(finding: "Finding") -> None:
    width = max(LEAST_WIDTH, get_terminal_size().columns)
    rows = [(finding.state.ljust(len("unknown")), finding.check.ljust(CHECK_WIDTH), finding.message)]
    if len(finding.check) > CHECK_WIDTH:
        say_wrapped([(rows[0][0], finding.check)], width=width)
        rows = [("".ljust(len("unknown")), "".ljust(CHECK_WIDTH), finding.message)]
    if finding.fix:
        rows.append(("", "", f"-> {finding.fix}{':' if finding.commands else ''}"))
    say_wrapped(rows, width=width)
    for command in finding.commands:
        say_command(command, indent=" " * COMMANDS)
