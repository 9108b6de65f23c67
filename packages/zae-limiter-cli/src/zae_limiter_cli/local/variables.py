"""What lives here: the environment variables with which every program finds a local stack, for three shells.
What never does: setting them.
"""

import os
from collections.abc import Mapping
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from .home import Running

Form = Literal["sh", "direnv", "powershell"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

# They would lead to another account, or to none.
UNSET: Final = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_LAMBDA")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


def variables(running: Running, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What has to be set; where there is a proxy, the stack is not behind it."""
    found = {
        "ZAEL_STACK": running.name,
        "AWS_ENDPOINT_URL": running.endpoint_url,
        "AWS_REGION": running.region,
        "AWS_DEFAULT_REGION": running.region,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if any(environment.get(name) for name in _PROXIES):
        found["NO_PROXY"] = str(urlsplit(running.endpoint_url).hostname)
    return found


def script(running: Running, form: Form) -> str:
    """Lines for a shell to evaluate; for direnv the content of an `.envrc`, which is a file of the shell's."""
    if form == "powershell":
        unset = [f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in UNSET]
        return "\n".join([*unset, *(f'$Env:{name} = "{value}"' for name, value in variables(running).items())])
    lines = [f"unset {' '.join(UNSET)}", *(f"export {name}={value}" for name, value in variables(running).items())]
    told = ["# zae-limiter local env --format direnv > .envrc && direnv allow"] if form == "direnv" else []
    return "\n".join([*told, *lines])
