"""The table: its keys, its indexes, and the request that creates it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from ..runtime.named_tuple import NamedTuple
from .attributes import GSI1PK, GSI1SK, GSI2PK, GSI2SK, GSI3PK, GSI3SK, GSI4PK, GSI4SK, PK, SK

TABLE_KEYS: Final = (PK, SK)

Projection = Literal["ALL", "KEYS_ONLY"]


class Index(NamedTuple):
    """The key attributes of an index, and its projection."""

    pk: str
    sk: str
    projection: Projection


# KEYS_ONLY for every index of buckets: each acquire would write an index that projects token counts.
INDEXES: Final[Mapping[str, Index]] = MappingProxyType(
    {
        "GSI1": Index(GSI1PK, GSI1SK, "ALL"),
        "GSI2": Index(GSI2PK, GSI2SK, "KEYS_ONLY"),
        "GSI3": Index(GSI3PK, GSI3SK, "KEYS_ONLY"),
        "GSI4": Index(GSI4PK, GSI4SK, "KEYS_ONLY"),
    }
)

KEY_ATTRIBUTES: Final = (*TABLE_KEYS, *(name for index in INDEXES.values() for name in (index.pk, index.sk)))


def create_table_request(table_name: str) -> dict[str, Any]:
    """Return the parameters of ``CreateTable``: on-demand, four indexes, a stream of new and old images."""
    return {
        "TableName": table_name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in KEY_ATTRIBUTES],
        "KeySchema": _key_schema(*TABLE_KEYS),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": name,
                "KeySchema": _key_schema(index.pk, index.sk),
                "Projection": {"ProjectionType": index.projection},
            }
            for name, index in INDEXES.items()
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    }


def _key_schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]
