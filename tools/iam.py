"""Write what `just iam` asks a simulator of IAM: each request, and to whom the tests' evaluator allows it.

PYTHONPATH=packages/zae-limiter-cli/tests iam.py FILE
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.cli.granted import OPTIONS
from support.cli.iam import is_allowed
from support.cli.principals import principals, requests

POLICIES = principals(OPTIONS["what adds statements"])


def cases() -> Iterator[dict[str, Any]]:
    """Yield each request, and who may make it."""
    for action, label, request in requests():
        allowed = [name for name, documents in POLICIES.items() if is_allowed(documents, request)]
        asked = {"action": request.action, "resource": request.resource, "context": dict(request.context)}
        yield {"label": f"{action} on {label}", **asked, "allowed": allowed}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({"policies": POLICIES, "cases": [*cases()]}), encoding="utf-8")
