"""Find what a client of the HTTP transport needs: where DynamoDB is, how to sign, whom to trust."""

import logging
import os
import platform
import ssl
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ....operations.errors import NotApplied
from ....runtime.addresses import Addresses
from ....runtime.forks import without_forks
from ....runtime.log_throttle import warn_once
from ....runtime.named_tuple import NamedTuple
from ....runtime.printing import printable
from ....values.versions import core_version
from ..options import ClientOptions
from ..protocol.requests import RequestWriter
from .credentials import CredentialSource
from .endpoint import Endpoint, find_endpoint, of_account, open_session

log = logging.getLogger(__name__)

LONGEST_APP_ID: Final = 50  # characters, by the documentation of the setting
_OF_TOKENS: Final = frozenset("!$%&'*+-.^_`|~")
_RETRIES: Final = (("AWS_MAX_ATTEMPTS", "max_attempts"), ("AWS_RETRY_MODE", "retry_mode"))
_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn")
_INSTEAD: Final = (
    "use Repository.in_memory(), or SyncRepository, which boto3 serves; or let moto serve: "
    "server = moto.server.ThreadedMotoServer('127.0.0.1', port=0); server.start(); "
    "Repository.open(endpoint_url='http://{}:{}'.format(*server.get_host_and_port()))"
)


class Service(NamedTuple):
    """DynamoDB as the configuration of AWS has it. ``tls`` is ``None`` for an ``http:`` endpoint."""

    endpoint: Endpoint
    agent: str
    writer: RequestWriter
    addresses: Addresses
    credentials: CredentialSource
    tls: ssl.SSLContext | None

    @property
    def proxy(self) -> str | None:
        """The host of the proxy that the environment demands, which only the SDK transport speaks to."""
        return self.endpoint.proxy

    def of_account(self) -> "Service":
        """Return the service at the endpoint for the account of the credentials, if the configuration demands one.

        Raises ``NotApplied`` if it must have one, and there is none.
        """
        found = of_account(self.endpoint, self.credentials.account)
        if found is self.endpoint:
            return self
        writer = RequestWriter(found.url, region=found.region, user_agent=self.agent)
        return self._replace(endpoint=found, writer=writer, addresses=Addresses(writer.host, writer.port))


def open_service(options: ClientOptions) -> Service:
    """Read the configuration of AWS, from files and the environment. Raises ``StoreError`` for a bad one."""
    with without_forks():
        session = open_session(options)
        endpoint = find_endpoint(session, options)
        agent = user_agent(session)
        try:
            writer = RequestWriter(endpoint.url, region=endpoint.region, user_agent=agent)
        except ValueError as error:
            raise NotApplied("cannot create a client: endpoint_url: must be like https://host:port/path") from error
        tls = tls_context(endpoint.ca_bundle) if writer.tls else None
        log_retries(session)
        addresses = Addresses(writer.host, writer.port)
        return Service(endpoint, agent, writer, addresses, CredentialSource(session), tls)


def user_agent(session: Any) -> str:
    """Return the user agent of requests, with the application's id (``AWS_SDK_UA_APP_ID``, ``sdk_ua_app_id``)."""
    agent = f"zae-limiter/{core_version()} Python/{platform.python_version()}"
    if place := os.environ.get("AWS_EXECUTION_ENV"):
        agent = f"{agent} exec-env/{_token(place)}"
    app = session.get_config_variable("user_agent_appid") or ""
    if len(app) > LONGEST_APP_ID:
        warn_once(log, "AWS_SDK_UA_APP_ID, or sdk_ua_app_id, has more than %d characters: it is cut", LONGEST_APP_ID)
    return f"{agent} app/{_token(app)}" if app else agent


def _token(text: str) -> str:
    """Return the text with a ``-`` for each character that no user agent may have, as botocore has it."""
    fit = (each if each.isascii() and (each.isalnum() or each in _OF_TOKENS) else "-" for each in text)
    return "".join(fit)[:LONGEST_APP_ID]


def log_retries(session: Any) -> None:
    """Log that settings for an SDK's retries do not apply: a blind repeat would take tokens twice."""
    profile = session.get_scoped_config()
    unused = [name for name, setting in _RETRIES if os.environ.get(name) or setting in profile]
    if unused:
        why = "the limiter repeats only what is safe to repeat, within acquire_timeout"
        warn_once(log, "%s (or the profile's setting) does not apply: %s", " and ".join(unused), why)


def log_proxy(proxy: str) -> None:
    """Log that requests go through the SDK transport, because only it speaks to a proxy."""
    warn_once(log, "the environment names the proxy %s: requests go through the SDK", printable(proxy))


def tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of ``ca_bundle``; by default the system's, else botocore's."""
    try:
        if ca_bundle is not None:
            if Path(ca_bundle).is_dir():
                return ssl.create_default_context(capath=ca_bundle)
            return ssl.create_default_context(cafile=ca_bundle)
        context = ssl.create_default_context()
        folder = ssl.get_default_verify_paths().capath  # whose authorities OpenSSL loads when it needs one
        if not context.cert_store_stats()["x509_ca"] and (folder is None or not any(Path(folder).iterdir())):
            import botocore

            context.load_verify_locations(cafile=Path(botocore.__file__).parent / "cacert.pem")
    except OSError as error:
        raise NotApplied(f"cannot create a client: AWS_CA_BUNDLE: {ca_bundle!r} cannot be read: {error}") from error
    return context


def is_mocked(url: str) -> bool:
    """Return whether ``moto.mock_aws``, as in a user's unit test, answers what boto3 sends to ``url``.

    It replaces what boto3 sends, and nothing else: our own client would ask the network for the real service, and
    aioboto3 cannot read its answers. moto is not imported: a process without it has no mock.
    """
    stubber = getattr(sys.modules.get("moto.core.models"), "botocore_stubber", None)
    return getattr(stubber, "enabled", False) is True and (urlsplit(url).hostname or "").endswith(_OF_AWS)


def refuse_mocked(url: str) -> None:
    """Raise ``NotApplied`` for an async client where a mock answers: none can be served by it."""
    if is_mocked(url):
        raise NotApplied(f"cannot create a client: moto.mock_aws does not serve async clients: {_INSTEAD}")
