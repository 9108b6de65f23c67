"""The content of the table: every key, every attribute name and every item is built here and nowhere else.

This package itself has the builders and parsers of keys, for programs that read exports, streams or the table;
docs/design/table.md says what each key is of. Its modules are this library's own; a process imports those of records
beside the buckets when it reaches the first.
"""

from typing import TYPE_CHECKING

from ..runtime.rooms import on_first_use
from .keys import (
    REGISTRY,
    gsi1_pk_parent,
    gsi1_sk_child,
    gsi2_pk_resource,
    gsi2_sk_bucket,
    gsi2_sk_usage,
    gsi3_pk_entity,
    gsi3_pk_entity_config,
    gsi3_pk_tier,
    gsi3_sk_bucket,
    gsi3_sk_entity,
    gsi4_pk,
    gsi4_sk_audit,
    gsi4_sk_entity_config,
    gsi4_sk_usage,
    parse_audit_pk,
    parse_bucket_pk,
    parse_entity_pk,
    parse_resource_pk,
    parse_usage_sk,
    pk_audit,
    pk_bucket,
    pk_entity,
    pk_idempotency,
    pk_resource,
    pk_system,
    pk_tier,
    sk_audit,
    sk_bounds,
    sk_config,
    sk_idempotency,
    sk_meta,
    sk_namespace,
    sk_nsid,
    sk_parent,
    sk_state,
    sk_usage,
    sk_version,
)
from .partitions import index_suffix

if TYPE_CHECKING:
    from . import changes as changes
    from . import usage as usage
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "REGISTRY",
    "gsi1_pk_parent",
    "gsi1_sk_child",
    "gsi2_pk_resource",
    "gsi2_sk_bucket",
    "gsi2_sk_usage",
    "gsi3_pk_entity",
    "gsi3_pk_entity_config",
    "gsi3_pk_tier",
    "gsi3_sk_bucket",
    "gsi3_sk_entity",
    "gsi4_pk",
    "gsi4_sk_audit",
    "gsi4_sk_entity_config",
    "gsi4_sk_usage",
    "index_suffix",
    "parse_audit_pk",
    "parse_bucket_pk",
    "parse_entity_pk",
    "parse_resource_pk",
    "parse_usage_sk",
    "pk_audit",
    "pk_bucket",
    "pk_entity",
    "pk_idempotency",
    "pk_resource",
    "pk_system",
    "pk_tier",
    "sk_audit",
    "sk_bounds",
    "sk_config",
    "sk_idempotency",
    "sk_meta",
    "sk_namespace",
    "sk_nsid",
    "sk_parent",
    "sk_state",
    "sk_usage",
    "sk_version",
]  # fmt: skip
