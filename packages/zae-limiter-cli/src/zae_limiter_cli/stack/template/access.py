"""Managed policies for applications and people, and roles that have them."""

from typing import Final

from .functions import FUNCTIONS
from .grants import EVERY_NAMESPACE, OWN_NAMESPACE, acquiring, everything, of_others, purging, reading, with_key
from .language import Resources, Value, allow, attribute, document, ref, resource, text, when
from .names import policy_name, role_name

USES: Final = {"Acquire": acquiring, "Full": everything, "Read": reading}
WHAT: Final = {
    "Acquire": "acquire and nothing else",
    "Full": "read and write everything, but remove no audit event",
    "Read": "read everything",
}


def policies() -> Resources:
    """Return one policy for each use, on the whole table and on the principal's own namespace; one to purge, two to
    invoke.
    """
    made: Resources = {}
    for use, statements in USES.items():
        what = WHAT[use]
        made[f"{use}Policy"] = _policy(use.lower(), what, statements(EVERY_NAMESPACE))
        own = f"{what}, in the principal's namespace"
        made[f"{use}OwnPolicy"] = _policy(f"{use.lower()}-own", own, statements(OWN_NAMESPACE))
    made["PurgePolicy"] = _policy("purge", "remove deleted namespaces with their audit events", purging())
    provisioner, planner = (attribute(FUNCTIONS[name], "Arn") for name in ("provisioner", "planner"))
    made["InvokeProvisionerPolicy"] = _invoking(
        "invoke-provisioner", "apply limits to every namespace", [provisioner, planner], "HasInvokePolicy"
    )
    made["InvokePlannerPolicy"] = _invoking(
        "invoke-planner", "plan limits of every namespace, and read them", planner, "HasInvokePlannerPolicy"
    )
    return made


def acquiring_elsewhere() -> list[Value]:
    """Return the statements of the table's policy: the principals of other accounts may acquire, and nothing else.

    They name the table by its text: its own policy cannot refer to it.
    """
    table = text("arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${AWS::StackName}")
    of_table = ({**each, "Resource": table} for each in acquiring(EVERY_NAMESPACE))
    return [each for statement in of_table for each in of_others(statement)]


def roles() -> Resources:
    """Return a role for each use on the whole table, which principals of the account may assume; that of applications
    is also for those of other accounts.
    """
    account = {"AWS": text("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")}
    assume = {"Effect": "Allow", "Action": "sts:AssumeRole"}
    trust = {**assume, "Principal": account}
    return {
        f"{use}Role": resource(
            "IAM::Role",
            {
                **role_name(use.lower()),
                "AssumeRolePolicyDocument": document([trust, *(of_others(assume) if use == "Acquire" else ())]),
                "PermissionsBoundary": when("HasBoundary", ref("PermissionBoundaryArn")),
                "ManagedPolicyArns": [ref(f"{use}Policy")],
            },
            condition="HasAppRoles",
        )
        for use in USES
    }


def _invoking(name: str, what: str, functions: Value, condition: str) -> Value:
    policy = {
        **policy_name(name),
        "Description": text(f"${{AWS::StackName}}: {what}"),
        "PolicyDocument": document([allow(["lambda:InvokeFunction"], functions)]),
    }
    return resource("IAM::ManagedPolicy", policy, condition=condition)


def _policy(name: str, what: str, statements: list[Value]) -> Value:
    policy = {
        **policy_name(name),
        "Description": text(f"${{AWS::StackName}}: {what}"),
        "PolicyDocument": document([*statements, when("HasKey", with_key(["Decrypt"], "dynamodb"))]),
    }
    return resource("IAM::ManagedPolicy", policy, condition="HasPolicies")
