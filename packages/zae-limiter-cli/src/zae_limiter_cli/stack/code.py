"""Read the deployed code of the Lambdas, and upload ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..artifacts.builder import Artifact, LambdaName

VERSION_TAG: Final = "zae-limiter:version"
FUNCTION_NAMES: Final[Mapping[LambdaName, str]] = {
    "aggregator": "{}-aggregator",
    "provisioner": "{}-limits-provisioner",
    "planner": "{}-limits-planner",
}

Outcome = Literal["uploaded", "unchanged", "to upload"]


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda as it is; ``version`` is ``None`` until our code was uploaded."""

    name: str
    arn: str
    state: str
    code_sha256: str
    architecture: str
    version: str | None


def function_name(stack: str, name: LambdaName) -> str:
    """Return the name of a stack's Lambda."""
    return FUNCTION_NAMES[name].format(stack)


def find_function(client: Any, name: str) -> Function | None:
    """Return the Lambda of that name; ``None`` if there is none."""
    from botocore.exceptions import ClientError

    try:
        found = client.get_function(FunctionName=name)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
            return None
        raise
    told = found["Configuration"]
    return Function(
        name=name,
        arn=told["FunctionArn"],
        state=told.get("State", "Active"),
        code_sha256=told["CodeSha256"],
        architecture=told.get("Architectures", ["x86_64"])[0],
        version=found.get("Tags", {}).get(VERSION_TAG),
    )


def upload(client: Any, function: Function, artifact: Artifact) -> Outcome:
    """Make the artifact the Lambda's code, and wait until it is; send nothing if it is already."""
    outcome: Outcome = "unchanged"
    if function.code_sha256 != artifact.code_sha256:
        client.update_function_code(
            FunctionName=function.name, ZipFile=artifact.content, Architectures=[function.architecture]
        )
        client.get_waiter("function_updated_v2").wait(FunctionName=function.name)
        outcome = "uploaded"
    if function.version != artifact.version:
        client.tag_resource(Resource=function.arn, Tags={VERSION_TAG: artifact.version})
    return outcome
