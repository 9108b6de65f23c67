"""The passwords of the environment's proxies, kept out of errors.

The SDK of the async variant writes the URL of a proxy, and a proxy may send back what it was sent.
"""

from base64 import b64encode
from collections.abc import Iterator
from traceback import format_exception
from typing import NoReturn
from urllib.parse import quote, unquote
from urllib.request import getproxies_environment

from ....operations.errors import OutcomeUnknown, StoreError


def raise_without_password(fault: StoreError, error: Exception) -> NoReturn:
    """Raise the store error of an error of a client: from it, unless it shows the password of a proxy."""
    if next(_passwords(), None) is None:  # an outage has many errors, and formatting one costs more than its call
        raise fault from error
    traceback = "".join(format_exception(error))
    if without_passwords(traceback) == traceback:
        raise fault from error
    text = without_passwords(str(fault))
    if text == str(fault):
        raise fault from None
    raise (type(fault) if fault.args == (str(fault),) else OutcomeUnknown)(text) from None


def without_passwords(text: str) -> str:
    """Return the text with ``***`` for every user of the environment's proxies that has a password."""
    for each in sorted({*_passwords()}, key=len, reverse=True):
        text = text.replace(each, "***")
    return text


def _passwords() -> Iterator[str]:
    """Yield a user with its password, as a URL may have them and as a header has them."""
    for proxy in getproxies_environment().values():
        pair = proxy.rpartition("@")[0].rpartition("//")[2]
        if ":" in pair:
            yield from (pair, unquote(pair), quote(unquote(pair), safe=":"))
            yield from (b64encode(each.encode()).decode() for each in (pair, unquote(pair)))
