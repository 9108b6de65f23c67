"""What other programs say of the stack's template and policies.

scans.py checkov VERSION     the templates, as checkov sees them; .checkov.yaml has what it leaves out, and why
scans.py iam VERSION         the policies, as a simulator of IAM decides them and as the tests do; it needs Node
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Final

from shell import output, run, scratch

EXAMPLE: Final = "testdata/tenant-alpha.limits.yaml"
TESTS: Final = "packages/zae-limiter-cli/tests"
SIMULATOR: Final = "@cloud-copilot/iam-simulate"


def checkov(version: str) -> None:
    """Scan the templates; raise ``SystemExit`` for a finding, and where nothing was checked."""
    with scratch() as folder:
        run("uv", "run", "python", "tools/templates.py", str(folder))
        limits = output("uv", "run", "zae-limiter", "limits", "cfn-template", "-f", EXAMPLE)
        (folder / "limits.yaml").write_text(limits, encoding="utf-8")
        tool = ("uv", "tool", "run", "--python", ">=3.11,<3.14", "--from", f"checkov=={version}", "checkov")
        found = output(*tool, "--config-file", ".checkov.yaml", "--directory", str(folder), shown=True)
    if not re.search(r"^Passed checks: [1-9]", found, re.MULTILINE):
        raise SystemExit("checkov has checked nothing")


def iam(version: str) -> None:
    """Ask the simulator what the tests have decided; raise ``SystemExit`` where it decides otherwise."""
    with scratch() as folder:
        asked = folder / "asked.json"
        run("uv", "run", "python", "tools/iam.py", str(asked), environ={"PYTHONPATH": TESTS})
        quiet = ("--silent", "--no-fund", "--no-audit")
        run("npm", "install", "--prefix", str(folder), *quiet, f"{SIMULATOR}@{version}")
        run("node", "tools/iam.mjs", str(asked))


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {"checkov": checkov, "iam": iam}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
