"""Find what a client of the HTTP transport needs: where DynamoDB is, how to sign, whom to trust."""

import logging
import platform
import ssl
from pathlib import Path
from typing import NamedTuple

from ....operations.errors import NotApplied
from ....runtime.forks import without_forks
from ....runtime.printing import printable
from ....values.versions import core_version
from ..options import ClientOptions
from ..protocol.requests import RequestWriter
from .credentials import CredentialSource
from .endpoint import find_endpoint, open_session

log = logging.getLogger(__name__)


class Service(NamedTuple):
    """DynamoDB as the configuration of AWS has it. ``tls`` is ``None`` for an ``http:`` endpoint.

    ``proxy`` is the host of the proxy that the environment demands, which only the SDK transport speaks to.
    """

    writer: RequestWriter
    credentials: CredentialSource
    tls: ssl.SSLContext | None
    proxy: str | None


def open_service(options: ClientOptions) -> Service:
    """Read the configuration of AWS, from files and the environment. Raises ``StoreError`` for a bad one."""
    with without_forks():
        return _open_service(options)


def _open_service(options: ClientOptions) -> Service:
    session = open_session(options)
    endpoint = find_endpoint(session, options)
    agent = f"zae-limiter/{core_version()} Python/{platform.python_version()}"
    try:
        writer = RequestWriter(endpoint.url, region=endpoint.region, user_agent=agent)
    except ValueError as error:
        raise NotApplied("no client: endpoint_url: must be like https://host:port/path") from error
    tls = tls_context(endpoint.ca_bundle) if writer.tls else None
    return Service(writer, CredentialSource(session), tls, endpoint.proxy)


def log_proxy(proxy: str) -> None:
    """Log that requests go through the SDK transport, because only it speaks to a proxy."""
    log.warning("the environment names the proxy %s: requests go through the SDK", printable(proxy))


def tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of ``ca_bundle``; by default the system's, else botocore's."""
    try:
        if ca_bundle is not None:
            if Path(ca_bundle).is_dir():
                return ssl.create_default_context(capath=ca_bundle)
            return ssl.create_default_context(cafile=ca_bundle)
        context = ssl.create_default_context()
        if not context.cert_store_stats()["x509_ca"] and not _has_system_authorities():
            context.load_verify_locations(cafile=_botocore_authorities())
    except OSError as error:
        raise NotApplied(f"no client: AWS_CA_BUNDLE: {ca_bundle!r} cannot be read: {error}") from error
    return context


def _has_system_authorities() -> bool:
    folder = ssl.get_default_verify_paths().capath
    return folder is not None and any(Path(folder).iterdir())


def _botocore_authorities() -> str:
    import botocore

    return str(Path(botocore.__file__).parent / "cacert.pem")
