"""An event source mapping as a value."""

import json
from collections.abc import Mapping as Attributes
from dataclasses import dataclass
from typing import Any

from .delivery import FOREVER, Policy
from .patterns import fits
from .records import Record

DEFAULT_BATCH_SIZE = 100


@dataclass(frozen=True, slots=True)
class Mapping:
    """A stream, the function that reads it, and the options of the mapping."""

    uuid: str
    stream_arn: str
    function_arn: str
    latest: bool
    batch_size: int
    window_seconds: int
    policy: Policy
    dead_letters: str | None
    patterns: tuple[str, ...]

    @classmethod
    def from_configuration(cls, told: Attributes[str, Any]) -> "Mapping":
        """Return the mapping that Lambda's ListEventSourceMappings describes."""
        filters = (told.get("FilterCriteria") or {}).get("Filters") or []
        failure = (told.get("DestinationConfig") or {}).get("OnFailure") or {}
        retries = told.get("MaximumRetryAttempts")
        return cls(
            uuid=told["UUID"],
            stream_arn=told["EventSourceArn"],
            function_arn=told["FunctionArn"],
            latest=told.get("StartingPosition") == "LATEST",
            batch_size=told.get("BatchSize") or DEFAULT_BATCH_SIZE,
            window_seconds=told.get("MaximumBatchingWindowInSeconds") or 0,
            policy=Policy(
                retries=FOREVER if retries is None else int(retries),
                bisect=bool(told.get("BisectBatchOnFunctionError")),
                partial="ReportBatchItemFailures" in (told.get("FunctionResponseTypes") or []),
            ),
            dead_letters=failure.get("Destination"),
            patterns=tuple(each["Pattern"] for each in filters),
        )

    @property
    def table(self) -> str:
        """The table whose stream it is."""
        return self.stream_arn.partition(":table/")[2].partition("/")[0]

    @property
    def region(self) -> str:
        """The region of stream and function."""
        return self.stream_arn.split(":")[3]

    def wants(self, record: Record) -> bool:
        """Return whether the function gets a record: every one without patterns, else one that fits a pattern."""
        return not self.patterns or any(fits(json.loads(pattern), record) for pattern in self.patterns)
