"""Refuse a table with replicas in other regions: DynamoDB merges their writes, and a limiter's must not be merged."""

from collections.abc import Mapping
from typing import Any, Final

from ..connection import Connection
from ..errors import CommandError
from ..pages import DOCS

WHY: Final = (
    "each region takes the same tokens, and the last writer's count wins: remove the replicas, and give each region a "
    f"stack and a share of its own ({DOCS}/operate/regions.md)"
)


def replicas_in(table: Mapping[str, Any]) -> list[str]:
    """Return the other regions of a table, as DynamoDB describes it."""
    return sorted(each["RegionName"] for each in table.get("Replicas", ()))


def refuse_replicas(connection: Connection) -> None:
    """Raise ``CommandError`` if the stack's table has replicas. A table that is not there, or may not be described, has
    none.
    """
    client = connection.client("dynamodb")
    try:
        regions = replicas_in(client.describe_table(TableName=connection.name)["Table"])
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] not in {"ResourceNotFoundException", "AccessDeniedException"}:
            raise
        return
    if regions:
        raise CommandError(f"the table {connection.name} has replicas in {', '.join(regions)}: {WHY}")
