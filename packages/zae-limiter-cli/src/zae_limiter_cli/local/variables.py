"""Write the environment variables with which programs find a local stack, for three shells."""

import os
import shlex
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from .state_dir import Running

Form = Literal["sh", "direnv", "powershell"]

# They would lead to another account, to none, or to a file.
UNSET: Final = (
    "ZAEL_STORE",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
)
_ENDPOINTS: Final = "AWS_ENDPOINT_URL_"  # each with a service; it wins over the one for all
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_PAST_PROXIES: Final = ("NO_PROXY", "no_proxy")  # where both are set most programs heed the second alone


def variables(running: Running, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables to set; if there is a proxy, they exclude the stack from it."""
    found = {
        "ZAEL_STACK": running.name,
        "AWS_ENDPOINT_URL": running.endpoint_url,
        "AWS_REGION": running.region,
        "AWS_DEFAULT_REGION": running.region,
        **running.credentials.variables(),
        "AWS_EC2_METADATA_DISABLED": "true",
        # Set rather than unset: the user's configuration file may ask for the same.
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_USE_FIPS_ENDPOINT": "false",
        "AWS_USE_DUALSTACK_ENDPOINT": "false",
    }
    if running.audit_retention_days is not None:
        found["ZAEL_AUDIT_RETENTION_DAYS"] = str(running.audit_retention_days)
    if any(environment.get(name) for name in _PROXIES):
        past = _past_proxies(str(urlsplit(running.endpoint_url).hostname), environment)
        found.update(dict.fromkeys(_PAST_PROXIES, past))
    return found


def unwanted(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the variables that must not be set, whether they are or not."""
    return *UNSET, *sorted(name for name in environment if name.startswith(_ENDPOINTS))


def script(running: Running, form: Form, environment: Mapping[str, str] = os.environ) -> str:
    """Return lines for a shell to evaluate; for direnv the content of an `.envrc`, which belongs to the shell."""
    wanted, unset = variables(running, environment), unwanted(environment)
    if form == "powershell":
        removed = [f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in unset]
        return "\n".join([*removed, *(f"$Env:{name} = {_quoted(value)}" for name, value in wanted.items())])
    lines = [f"unset {' '.join(unset)}", *(f"export {name}={shlex.quote(value)}" for name, value in wanted.items())]
    told = ["# zae-limiter local env --format direnv > .envrc && direnv allow"] if form == "direnv" else []
    return "\n".join([*told, *lines])


def _past_proxies(host: str, environment: Mapping[str, str]) -> str:
    """Return the hosts that bypass the proxies already, and this one."""
    there = [entry.strip() for name in _PAST_PROXIES for entry in environment.get(name, "").split(",")]
    if "*" in there:
        return "*"  # counts only where it stands alone
    return ",".join(dict.fromkeys([*filter(None, there), host]))


def _quoted(value: str) -> str:
    """Return a value in quotes, so that PowerShell takes it as it is."""
    return "'" + value.replace("'", "''") + "'"
