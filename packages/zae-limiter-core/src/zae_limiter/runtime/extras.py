"""Say how to install the requirements of an extra of this distribution."""

import re
from importlib.metadata import PackageNotFoundError, requires

_OF_EXTRA = re.compile(r"([^;]+);[^;]*\bextra == ['\"]([\w-]+)['\"]")


def install_command(extra: str) -> str:
    """Return the command that installs the requirements of ``extra``, or names the extra where metadata are missing.

    It names the requirements themselves, so it is right wherever this distribution came from.
    """
    try:
        found = map(_OF_EXTRA.fullmatch, requires("zae-limiter-core") or ())
    except PackageNotFoundError:  # such as in the zip of a Lambda
        return f"install the requirements of the extra {extra!r} of zae-limiter-core"
    return " ".join(["pip install", *(f'"{each[1].strip()}"' for each in found if each and each[2] == extra)])
