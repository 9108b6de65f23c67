"""A start script of LocalStack 4.14 where no engine is: Lambdas run in processes, as `zae-limiter local up` runs them.

They, and DynamoDB Local, end with LocalStack, even where that is killed.
"""

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from localstack.services.dynamodb.server import DynamodbServer
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor
from localstack.utils import testutil
from localstack.utils.archives import create_zip_file_python
from localstack.utils.threads import FuncThread

from localstack import config
from zae_limiter_cli.local.children import start_command
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.lambdas.environment import Call, Environment
from zae_limiter_cli.local.lambdas.function import Function
from zae_limiter_cli.local.lambdas.log import FunctionLog

HOST = "127.0.0.1"


class ProcessExecutor(RuntimeExecutor):
    """One execution environment; its process is started anew after a call that ended it."""

    def start(self, env_vars: dict[str, str]) -> None:
        settings, version = self.function_version.config, self.function_version.id
        self._code = settings.code
        self._credentials = Credentials(env_vars["AWS_ACCESS_KEY_ID"], env_vars["AWS_SECRET_ACCESS_KEY"])
        self._function = Function(
            name=version.function_name,
            arn=version.qualified_arn(),
            version=version.qualifier,
            handler=settings.handler,
            timeout_seconds=settings.timeout,
            memory_mb=settings.memory_size,
            region=version.region,
            variables=tuple(sorted((settings.environment or {}).items())),
            code_sha256=settings.code.code_sha256,
        )
        self._working = threading.Lock()
        self._environment = self._started()

    def stop(self) -> None:
        if self._working.acquire(blocking=False):
            self._environment.close()
        else:
            self._environment.kill()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        request_id = payload["invoke-id"]
        with self._working:
            if not self._environment.usable:
                self._environment = self._started()
            outcome, log = self._environment.run(Call(payload["payload"].encode(), request_id))
        text = log.decode(errors="replace")
        return InvocationResult(request_id, outcome.payload, is_error=outcome.failed, logs=text)

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        return HOST

    def get_runtime_endpoint(self) -> str:
        return ""  # a process asks the Runtime API of its own, and nothing of LocalStack's

    def get_logs(self) -> str:
        return ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.destroy_cached()

    def _started(self) -> Environment:
        logs = Path(config.dirs.logs)
        logs.mkdir(parents=True, exist_ok=True)
        return Environment(
            self._function,
            Path(self._code.get_unzipped_code_location()),
            endpoint_url=f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}",
            credentials=self._credentials,
            log=FunctionLog(logs / f"{self._function.name}.log"),
        )


def executor(plugin: Any, *args: Any, **kwargs: Any) -> type[RuntimeExecutor]:
    return ProcessExecutor


def dynamodb_local(server: DynamodbServer) -> FuncThread:
    """DynamoDB Local as it is fetched: without LocalStack's agent, which admits more than 20 indexes."""
    home = Path(os.environ["ZAEL_DYNAMODB_LOCAL"])
    command = [
        os.environ.get("ZAEL_JAVA") or shutil.which("java") or "java",
        f"-Xmx{server.heap_size}",
        f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
        *("-jar", str(home / "DynamoDBLocal.jar"), "-port", str(server.port), "-inMemory", "-disableTelemetry"),
    ]
    child = start_command(command, output=subprocess.DEVNULL)
    thread = FuncThread(lambda _: child.process.wait(), name="dynamodb-local", on_stop=lambda _: child.end())
    thread.start()
    return thread


def zipped(source_path: str, base_dir: str, zip_file: str) -> None:
    """Inline code as an archive, on a machine without the command `zip`."""
    create_zip_file_python(base_dir, zip_file)


testutil.create_zip_file_cli = zipped
DockerRuntimeExecutorPlugin.load = executor
DynamodbServer.do_start_thread = dynamodb_local
