"""What lives here: the templates that `just checkov` looks at, written to a directory.
What never does: a check of them.

    templates.py DIRECTORY
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from zae_limiter_cli.stack.options import StackOptions, in_production
from zae_limiter_cli.stack.template.build import plain

KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def templates() -> dict[str, dict[str, Any]]:
    """Return each by the name of its file: a stack for production, and the same with all that protects more."""
    production = StackOptions().changed(**in_production({}))
    hardened = production.changed(kms_key_arn=KEY, archive_lock="compliance", app_roles=True, tracing=True)
    return {"production.json": plain("my-app", production), "hardened.json": plain("my-app", hardened)}


if __name__ == "__main__":
    for name, template in templates().items():
        (Path(sys.argv[1]) / name).write_text(json.dumps(template, indent=1), encoding="utf-8")
