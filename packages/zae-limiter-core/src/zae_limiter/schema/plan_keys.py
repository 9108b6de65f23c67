"""The keys of plans: limits that all entities have whose record names the plan.

A plan's name has ASCII letters, digits and ``_ - .`` alone (``check_plan``), so keys have it as it is.
"""

from ..values.naming import DEFAULT_RESOURCE, PLAN_SUBJECT, check_plan, check_resource
from . import keys


def pk_plan(ns: str, plan: str) -> str:
    """Return the partition of a plan's configs; with an empty name, what those of all plans begin with."""
    return f"{ns}/PLAN#{plan}"


def gsi3_pk_plan(ns: str, plan: str) -> str:
    """Return the partition of the entities that have a plan; the sort key is the entity, encoded."""
    return f"{ns}/PLAN#{plan}"


def audit_plan(plan: str) -> str:
    """Return the subject of a plan's audit events."""
    return f"{PLAN_SUBJECT}{plan}"


def plan_of_subject(subject: str | None) -> str | None:
    """Return the plan that a subject of audit events names; ``None`` for any other subject."""
    if not isinstance(subject, str) or not subject.startswith(PLAN_SUBJECT):
        return None
    return check_plan("plan", subject.removeprefix(PLAN_SUBJECT))


def parse_plan_key(ns: str, pk: str, sk: str) -> tuple[str, str]:
    """Return the plan and the resource (or ``_default_``) in the key of a plan's config. Raises ``ValueError`` for any
    other key.
    """
    prefix = pk_plan(ns, "")
    if not pk.startswith(prefix) or not sk.startswith(keys.CONFIG_PREFIX):
        raise ValueError(f"not the config of a plan: {pk!r}, {sk!r}")
    part = sk.removeprefix(keys.CONFIG_PREFIX)
    resource = part if part == DEFAULT_RESOURCE else check_resource("resource", keys.decode(part))
    return check_plan("plan", pk.removeprefix(prefix)), resource
