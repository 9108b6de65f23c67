"""A declared Lambda function, and the environment of its process."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..credentials import Credentials


@dataclass(frozen=True)
class Function:
    """A function at one version; two that are equal can serve each other's calls."""

    name: str
    arn: str
    version: str
    handler: str
    timeout_seconds: int
    memory_mb: int
    region: str
    variables: tuple[tuple[str, str], ...]
    code_sha256: str
    concurrency: int | None = None

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], *, concurrency: int | None = None) -> "Function":
        """Return the function that Lambda's GetFunctionConfiguration describes."""
        arn = str(configuration["FunctionArn"])
        variables = configuration.get("Environment", {}).get("Variables", {})
        return cls(
            name=str(configuration["FunctionName"]),
            arn=arn,
            version=str(configuration["Version"]),
            handler=str(configuration["Handler"]),
            timeout_seconds=int(configuration["Timeout"]),
            memory_mb=int(configuration["MemorySize"]),
            region=arn.split(":")[3],
            variables=tuple(sorted((str(name), str(value)) for name, value in variables.items())),
            code_sha256=str(configuration["CodeSha256"]),
            concurrency=concurrency,
        )

    @property
    def log_group(self) -> str:
        """The log group of the function."""
        return f"/aws/lambda/{self.name}"

    def environment(
        self, *, task: Path, runtime_api: str, endpoint_url: str, credentials: Credentials, log_stream: str
    ) -> dict[str, str]:
        """Return the environment variables of a process that runs it; the function's own do not change Lambda's.

        https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
        """
        own = {
            "_HANDLER": self.handler,
            **credentials.variables(),
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_ENDPOINT_URL": endpoint_url,
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory_mb),
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_VERSION": self.version,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": self.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
            "LAMBDA_RUNTIME_DIR": "/var/runtime",
            "LAMBDA_TASK_ROOT": str(task),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
        }
        shared = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
        return {**shared, **dict(self.variables), **own}
