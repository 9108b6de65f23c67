"""Find the URL of DynamoDB and the region to sign for, as a client of botocore does.

This module repeats botocore's endpoint rules for DynamoDB, because a client would read the description of the whole
service for them. A test compares the two. It sends no request.
"""

import os
import re
from typing import Any, Final
from urllib.parse import urlsplit

from ....operations.errors import NotApplied
from ....runtime.named_tuple import NamedTuple
from ..faults import no_client, without_boto3
from ..options import ClientOptions, place_in

_LOCAL: Final = "local"  # DynamoDB Local, whatever the partition
_LOCAL_SIGNS_FOR: Final = "us-east-1"
_MODE: Final = "AWS_ACCOUNT_ID_ENDPOINT_MODE"
_MODES: Final = ("preferred", "required", "disabled")
_WITH_ACCOUNTS: Final = "aws"  # the first partition that had endpoints of accounts
_LONGEST_LABEL: Final = 63
_WITHOUT_FIPS_NAME: Final = "aws-us-gov"  # the plain endpoint of this partition is a FIPS endpoint


class Endpoint(NamedTuple):
    """The place of DynamoDB.

    ``url`` is ``http:`` or ``https:`` with a host, as configured or resolved. ``region`` is the one to sign with.
    ``ca_bundle`` is the path of the authorities to trust, ``None`` for the system's. ``proxy`` is the host of the proxy
    that the environment names for ``url``: its URL, which may have a password, is the SDK's to read. ``by_account`` is
    the end of the URL for one account, ``None`` if the configuration has none; ``needs_account``: no other may be used.
    ``table_account`` is that of a table which is named by its ARN; by default the account of the credentials is used.
    """

    url: str
    region: str
    ca_bundle: str | None
    proxy: str | None
    by_account: str | None = None
    needs_account: bool = False
    table_account: str | None = None


def open_session(options: ClientOptions) -> Any:
    """Return a botocore session for the profile and the region. Raises ``NotApplied`` if the profile, or botocore, is
    missing.
    """
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise without_boto3(error) from error

    try:
        session = Session(profile=options.profile)
        if options.credentials is not None:
            options.credentials.configure(session)
        session.get_scoped_config()  # reads the files
    except (BotoCoreError, OSError, ValueError) as error:
        raise no_client(error) from error
    if region := _chosen_region(session, options):
        session.set_config_variable("region", region)  # also for the roles that its credentials assume
    return session


def find_endpoint(session: Any, options: ClientOptions) -> Endpoint:
    """Return the endpoint that botocore uses. Raises ``NotApplied`` if a setting is missing or wrong."""
    from botocore.exceptions import BotoCoreError

    try:
        return _found(session, options)
    except (BotoCoreError, OSError, ValueError) as error:
        raise no_client(error) from error


def _found(session: Any, options: ClientOptions) -> Endpoint:
    named = _region(session, options)
    region = named.replace("fips-", "").replace("-fips", "")
    fips = region != named
    source, url = configured_endpoint(session, options)
    mode, by_account = _account_mode(session), None
    if not source:  # FIPS, dual stack and accounts do not apply to a configured one
        fips = fips or bool(session.get_config_variable("use_fips_endpoint"))
        dual_stack = bool(session.get_config_variable("use_dualstack_endpoint"))
        partition = _partition(session, region)
        url = _default_url(partition, region, fips=fips, dual_stack=dual_stack)
        if region == _LOCAL:
            region = _LOCAL_SIGNS_FOR
        elif mode != "disabled" and not fips and _has_accounts(session, partition, region):
            by_account = f"ddb.{region}.{partition['dualStackDnsSuffix' if dual_stack else 'dnsSuffix']}"
        elif mode == "required":
            why = "for FIPS" if fips else "in this partition"
            raise NotApplied(
                f"cannot create a client: {_MODE} is required, and {why} there are no endpoints of accounts"
            )
    _check(source, url)
    bundle = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE") or None
    required = by_account is not None and mode == "required"
    table_region, account = place_in(options.table_name)
    of_table = account if table_region == region and _is_label(account) else None
    return Endpoint(url, region, bundle, _proxy(url), by_account, required, of_table)


def _account_mode(session: Any) -> str:
    """Return whether to use the endpoint of an account; by the environment and the profile where botocore is older."""
    of_profile = session.get_scoped_config().get("account_id_endpoint_mode")
    mode = str(os.environ.get(_MODE) or of_profile or "preferred").lower()
    if mode not in _MODES:
        raise NotApplied(f"cannot create a client: {_MODE}: {mode!r} must be one of {', '.join(_MODES)}")
    return mode


def _is_label(account: str) -> bool:
    return account.isascii() and account.isalnum() and len(account) <= _LONGEST_LABEL


def of_account(endpoint: Endpoint, account: str | None) -> Endpoint:
    """Return the endpoint for an account, or for all. Raises ``NotApplied`` without an account where one is required.

    It may be behind a proxy that the one for all is not.
    """
    account = endpoint.table_account or account
    if endpoint.by_account is None or (not account and not endpoint.needs_account):
        return endpoint
    if not account:
        advice = "set AWS_ACCOUNT_ID, or aws_account_id in the profile"
        raise NotApplied(f"cannot create a client: {_MODE} is required, and the credentials have no account: {advice}")
    if not _is_label(account):
        raise NotApplied("cannot create a client: the account of the credentials is not a number of twelve digits")
    url = f"https://{account}.{endpoint.by_account}"
    return endpoint if url == endpoint.url else endpoint._replace(url=url, proxy=_proxy(url))


# the region


def _chosen_region(session: Any, options: ClientOptions) -> str | None:
    set_on_it: str | None = session.instance_variables().get("region")  # by whom handed the session in
    return options.chosen_region or set_on_it or os.environ.get("AWS_REGION") or None


def _region(session: Any, options: ClientOptions) -> str:
    from botocore.exceptions import InvalidRegionError, NoRegionError
    from botocore.utils import validate_region_name

    region: str | None = _chosen_region(session, options) or session.get_config_variable("region")
    if not region:
        raise NoRegionError
    validate_region_name(region)
    if region.endswith("\n"):  # which a ``$`` lets pass
        raise InvalidRegionError(region_name=region)
    return region


# the URL


def configured_endpoint(session: Any, options: ClientOptions) -> tuple[str, str]:
    """Return the URL that is configured, after the name of the setting; two empty ones if there is none."""
    if options.endpoint_url is not None:
        return "endpoint_url", options.endpoint_url
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return "", ""
    for name in ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"):
        if os.environ.get(name):
            return name, os.environ[name]
    profile = session.get_scoped_config()
    of_service = _services(session, profile).get("dynamodb")
    for name, section in (
        ("endpoint_url of the profile's services", of_service),
        ("endpoint_url of the profile", profile),
    ):
        if isinstance(section, dict) and section.get("endpoint_url"):
            return name, section["endpoint_url"]
    return "", ""


def _services(session: Any, profile: Any) -> Any:
    from botocore.exceptions import InvalidConfigError

    if "services" not in profile:
        return {}
    name = profile["services"]
    section = session.full_config.get("services", {}).get(name)
    if not section:
        raise InvalidConfigError(error_msg=f"the profile names the services section {name!r}, which does not exist")
    return section


def _has_accounts(session: Any, partition: Any, region: str) -> bool:
    """Return whether a region has endpoints of accounts: outside of ``aws`` by the rules of this botocore."""
    if partition["name"] == _WITH_ACCOUNTS:
        return True
    from botocore.endpoint_provider import EndpointProvider
    from botocore.exceptions import EndpointProviderError

    loader = session.get_component("data_loader")
    rules = loader.load_service_model("dynamodb", "endpoint-rule-set-1")
    asked = {"Region": region, "AccountId": "0" * 12, "AccountIdEndpointMode": "required"}
    try:
        found = EndpointProvider(rules, loader.load_data("partitions")).resolve_endpoint(
            **asked, UseFIPS=False, UseDualStack=False
        )
    except EndpointProviderError:
        return False
    return str(found.url).startswith("https://000000000000.")


def _partition(session: Any, region: str) -> Any:
    """Return what botocore knows of the partition of a region, by default of the first one, ``aws``."""
    partitions = session.get_component("data_loader").load_data("partitions")["partitions"]
    for partition in partitions:
        if region in partition["regions"] or re.match(partition["regionRegex"], region):
            return partition["outputs"]
    return partitions[0]["outputs"]


def _default_url(partition: Any, region: str, *, fips: bool, dual_stack: bool) -> str:
    for setting, wanted, support in (("FIPS", fips, "supportsFIPS"), ("DUALSTACK", dual_stack, "supportsDualStack")):
        if wanted and (region == _LOCAL or not partition[support]):
            raise NotApplied(
                f"cannot create a client: region {region} has no such endpoint; unset AWS_USE_{setting}_ENDPOINT"
            )
    if region == _LOCAL:
        return "http://localhost:8000"
    suffix = partition["dualStackDnsSuffix" if dual_stack else "dnsSuffix"]
    named = fips and (dual_stack or partition["name"] != _WITHOUT_FIPS_NAME)
    return f"https://dynamodb{'-fips' if named else ''}.{region}.{suffix}"


def _check(source: str, url: str) -> None:
    """Raise ``NotApplied`` unless ``url`` is ``http:`` or ``https:`` with a host, and no more than a path."""
    if not _is_endpoint(url):
        shown = "(not shown: it may have a password)" if "@" in url else repr(url)
        raise NotApplied(
            f"cannot create a client: {source}: {shown} is not an http:// or https:// URL with a host; see endpoint_url"
        )
    refuse_credentials(source, url)


def refuse_credentials(source: str, url: str) -> None:
    """Raise ``NotApplied`` if a URL has a user or a password, which messages would show."""
    if "@" in urlsplit(url).netloc:
        raise NotApplied(
            f"cannot create a client: {source} has credentials (not shown: it may have a password); put none into it"
        )


def _is_endpoint(url: str) -> bool:
    from botocore.utils import is_valid_endpoint_url, is_valid_ipv6_endpoint_url

    if not (url.isascii() and url.isprintable()) or " " in url:
        return False
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and not parts.query and not parts.fragment and parts.port != 0
        return fits and bool(is_valid_endpoint_url(url) or is_valid_ipv6_endpoint_url(url))
    except ValueError:  # a port that is not a number, a bracket that stays open
        return False


def _proxy(url: str) -> str | None:
    from botocore.utils import get_environ_proxies

    proxy: str | None = get_environ_proxies(url).get(urlsplit(url).scheme)
    if not proxy:
        return None
    if not proxy.startswith(("http:", "https:")):
        proxy = f"http:{proxy}" if proxy.startswith("//") else f"http://{proxy}"
    try:
        host = urlsplit(proxy).hostname
    except ValueError:  # a bracket that stays open
        host = None
    if not host:
        raise NotApplied(
            "cannot create a client: HTTPS_PROXY or HTTP_PROXY is not a URL with a host; unset it, or use NO_PROXY"
        )
    return host
