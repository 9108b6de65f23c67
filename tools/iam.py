"""Write what `just iam` asks a simulator of IAM: each request, and to whom the tests' evaluator allows it; the same for
principals of other accounts, by the policy of the table.

PYTHONPATH=packages/zae-limiter-cli/tests iam.py FILE
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.cli.granted import ACCOUNTS, OPTIONS, ORGANIZATION, properties
from support.cli.iam import is_allowed, is_allowed_across
from support.cli.principals import TABLE, arned, principals, requests

EVERYTHING = OPTIONS["what adds statements"]
POLICIES = principals(EVERYTHING)
BY_ORGANIZATION = replace(EVERYTHING, trusted_accounts="", trusted_organization=ORGANIZATION)
STRANGER = "999900001111"
ADMIN = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def cases() -> Iterator[dict[str, Any]]:
    """Yield each request, and who may make it."""
    for action, label, request in requests():
        allowed = [name for name, documents in POLICIES.items() if is_allowed(documents, request)]
        asked = {"action": request.action, "resource": request.resource, "context": dict(request.context)}
        yield {"label": f"{action} on {label}", **asked, "allowed": allowed}


def across() -> Iterator[dict[str, Any]]:
    """Yield each request for the table by administrators of other accounts, and whether its policy allows it."""
    for options in (EVERYTHING, BY_ORGANIZATION):
        policy = arned(properties(options)["Table"]["ResourcePolicy"]["PolicyDocument"])
        for account, organization in ((ACCOUNTS[0], ""), (STRANGER, ORGANIZATION), (STRANGER, "")):
            of_member = {"aws:PrincipalOrgID": (organization,)} if organization else {}
            who = {"aws:PrincipalAccount": (account,), **of_member}
            for action, label, request in requests():
                if request.resource.startswith(TABLE) and request.action.startswith("dynamodb:"):
                    asked = replace(request, context={**request.context, **who})
                    yield {
                        "label": f"{action} on {label} by {account} {organization}",
                        "action": request.action,
                        "resource": request.resource,
                        "account": account,
                        "context": {key: each for key, each in asked.context.items() if key != "aws:PrincipalAccount"},
                        "policy": policy,
                        "allowed": is_allowed_across([ADMIN], asked, policy),
                    }


if __name__ == "__main__":
    asked = {"policies": POLICIES, "cases": [*cases()], "admin": ADMIN, "across": [*across()]}
    Path(sys.argv[1]).write_text(json.dumps(asked), encoding="utf-8")
