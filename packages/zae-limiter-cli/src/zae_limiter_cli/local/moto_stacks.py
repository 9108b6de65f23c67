"""Let moto's stacks have custom resources: their Lambdas are called, and what one refuses is rolled back.

moto changes a stack within the request, calls a Lambda only in a container, and knows no failure. Here the Lambda is
called where moto makes, changes or deletes the resource. What failed is kept until moto is done with the stack, because
moto repeats what raises; then ``following`` rolls the stack back, and its events say why.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import moto.cloudformation.parsing as moto_parsing
from moto.backends import get_backend
from moto.cloudformation.custom_model import CustomModel
from moto.cloudformation.models import CloudFormationBackend, Event, Stack
from moto.cloudformation.parsing import OutputMap
from moto.core.models import DEFAULT_ACCOUNT_ID

from .custom_resources import CustomResources, Reply, StackResource, as_texts

_PARTS: Final = {"CREATE": "Create", "UPDATE": "Update", "DELETE": "Delete"}


@dataclass(frozen=True, slots=True)
class _Failure:
    resource: "_Resource"
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Before:
    """A stack before a change; the template is empty if it waits for its first change set."""

    template: Any
    parameters: dict[str, str]


_failures: ContextVar[list[_Failure] | None] = ContextVar("failures", default=None)


class _Resource(CustomModel):
    """A custom resource in a stack of moto."""

    senders: CustomResources

    def __init__(self, stack: Stack, declared: StackResource, physical_id: str) -> None:
        super().__init__(stack.region_name, "", declared.logical_id, physical_id)
        self.stack = stack
        self.logical_resource_id = declared.logical_id
        self.type = declared.type
        self.declared = declared
        self.set_data({})  # moto waits for nothing

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: dict[str, Any], account_id: str, region_name: str, **kwargs: Any
    ) -> "_Resource":
        """Create the resource: call its Lambda."""
        del account_id  # there is one
        stack = _stacks(region_name).get_stack(kwargs["StackId"])
        declared = StackResource(
            kwargs["StackId"], kwargs["LogicalId"], kwargs["ResourceType"], cloudformation_json["Properties"]
        )
        made = cls(stack, declared, resource_name)
        made.change("CREATE", declared)
        return made

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: "_Resource",
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> "_Resource":
        """Update the resource: call its Lambda, and once more to delete the old one where the physical id changed."""
        del new_resource_name, account_id, region_name
        old, physical_id = original_resource.declared, original_resource.resource_name
        wanted = StackResource(old.stack_id, old.logical_id, old.type, cloudformation_json["Properties"])
        original_resource.change(
            "UPDATE", wanted, PhysicalResourceId=physical_id, OldResourceProperties=as_texts(old.properties)
        )
        if original_resource.resource_name != physical_id:
            original_resource.send("DELETE", old, PhysicalResourceId=physical_id)
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete the resource: call its Lambda."""
        del account_id, region_name
        self.change("DELETE", self.declared, PhysicalResourceId=self.resource_name)

    def change(self, action: str, wanted: StackResource, **more: Any) -> None:
        """Send an event; keep what the Lambda replied. Even what failed is declared now: a rollback says so."""
        self.note(f"{action}_IN_PROGRESS")
        reply = self.send(action, wanted, **more)
        self.declared = wanted
        if reply.problem is not None:
            failures = _failures.get()
            if failures is not None:
                failures.append(_Failure(self, action, reply.problem))
        else:
            self.data = dict(reply.data)
        if reply.physical_id and (reply.problem is None or action == "CREATE"):
            self.resource_name = reply.physical_id
        self.note(f"{action}_{'COMPLETE' if reply.problem is None else 'FAILED'}", reply.problem)

    def send(self, action: str, declared: StackResource, **more: Any) -> Reply:
        """Return the Lambda's reply to an event."""
        return self.senders.send(_PARTS[action], declared, region=self.region_name, **more)

    def note(self, status: str, reason: str | None = None) -> None:
        """Add an event of this resource to its stack's."""
        self.stack.events.append(
            Event(
                stack_id=self.stack.stack_id,
                stack_name=self.stack.name,
                logical_resource_id=self.logical_id,
                physical_resource_id=self.resource_name,
                resource_type=self.type,
                resource_status=status,
                resource_status_reason=reason,
                resource_properties=None,
            )
        )


def install(custom_resources: CustomResources) -> None:
    """Let moto, which all of this process shares, make custom resources that call Lambdas."""

    class Resource(_Resource):
        senders = custom_resources

    vars(moto_parsing)["CustomModel"] = Resource


@contextmanager
def following(region: str) -> Iterator[None]:
    """Roll back each stack that the block changes and that has a resource whose Lambda failed."""
    backend = _stacks(region)
    before = {each.stack_id: _Before(each.template, each.parameters) for each in backend.stacks.values()}
    failures: list[_Failure] = []
    token = _failures.set(failures)
    try:
        yield
        for stack_id in dict.fromkeys(each.resource.declared.stack_id for each in failures):
            of_stack = [each for each in failures if each.resource.declared.stack_id == stack_id]
            failures.clear()
            _settle(backend, stack_id, of_stack, failures, before.get(stack_id))
        for stack in backend.deleted_stacks.values():
            _empty(stack)
    finally:
        _failures.reset(token)


def _settle(
    backend: CloudFormationBackend,
    stack_id: str,
    failed: Sequence[_Failure],
    failing: Sequence[_Failure],
    before: _Before | None,
) -> None:
    """Roll a stack back; ``failing`` gets what fails meanwhile."""
    stack = backend.get_stack(stack_id)
    names = ", ".join(dict.fromkeys(each.resource.logical_id for each in failed if each.action != "DELETE"))
    if stack_id in backend.deleted_stacks:
        _keep(backend, stack, [each.resource for each in failed])
    elif not names:
        return  # a resource that an update removes: the update stays complete, on AWS as well
    elif before is None or not before.template:
        _begin(stack, "ROLLBACK_IN_PROGRESS", f"The following resource(s) failed to create: [{names}].")
        stack.resource_map.delete()
        _empty(stack)
        _end(stack, "ROLLBACK_FAILED" if failing else "ROLLBACK_COMPLETE")
    else:
        _begin(stack, "UPDATE_ROLLBACK_IN_PROGRESS", f"The following resource(s) failed to update: [{names}].")
        _put_back(stack, before)
        _end(stack, "UPDATE_ROLLBACK_FAILED" if failing else "UPDATE_ROLLBACK_COMPLETE")


def _empty(stack: Stack) -> None:
    """Let a stack have no resources any more: moto makes one again that an output, or a description, asks for."""
    stack.resource_map._resource_json_map = {}
    stack.output_map = OutputMap(stack.resource_map, {}, stack.stack_id)


def _keep(backend: CloudFormationBackend, stack: Stack, resources: Sequence[_Resource]) -> None:
    """Keep a deleted stack with the resources that are still there, to be deleted again."""
    backend.stacks[stack.stack_id] = backend.deleted_stacks.pop(stack.stack_id)
    stack.resource_map._parsed_resources.update({each.logical_id: each for each in resources})
    stack.events.pop()  # DELETE_COMPLETE
    names = ", ".join(each.logical_id for each in resources)
    _end(stack, "DELETE_FAILED", f"The following resource(s) failed to delete: [{names}].")


def _put_back(stack: Stack, before: _Before) -> None:
    """Change a stack back to its template and parameters from before an update."""
    stack.template, stack.parameters = before.template, before.parameters
    stack._parse_template()
    stack.resource_map.update(stack.template_dict, before.parameters)
    stack.output_map = stack._create_output_map()


def _begin(stack: Stack, status: str, reason: str) -> None:
    """Begin a rollback in place of the success that moto reported."""
    if stack.events[-1].resource_status.endswith("_COMPLETE"):
        stack.events.pop()
    stack.status = status
    stack._add_stack_event(status, reason)


def _end(stack: Stack, status: str, reason: str | None = None) -> None:
    stack.status = status
    stack._add_stack_event(status, reason)


def _stacks(region: str) -> CloudFormationBackend:
    found: CloudFormationBackend = get_backend("cloudformation")[DEFAULT_ACCOUNT_ID][region]
    return found
