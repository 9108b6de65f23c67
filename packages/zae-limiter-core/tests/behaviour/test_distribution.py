import re
import subprocess
import sys
from importlib.metadata import distribution
from importlib.resources import files


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-core")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter").joinpath("py.typed").is_file()


def test_it_requires_no_library_of_aws() -> None:
    required = [each for each in distribution("zae-limiter-core").requires or () if "extra ==" not in each]
    assert {re.split(r"[^\w-]", each)[0] for each in required} == {"cronsim", "tzdata"}


def test_importing_it_imports_neither_an_aws_library_nor_opentelemetry() -> None:
    heavy = {"aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore", "opentelemetry"}
    ask = f"import sys, zae_limiter.aio.limiter, zae_limiter.observers.emf; print({heavy!r} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"


def test_importing_it_and_its_asgi_middleware_imports_no_framework() -> None:
    frameworks = {"asgiref", "django", "fastapi", "flask", "starlette"}
    ask = f"import sys, zae_limiter, zae_limiter.integrations.asgi; print({frameworks} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
