"""Keep the tables of the data plane equal to those declared in moto, by CloudFormation or by hand."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from threading import Lock
from time import sleep
from typing import Any, Final

from .wsgi import Application, Refused, ask

# What moto's description has of a table that another DynamoDB has to know, too.
_SHAPE: Final = ("TableName", "AttributeDefinitions", "KeySchema", "StreamSpecification")
_INDEX: Final = ("IndexName", "KeySchema", "Projection")
_INDEXES: Final = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
_COUNTED: Final = ("ItemCount", "TableSizeBytes")
_POLL_SECONDS: Final = 0.02
_POLLS: Final = 250


class Tables:
    """Tables of ``declared``; a data plane has the same ones."""

    def __init__(self, declared: Application, data_plane: Application) -> None:
        self._declared = declared
        self._data_plane = data_plane
        self._known: defaultdict[str, set[str]] = defaultdict(set)  # by region: some planes have none
        self._lock = Lock()

    def follow(self, region: str) -> None:
        """Create and drop tables of the data plane, so that it has those that are declared.

        It may have had tables before anything was declared: those stay.
        """
        with self._lock:
            declared = set(_names(self._declared, region))
            there = set(_names(self._data_plane, region))
            for name in sorted(declared - there):
                self._make(name, region)
            for name in sorted((self._known[region] - declared) & there):
                ask(self._data_plane, "DeleteTable", {"TableName": name}, region=region)
            self._known[region] = declared

    def follow_ttl(self, name: str, region: str) -> None:
        """Switch on TTL in the data plane if it is declared."""
        wanted, there = (
            ask(side, "DescribeTimeToLive", {"TableName": name}, region=region)["TimeToLiveDescription"]
            for side in (self._declared, self._data_plane)
        )
        if wanted["TimeToLiveStatus"] != there["TimeToLiveStatus"]:
            attribute = wanted.get("AttributeName") or there.get("AttributeName")
            change = {"Enabled": wanted["TimeToLiveStatus"] == "ENABLED", "AttributeName": attribute}
            ask(
                self._data_plane,
                "UpdateTimeToLive",
                {"TableName": name, "TimeToLiveSpecification": change},
                region=region,
            )

    def counted(self, name: str, region: str) -> dict[str, Any]:
        """Return the part of a table's description that only the data plane knows."""
        try:
            table = ask(self._data_plane, "DescribeTable", {"TableName": name}, region=region)["Table"]
        except Refused:
            return {}
        return {field: table[field] for field in _COUNTED if field in table}

    def stream_arn(self, name: str, region: str) -> str | None:
        """Return the data plane's name for a table's stream, if there is one."""
        try:
            table = ask(self._data_plane, "DescribeTable", {"TableName": name}, region=region)["Table"]
        except Refused:
            return None
        arn: str | None = table.get("LatestStreamArn")
        return arn

    def _make(self, name: str, region: str) -> None:
        table = ask(self._declared, "DescribeTable", {"TableName": name}, region=region)["Table"]
        ask(self._data_plane, "CreateTable", _creation(table), region=region)
        for _ in range(_POLLS):
            made = ask(self._data_plane, "DescribeTable", {"TableName": name}, region=region)["Table"]
            if made["TableStatus"] == "ACTIVE":
                break
            sleep(_POLL_SECONDS)
        self.follow_ttl(name, region)


def _names(application: Application, region: str) -> Iterator[str]:
    start: dict[str, str] = {}
    while True:
        page = ask(application, "ListTables", start, region=region)
        yield from page["TableNames"]
        if "LastEvaluatedTableName" not in page:
            return
        start = {"ExclusiveStartTableName": page["LastEvaluatedTableName"]}


def _creation(table: Mapping[str, Any]) -> dict[str, Any]:
    indexes = {
        kind: [{field: index[field] for field in _INDEX} for index in table[kind]]
        for kind in _INDEXES
        if table.get(kind)
    }
    shape = {field: table[field] for field in _SHAPE if field in table}
    return {**shape, **indexes, "BillingMode": "PAY_PER_REQUEST"}
