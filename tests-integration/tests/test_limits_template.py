"""What lives here: the template of `limits cfn-template`, deployed where CloudFormation runs functions.
What never does: what an event does to limits (test_declarative_failures, the provisioner's own tests).
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from support.integration.declared import changed, named
from support.integration.targets import Target
from zae_limiter import Limit, SyncRepository
from zae_limiter_manifest import LimitsManifest, StackProperties, render_template

pytestmark = pytest.mark.needs("lambda", "custom-resource")


class Tenant:
    """A stack of its own that holds a namespace's limits; both have one name."""

    def __init__(self, target: Target, client: Any) -> None:
        self.name = f"tenant-{uuid.uuid4().hex[:8]}"
        self.client = client
        self.limiter = str(target.stack)

    def template(self, wanted: LimitsManifest) -> str:
        return render_template(StackProperties(named(self.name, wanted)), self.limiter)

    def wait(self, event: str) -> None:
        self.client.get_waiter(f"stack_{event}_complete").wait(StackName=self.name, WaiterConfig={"Delay": 5})

    def delete(self) -> None:
        self.client.delete_stack(StackName=self.name)
        self.wait("delete")


@pytest.fixture
def tenant(target: Target) -> Iterator[Tenant]:
    with closing(target.client("cloudformation")) as client:
        tenant = Tenant(target, client)
        yield tenant
        tenant.delete()  # a stack that is gone is no error


def test_a_stack_of_the_template_applies_updates_and_takes_back_its_limits(target: Target, tenant: Tenant) -> None:
    tenant.client.create_stack(StackName=tenant.name, TemplateBody=tenant.template(changed(500)))
    tenant.wait("create")
    with SyncRepository.open(tenant.name, stack=target.stack, endpoint_url=target.endpoint_url) as repository:
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 500)]
        tenant.client.update_stack(StackName=tenant.name, TemplateBody=tenant.template(changed(600)))
        tenant.wait("update")
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 600)]
        repository.set_resource_defaults("by-hand", [Limit.per_minute("rpm", 7)])
        tenant.delete()
        assert repository.get_limits("user-123", "gpt-4") == []
        assert repository.list_resources_with_defaults() == ["by-hand"]
