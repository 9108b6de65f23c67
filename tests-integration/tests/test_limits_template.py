"""What lives here: the template of `limits cfn-template`, deployed where CloudFormation runs functions.
What never does: what an event does to limits (test_declarative_failures, the provisioner's own tests).
"""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from support.cli.account import eventually
from support.integration.declared import changed, named
from support.integration.names import own_name
from support.integration.targets import Target
from support.manifest.hostile import hostile_manifests, says_functions
from zae_limiter import Limit, SyncRepository
from zae_limiter_manifest import LimitsManifest, StackProperties, render_template

pytestmark = pytest.mark.needs("lambda", "custom-resource")


class Tenant:
    """A stack of its own that holds a namespace's limits."""

    def __init__(self, target: Target, client: Any) -> None:
        self.name = own_name()
        self.client = client
        self.limiter = str(target.stack)

    def template(self, wanted: LimitsManifest) -> str:
        return render_template(StackProperties(wanted), self.limiter)

    def wait(self, event: str) -> None:
        self.client.get_waiter(f"stack_{event}_complete").wait(
            StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 600}
        )

    def create(self, wanted: LimitsManifest) -> None:
        self.client.create_stack(StackName=self.name, TemplateBody=self.template(wanted))
        self.wait("create")

    def update(self, template: str) -> None:
        self.client.update_stack(StackName=self.name, TemplateBody=template)
        self.wait("update")

    def is_settled(self) -> bool:
        (stack,) = self.client.describe_stacks(StackName=self.name)["Stacks"]
        return not stack["StackStatus"].endswith("_IN_PROGRESS")

    def delete(self) -> None:
        self.client.delete_stack(StackName=self.name)
        self.wait("delete")


@pytest.fixture
def tenant(target: Target) -> Iterator[Tenant]:
    with closing(target.client("cloudformation")) as client:
        tenant = Tenant(target, client)
        yield tenant
        tenant.delete()  # a stack that is gone is not an error


def test_a_stack_of_the_template_applies_updates_rolls_back_and_takes_back_its_limits(
    target: Target, tenant: Tenant
) -> None:
    tenant.create(named(tenant.name, changed(500)))
    with SyncRepository.open(tenant.name, stack=target.stack, endpoint_url=target.endpoint_url) as repository:
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 500)]
        tenant.update(tenant.template(named(tenant.name, changed(600))))
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 600)]

        refused = tenant.template(named(tenant.name, changed(700))).replace("700", "-700")
        tenant.client.update_stack(StackName=tenant.name, TemplateBody=refused)
        assert eventually(lambda: tenant.is_settled() and "-700" in failures(tenant))
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 600)]

        repository.set_resource_defaults("by-hand", [Limit.per_minute("rpm", 7)])
        tenant.delete()
        assert repository.get_limits("user-123", "gpt-4") == []
        assert repository.list_resources_with_defaults() == ["by-hand"]


def test_a_stack_whose_namespace_changes_empties_the_old_one(target: Target, tenant: Tenant) -> None:
    tenant.create(named(tenant.name, changed(500)))
    tenant.update(tenant.template(named(f"{tenant.name}-b", changed(500))))
    for namespace, limits in ((tenant.name, []), (f"{tenant.name}-b", [Limit.per_minute("rpm", 500)])):
        with SyncRepository.open(namespace, stack=target.stack, endpoint_url=target.endpoint_url) as repository:
            assert repository.get_limits("user-123", "gpt-4") == limits


def test_a_stack_applies_hostile_names_texts_and_numbers_as_they_were_declared(target: Target, tenant: Tenant) -> None:
    """CloudFormation evaluates nothing of a manifest: what is live is what was declared."""
    tenant.create(named(tenant.name, changed(1)))
    numbers = count()
    with SyncRepository.open(tenant.name, stack=target.stack, endpoint_url=target.endpoint_url) as repository:

        @settings(max_examples=8, deadline=None, database=None, phases=[Phase.generate])  # an update takes seconds
        @given(hostile_manifests().filter(lambda manifest: not says_functions(manifest)))
        def deploys(manifest: LimitsManifest) -> None:
            wanted = counted(tenant.name, manifest, next(numbers))
            tenant.update(tenant.template(wanted))
            assert exported(target, tenant.name) == wanted
            for entity, declared in wanted.entities.items():
                live = repository.get_entity(entity)
                found = (None, {}) if live is None else (live.name, live.metadata)
                assert found == (declared.name, declared.metadata.to_dict())

        deploys()


def counted(namespace: str, manifest: LimitsManifest, number: int) -> LimitsManifest:
    """The same for another namespace, and with an entity of its own: no update is equal to the one before."""
    plain = manifest.to_dict()
    entities = {**plain["entities"], "counted": {"metadata": {"number": number}}}
    return LimitsManifest.from_dict({**plain, "namespace": namespace, "entities": entities})


def exported(target: Target, namespace: str) -> LimitsManifest:
    """The manifest of what is live."""
    payload = json.dumps({"action": "export", "namespace": namespace})
    with closing(target.client("lambda")) as client:
        answer = client.invoke(FunctionName=f"{target.stack}-limits-provisioner", Payload=payload)
        return LimitsManifest.from_dict(json.loads(answer["Payload"].read())["manifest"])


def failures(tenant: Tenant) -> str:
    """What CloudFormation says of what failed."""
    events = tenant.client.describe_stack_events(StackName=tenant.name)["StackEvents"]
    return "\n".join(each.get("ResourceStatusReason", "") for each in events if "FAILED" in each["ResourceStatus"])
