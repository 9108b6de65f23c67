"""The passwords of the environment's proxies, kept out of errors.

The SDK of the async variant writes the URL of a proxy, and a proxy may send back what it was sent.
"""

from base64 import b64encode
from collections.abc import Iterator
from traceback import format_exception
from typing import NoReturn
from urllib.parse import quote, unquote
from urllib.request import getproxies_environment

from ..operations.errors import OutcomeUnknown, StoreError


def raise_without_password(fault: StoreError, error: Exception) -> NoReturn:
    """Raise the store error of an error of a client: from it, unless it shows the password of a proxy."""
    passwords = sorted({*_passwords()}, key=len, reverse=True)
    if not passwords or not any(each in text for text in format_exception(error) for each in passwords):
        raise fault from error
    text = str(fault)
    for each in passwords:
        text = text.replace(each, "***")
    if text == str(fault):
        raise fault from None
    raise (type(fault) if fault.args == (str(fault),) else OutcomeUnknown)(text) from None


def _passwords() -> Iterator[str]:
    """Yield a user with its password, as a URL may have them and as a header has them."""
    for proxy in getproxies_environment().values():
        pair = proxy.rpartition("@")[0].rpartition("//")[2]
        if ":" in pair:
            yield from (pair, unquote(pair), quote(unquote(pair), safe=":"))
            yield from (b64encode(each.encode()).decode() for each in (pair, unquote(pair)))
