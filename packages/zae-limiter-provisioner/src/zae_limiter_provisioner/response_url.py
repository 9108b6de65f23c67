"""Check the ResponseURL of an event: a reply goes to CloudFormation's own, and to an emulator that the environment
names.

The caller of the function chooses the URL of an event. Without this check the function sends requests for them.
"""

import os
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from .refusals import Refused

ALLOWED_HOST: Final = "ZAEL_RESPONSE_HOST"
ENDPOINT: Final = "AWS_ENDPOINT_URL"  # of the emulator that runs the function; AWS itself sets none
REGION: Final = "AWS_REGION"

# The DNS suffixes of AWS's partitions; a test compares them with botocore's list.
SUFFIXES: Final = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "c2s.ic.gov",
    "sc2s.sgov.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
)
_SETTING: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_REGION: Final = r"[a-z]{2,5}(?:-[a-z]{2,10}){1,2}-[0-9]{1,2}"
# Virtual-hosted S3: the bucket is named after the region, without hyphens or with them.
_HOST: Final = re.compile(
    rf"cloudformation-custom-resource-response-(?P<bucket>[a-z]{{2,5}}[a-z-]{{2,24}}[0-9]{{1,2}})"
    rf"\.s3(?:[.-](?:dualstack\.)?(?P<region>{_REGION}))?"
    rf"\.(?:{'|'.join(map(re.escape, SUFFIXES))})"
)


def check_response_url(url: object) -> str:
    """Return the URL, if a reply may be sent there. Raises ``Refused``, without the URL: its signature is a secret."""
    if url is None:
        raise Refused("bad_request", "the event has no ResponseURL")
    given = os.environ.get(ALLOWED_HOST, "")
    if isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            if _is_of_cloudformation(parts) or _is_of_emulator(parts) or (given and _has_host(parts, given)):
                return url
        except ValueError:  # brackets that are not address, or a port that is none
            pass
    way_out = f"{ALLOWED_HOST} can allow one host more"
    if given and not _SETTING.fullmatch(given):
        way_out = f"{ALLOWED_HOST} {given!r} must be a host, or host:port"
    raise Refused("bad_request", f"the ResponseURL is not one of CloudFormation's; {way_out}")


def _is_of_cloudformation(parts: SplitResult) -> bool:
    if parts.scheme != "https" or parts.port not in {None, 443} or "@" in parts.netloc:
        return False
    found = _HOST.fullmatch(parts.hostname or "")
    if found is None:
        return False
    # A stack and its provisioner are in one region, and so is the bucket. Hyphens elsewhere are another bucket's.
    region = os.environ.get(REGION) or found["region"]
    if region is None:
        return "-" not in found["bucket"]
    return found["region"] in (None, region) and found["bucket"] in (region, region.replace("-", ""))


def _is_of_emulator(parts: SplitResult) -> bool:
    """Return whether the URL has the host of the emulator that runs this function, at any port."""
    host = urlsplit(os.environ.get(ENDPOINT, "")).hostname or ""
    return bool(host) and not host.endswith(SUFFIXES) and _has_host(parts, f"[{host}]" if ":" in host else host)


def _has_host(parts: SplitResult, allowed: str) -> bool:
    """Return whether the URL has this host, and its port if one is named."""
    if parts.scheme not in {"http", "https"} or "@" in parts.netloc or not _SETTING.fullmatch(allowed):
        return False
    host = urlsplit(f"//{allowed}")
    return parts.hostname == host.hostname and (host.port is None or parts.port == host.port)
