"""What lives here: the manifest of the docs, and the provisioner's handler on a target's table as Lambda calls it.
What never does: a claim.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from zae_limiter import Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.meter import Meter
from zae_limiter_manifest import Answer, LimitsManifest, Request, next_page, pack, unpack
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.handler import on_event
from zae_limiter_provisioner.table import Table, _table

from .targets import Target

MANIFEST = (Path(__file__).parents[3] / "testdata" / "tenant-alpha.limits.yaml").read_text("utf-8")
ALPHA = LimitsManifest.from_yaml(MANIFEST)


def changed(capacity: int) -> LimitsManifest:
    """The same with another capacity of user-123 on gpt-4."""
    plain = yaml.safe_load(MANIFEST)
    plain["entities"]["user-123"]["resources"]["gpt-4"]["limits"]["rpm"]["capacity"] = capacity
    return LimitsManifest.from_dict(plain)


def many(count: int, capacity: int = 10) -> LimitsManifest:
    """So many entities, each with limits on one resource."""
    limits = {"limits": {"rpm": {"capacity": capacity}, "tpm": {"capacity": 1000 * capacity}}}
    ids = (f"123e4567-e89b-12d3-a456-{number:012d}" for number in range(count))
    entities = {each: {"resources": {"gpt-4": limits}} for each in ids}
    return LimitsManifest.from_dict({"namespace": "tenant-alpha", "entities": entities})


def named(namespace: str, wanted: LimitsManifest = ALPHA) -> LimitsManifest:
    """The same for another namespace."""
    return LimitsManifest.from_dict({**wanted.to_dict(), "namespace": namespace})


@dataclass
class Deployed:
    """A table on a target, and its provisioner; the environment is the Lambda's."""

    target: Target
    name: str
    meter: Meter = field(default_factory=Meter)

    def store(self) -> SyncDynamoDBStore:
        return SyncDynamoDBStore(self.name, endpoint_url=self.target.endpoint_url, read_timeout=30, meter=self.meter)

    def create(self) -> None:
        SyncRepository.over(self.store(), Options(create_table=True, namespace="default", read_timeout=30)).close()

    def ask(self, action: Any, wanted: LimitsManifest | str, **options: Any) -> Answer:
        """The answer of the handler, packed where it is large, all its pages."""
        made = Request(action, wanted, **options) if isinstance(wanted, str) else Request.of(action, wanted, **options)
        pages: list[Mapping[str, Any]] = [on_event(pack(made.to_dict()), None)]
        while (after := next_page(pages[-1])) is not None:
            pages.append(on_event(pack({**made.to_dict(), "next": after}), None))
        return Answer.from_dict(unpack(pages))

    def counted(self, action: Any, wanted: LimitsManifest) -> Meter:
        """What a request asks of the table."""
        table = Table(self.store(), self.name)
        self.meter.reset()
        assert not perform(table, Request.of(action, wanted)).errors
        return self.meter.snapshot()

    def limiter(self) -> SyncRateLimiter:
        """An application's, which reads limits with every acquire."""
        options = Options(namespace="tenant-alpha", config_cache_ttl=0, read_timeout=30)
        return SyncRateLimiter(repository=SyncRepository.over(self.store(), options))

    def scan(self) -> list[str]:
        """All items of the table."""
        client = boto3.client("dynamodb", endpoint_url=self.target.endpoint_url)
        pages = client.get_paginator("scan").paginate(TableName=self.name, ConsistentRead=True)
        return sorted(json.dumps(item, sort_keys=True) for page in pages for item in page["Items"])


@contextmanager
def deployed_on(target: Target, name: str) -> Iterator[Deployed]:
    """A new table, which this process is the provisioner of."""
    assert target.endpoint_url is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZAEL_STACK", name)
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
        deployed = Deployed(target, name)
        deployed.create()
        yield deployed
        _table.cache_clear()
