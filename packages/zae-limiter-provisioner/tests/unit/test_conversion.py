from dataclasses import fields
from typing import Any

from zae_limiter import Limit
from zae_limiter_manifest import LIMIT_FIELDS, Address, LimitDecl, ResourceDecl
from zae_limiter_provisioner.conversion import live_item, to_stored_config


def test_a_declared_limit_has_the_fields_of_a_limit_in_their_order() -> None:
    """``kind`` follows with the second kind of limits: a manifest has nothing to choose yet."""
    assert tuple(each.name for each in fields(Limit) if each.name not in {"name", "kind"}) == LIMIT_FIELDS


def test_a_declaration_is_as_it_was_after_it_was_stored_and_read() -> None:
    values: dict[str, Any] = {name: 10 + place for place, name in enumerate(LIMIT_FIELDS)}
    decl = ResourceDecl({"rpm": LimitDecl(**{**values, "shadow": True})})
    assert live_item(Address("gpt-4"), to_stored_config(decl)).decl == decl
