"""What lives here: what every LocalStack of the tests has: its version, its settings, its start scripts, its health.
What never does: how one is started (host, container).
"""

import json
import time
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

VERSION: Final = "4.14.0"  # the last one that runs without a token
RELEASED: Final = "2026-03-05"  # what it was released with, of the packages that it leaves open
RECIPE: Final = Path(__file__).parents[3] / "localstack"
CUSTOM_RESOURCES: Final = "custom_resources.py"
START_SCRIPTS: Final = (CUSTOM_RESOURCES, "processes.py")
READY_SECONDS: Final = 120

SETTINGS: Final = {
    "DISABLE_EVENTS": "1",  # no reports to its maker
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DNS_ADDRESS": "0",
    "DYNAMODB_IN_MEMORY": "1",
    "PROVIDER_OVERRIDE_DYNAMODB": "v2",
    "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
    "S3_SKIP_SIGNATURE_VALIDATION": "0",
}


def wait_until_healthy(url: str, scripts: Collection[str] = (), ended: Callable[[], str | None] = lambda: None) -> None:
    """Raise ``RuntimeError`` where it does not get there, or a start script of it failed: nothing is to be skipped."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if (log := ended()) is not None:
            raise RuntimeError(f"LocalStack ended before it was healthy: {log}")
        try:
            ready = _ask(f"{url}/_localstack/init")["completed"]["READY"]
        except OSError:
            ready = False
        if ready:
            missing = set(scripts) - start_scripts(url)
            if missing:
                raise RuntimeError(f"LocalStack at {url} could not run: {', '.join(sorted(missing))}")
            return
        time.sleep(0.25)
    raise RuntimeError(f"LocalStack at {url} is not healthy after {READY_SECONDS} s")


def start_scripts(url: str) -> set[str]:
    """The names of the start scripts that it has run without an error."""
    scripts = _ask(f"{url}/_localstack/init")["scripts"]
    return {each["name"] for each in scripts if (each["stage"], each["state"]) == ("START", "SUCCESSFUL")}


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return json.load(answer)
