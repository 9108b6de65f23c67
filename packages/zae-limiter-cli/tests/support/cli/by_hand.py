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
    """What it tells programs, without the envelope."""
    done = run(group, command, "-o", "json", *args)
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    return opened(done.stdout)


def opened(text: str) -> Any:
    """A document without its envelope: its items, where it has these alone."""
    found = json.loads(text)
    assert found.pop("schema_version") == 1
    assert found.pop("kind")
    return found["items"] if found.keys() == {"items"} else found


def refused(group: str, *args: str) -> str:
    """The one line that says why a command does nothing."""
    done = run(group, *args)
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: ")
    return line[7:]


def effective(entity_id: str, resource: str) -> Any:
    """What holds for an entity on a resource, level by level."""
    (found,) = document("entity", "show", entity_id, "-r", resource)["resources"]
    return found


def bucket_rows(entity_id: str, *args: str) -> list[list[str]]:
    """The buckets of an entity as people see them, the head first."""
    lines = told("entity", "show", entity_id, *args)
    (begin,) = (number for number, line in enumerate(lines) if line[:2] == ["RESOURCE", "LIMIT"])
    return lines[begin:]
