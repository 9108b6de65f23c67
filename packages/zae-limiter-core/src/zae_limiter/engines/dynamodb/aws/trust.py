"""Certificates that do not verify, as the store error of each client."""

import ssl
from collections.abc import Iterator
from typing import Any, Final

from ....operations.errors import Untrusted

# Codes of OpenSSL, X509_V_ERR_*: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_OTHER_NAME: Final = 62
_HINTS: Final = {
    **dict.fromkeys((9, 10), "renew it, or correct this machine's clock"),  # not valid yet, expired
    **dict.fromkeys((2, 18, 19, 20, 21), "name the authority that signed it in AWS_CA_BUNDLE"),  # unknown, self-signed
    **dict.fromkeys((_OTHER_NAME, 64), "check the host of endpoint_url"),  # another name, another address
}


def untrusted(error: BaseException, host: str) -> Untrusted | None:
    """Return the store error of a certificate of ``host`` that does not verify, ``None`` for any other error.

    SDKs wrap the error of the TLS library in errors of their own.
    """
    return next((Untrusted(host, reason) for each in _with_reasons(error) if (reason := _reason(each))), None)


def _with_reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and every exception that it was raised from or has as an argument."""
    seen: list[Any] = [error]
    for each in seen:
        yield each
        inner = each.__cause__, each.__context__, getattr(each, "kwargs", {}).get("error"), *each.args
        seen += [other for other in inner if isinstance(other, BaseException) and not any(other is one for one in seen)]


def _reason(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_code"):  # that of aiohttp has none
        return _with_hint(error.verify_message.rstrip("."), error.verify_code)
    if type(error).__name__ == "CertificateError" and isinstance(error, ValueError):  # of urllib3, which compares names
        return _with_hint(str(error), _OTHER_NAME)
    return None


def _with_hint(message: str, code: int) -> str:
    return f"{message}; {_HINTS[code]}" if code in _HINTS else message
