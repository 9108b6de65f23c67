"""A start script of LocalStack 4.14: its CloudFormation sends events of custom resources to their Lambdas.

The free edition only says that it has deployed them. Here an event goes out as AWS sends it, and the reply comes back
through a presigned URL of S3, whose signature is checked.
"""

import json
import time
import uuid
from typing import Any, ClassVar

import boto3
from botocore.config import Config
from localstack.services.cloudformation import resource_provider as providers
from localstack.services.cloudformation.resource_provider import OperationStatus, ProgressEvent, ResourceProvider
from localstack.services.lambda_.invocation.runtime_executor import get_runtime_executor

from localstack import config

BUCKET = "cloudformation-custom-resource-response"
REPLY_SECONDS = 120
PHYSICAL_ID = "PhysicalResourceId__"

# By stack and logical id: the properties and the physical id. LocalStack forgets both where an action fails.
deployed: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}


def host_for_lambdas() -> str:
    """The host by which a function reaches LocalStack."""
    host: str = get_runtime_executor().get_endpoint_from_executor(None)
    return host


def as_texts(value: object) -> object:
    """Properties as CloudFormation sends them: every scalar is a text."""
    if isinstance(value, dict):
        return {name: as_texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_texts(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class Reply:
    """The place for one reply: ``url`` is presigned for functions, ``wait`` gives what was put there."""

    def __init__(self, client_of: Any) -> None:
        # The old signature covers the content type, as that of CloudFormation's own URLs does.
        signing = Config(signature_version="s3", s3={"addressing_style": "path"})
        self._s3 = client_of("s3", config.internal_service_url())
        self._s3.create_bucket(Bucket=BUCKET)
        self._place = {"Bucket": BUCKET, "Key": uuid.uuid4().hex}
        port = config.GATEWAY_LISTEN[0].port
        signer = client_of("s3", f"http://{host_for_lambdas()}:{port}", signing)
        self.url = signer.generate_presigned_url("put_object", Params=self._place, ExpiresIn=7200)

    def wait(self) -> dict[str, Any]:
        deadline = time.monotonic() + REPLY_SECONDS
        while time.monotonic() < deadline:
            try:
                reply: dict[str, Any] = json.loads(self._s3.get_object(**self._place)["Body"].read())
            except self._s3.exceptions.NoSuchKey:
                time.sleep(0.1)
            else:
                return reply
        return {"Status": "FAILED", "Reason": f"the Lambda sent no reply within {REPLY_SECONDS} s"}


class CustomResource(ResourceProvider):
    """A resource of any type ``Custom::…``."""

    TYPE = "AWS::CloudFormation::CustomResource"
    SCHEMA: ClassVar = {
        "typeName": TYPE,
        "primaryIdentifier": [f"/properties/{PHYSICAL_ID}"],
        "properties": {},
        "additionalProperties": True,
    }

    def create(self, request: Any) -> ProgressEvent:
        wanted = own(request.desired_state)
        reply = send(request, "Create", wanted)
        if reply["Status"] == "SUCCESS":
            return succeeded(request, wanted, reply)
        if physical_id := reply.get("PhysicalResourceId"):
            send(request, "Delete", wanted, PhysicalResourceId=physical_id)
        return ProgressEvent(OperationStatus.FAILED, resource_model={}, message=reply["Reason"])

    def update(self, request: Any) -> ProgressEvent:
        """An update that fails is rolled back; one that changes the physical id deletes the old resource."""
        wanted, (old, physical_id) = own(request.desired_state), deployed[place_of(request)]
        to_new = {"PhysicalResourceId": physical_id, "OldResourceProperties": as_texts(old)}
        reply = send(request, "Update", wanted, **to_new)
        if reply["Status"] != "SUCCESS":
            back = send(request, "Update", old, PhysicalResourceId=physical_id, OldResourceProperties=as_texts(wanted))
            message = f"{reply['Reason']} [rollback: {back['Status']} {back.get('Reason', '')}]"
            model = succeeded(request, old, back).resource_model
            return ProgressEvent(OperationStatus.FAILED, resource_model=model, message=message)
        if reply["PhysicalResourceId"] != physical_id:
            send(request, "Delete", old, PhysicalResourceId=physical_id)
        return succeeded(request, wanted, reply)

    def delete(self, request: Any) -> ProgressEvent:
        if place_of(request) not in deployed:
            return ProgressEvent(OperationStatus.SUCCESS, resource_model={})
        old, physical_id = deployed.pop(place_of(request))
        reply = send(request, "Delete", old, PhysicalResourceId=physical_id)
        status = OperationStatus.SUCCESS if reply["Status"] == "SUCCESS" else OperationStatus.FAILED
        return ProgressEvent(status, resource_model={}, message=reply.get("Reason", ""))


def own(state: dict[str, Any]) -> dict[str, Any]:
    """The properties of the template, without what was added to them after a reply."""
    return {name: value for name, value in state.items() if name != PHYSICAL_ID}


def place_of(request: Any) -> tuple[str, str]:
    return request.stack_id, request.logical_resource_id


def succeeded(request: Any, properties: dict[str, Any], reply: dict[str, Any]) -> ProgressEvent:
    """Keep what is deployed now."""
    deployed[place_of(request)] = (properties, reply["PhysicalResourceId"])
    model = {**properties, **(reply.get("Data") or {}), PHYSICAL_ID: reply["PhysicalResourceId"]}
    return ProgressEvent(OperationStatus.SUCCESS, resource_model=model)


def send(request: Any, kind: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The Lambda's reply to an event."""

    def client_of(service: str, endpoint_url: str, settings: Config | None = None) -> Any:
        return boto3.client(
            service,
            endpoint_url=endpoint_url,
            region_name=request.region_name,
            aws_access_key_id=request.account_id,
            aws_secret_access_key="test",
            config=settings,
        )

    reply = Reply(client_of)
    event = {
        "RequestType": kind,
        "RequestId": str(uuid.uuid4()),
        "ResponseURL": reply.url,
        "StackId": request.stack_id,
        "LogicalResourceId": request.logical_resource_id,
        "ResourceType": request.resource_type,
        "ServiceToken": properties["ServiceToken"],
        "ResourceProperties": as_texts(properties),
        **more,
    }
    functions = client_of("lambda", config.internal_service_url())
    functions.invoke(FunctionName=properties["ServiceToken"], InvocationType="Event", Payload=json.dumps(event))
    return reply.wait()


load_other_provider = providers.ResourceProviderExecutor.try_load_resource_provider


def load_provider(resource_type: str) -> ResourceProvider | None:
    custom = resource_type and resource_type.startswith("Custom::")
    return CustomResource() if custom else load_other_provider(resource_type)


providers.ResourceProviderExecutor.try_load_resource_provider = staticmethod(load_provider)
