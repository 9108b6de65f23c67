import io
import itertools
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import EndpointProviderError, EndpointVariantError
from botocore.httpsession import create_urllib3_context

from zae_limiter.engines.dynamodb.aws.endpoint import Endpoint, find_endpoint, of_account, open_session
from zae_limiter.engines.dynamodb.aws.opening import open_service, tls_context
from zae_limiter.engines.dynamodb.options import ClientOptions
from zae_limiter.operations.errors import NotApplied

Configure = Callable[[str], None]

VARIANTS = tuple(itertools.product((False, True), repeat=2))
MADE_UP = ("us-east-9", "eu-mars-1", "us-gov-mars-1", "us-iso-mars-1", "us-isob-mars-1", "cn-mars-1", "eu-isoe-mars-1")
ODD = ("us-isof-mars-1", "eusc-de-mars-1", "mars", "xx-yy-1", "aws-global", "fips-us-east-1", "us-east-1-fips")


class Body(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


def asked(session: Any, **options: Any) -> tuple[str, str] | None:
    """The URL to which botocore sends a request, and the region of its signature; ``None`` if it refuses to."""
    return asked_by(session.create_client("dynamodb", aws_access_key_id="a", aws_secret_access_key="b", **options))


def asked_by(sdk: Any, table: str = "table") -> tuple[str, str] | None:
    """The same of a client."""
    requests: list[Any] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, 200, {}, Body(b"{}"))

    sdk.meta.events.register("before-send.dynamodb", answer)
    try:
        sdk.describe_table(TableName=table)
    except EndpointProviderError:
        return None
    (request,) = requests
    return request.url.rstrip("/"), str(request.headers["Authorization"]).split("/")[2]


def found(**options: Any) -> Endpoint:
    chosen = ClientOptions(**options)
    return find_endpoint(open_session(chosen), chosen)


def refusal(**options: Any) -> str:
    with pytest.raises(NotApplied) as info:
        found(**options)
    assert str(info.value).startswith("cannot create a client: ")
    return str(info.value)


def url_and_region(session: Any, region: str) -> tuple[str, str] | None:
    try:
        endpoint = find_endpoint(session, ClientOptions(region=region))
    except NotApplied:
        return None
    return endpoint.url, endpoint.region


def regions(session: Any) -> list[str]:
    return [region for partition in session.get_available_partitions() for region in regions_of(session, partition)]


def regions_of(session: Any, partition: str) -> list[str]:
    names: list[str] = session.get_available_regions("dynamodb", partition, allow_non_regional=True)
    return [name for name in names if name != "local"]


@pytest.mark.slow
def test_every_region_has_the_endpoint_of_botocore() -> None:
    session = open_session(ClientOptions())
    names = regions(session)
    assert len(names) > 40
    differences = []
    for region, (fips, dual_stack) in itertools.product((*names, *MADE_UP, *ODD), VARIANTS):
        session.set_config_variable("use_fips_endpoint", fips)
        session.set_config_variable("use_dualstack_endpoint", dual_stack)
        try:
            theirs = asked(session, region_name=region)
        except EndpointVariantError:  # botocore's two descriptions of endpoints differ: it makes no client
            assert dual_stack
            continue
        if (ours := url_and_region(session, region)) != theirs:
            differences.append((region, fips, dual_stack, ours, theirs))
    assert differences == []


@pytest.mark.parametrize(
    ("region", "settings", "url"),
    [
        ("eu-west-1", {}, "https://dynamodb.eu-west-1.amazonaws.com"),
        ("cn-north-1", {}, "https://dynamodb.cn-north-1.amazonaws.com.cn"),
        ("us-east-1", {"AWS_USE_FIPS_ENDPOINT": "true"}, "https://dynamodb-fips.us-east-1.amazonaws.com"),
        ("us-gov-west-1", {"AWS_USE_FIPS_ENDPOINT": "true"}, "https://dynamodb.us-gov-west-1.amazonaws.com"),
        ("us-east-1", {"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://dynamodb.us-east-1.api.aws"),
        ("us-east-1-fips", {}, "https://dynamodb-fips.us-east-1.amazonaws.com"),
        ("local", {}, "http://localhost:8000"),
    ],
)
def test_a_region_has_its_url(region: str, settings: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    endpoint = found(region=region)
    assert endpoint.url == url
    assert asked(open_session(ClientOptions(region=region))) == (endpoint.url, endpoint.region)


ACCOUNT = "123456789012"


TABLES = ("table", *(f"arn:aws:dynamodb:{region}:210987654321:table/t" for region in ("us-east-1", "eu-west-1")))


def ours_of(session: Any, region: str, table: str, account: str | None) -> tuple[str, str] | None:
    try:
        found = find_endpoint(session, ClientOptions(region=region, table_name=table))
        return of_account(found, account)[:2]
    except NotApplied:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "account"),
    [(None, ACCOUNT), ("preferred", ACCOUNT), ("REQUIRED", ACCOUNT), ("disabled", ACCOUNT), ("required", None)],
)
def test_an_account_has_the_endpoint_of_botocore(
    mode: str | None, account: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "account_id" not in ReadOnlyCredentials._fields:  # an older botocore knows no accounts, and no tables by ARN
        mode = "disabled"
    settings = {"AWS_ACCOUNT_ID_ENDPOINT_MODE": mode, "AWS_ACCOUNT_ID": account}
    for name, value in {**settings, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    plain = [(region, (False, False)) for region in ("us-east-1-fips", "cn-north-1", "us-gov-west-1")]
    for region, (fips, dual_stack) in [*(("us-east-1", each) for each in VARIANTS), *plain]:
        session = open_session(ClientOptions(region=region))
        session.set_config_variable("use_fips_endpoint", fips)
        session.set_config_variable("use_dualstack_endpoint", dual_stack)
        sdk = session.create_client("dynamodb", region_name=region)
        for table in TABLES:
            assert ours_of(session, region, table, account) == asked_by(sdk, table), (region, fips, dual_stack)


def test_a_mode_of_account_endpoints_that_is_none_is_refused(configure: Configure) -> None:
    configure("[default]\nregion = us-east-1\naccount_id_endpoint_mode = sometimes\n")
    assert "'sometimes' must be one of preferred, required, disabled" in refusal()


@pytest.mark.parametrize("account", ["a.b", "a/b", "1\r\nX: y", "é", "1" * 64])
def test_an_account_that_is_no_part_of_a_host_name_is_refused_and_not_shown(account: str) -> None:
    with pytest.raises(NotApplied, match="not a number") as caught:
        of_account(found(region="us-east-1"), account)
    assert account not in str(caught.value)


def test_the_endpoint_of_an_account_may_be_behind_a_proxy_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "dynamodb.us-east-1.amazonaws.com")
    endpoint = found(region="us-east-1")
    assert (endpoint.proxy, of_account(endpoint, ACCOUNT).proxy) == (None, "proxy")


PROFILES = """
[default]
region = eu-west-1
[profile plain]
region = eu-west-2
endpoint_url = http://of-profile:1
[profile both]
region = eu-west-3
services = mine
endpoint_url = http://of-profile:2
[profile other]
region = eu-west-3
services = others
[profile fips]
region = us-east-2
use_fips_endpoint = true
[profile dual]
region = us-east-2
use_dualstack_endpoint = true
[profile ignoring]
region = us-east-2
endpoint_url = http://of-profile:3
ignore_configured_endpoint_urls = true
[services mine]
dynamodb =
  endpoint_url = http://of-service:3
[services others]
s3 =
  endpoint_url = http://of-s3:4
"""
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"AWS_DEFAULT_REGION": "ap-south-1"},
    {"AWS_ENDPOINT_URL": "http://of-environment:5"},
    {"AWS_ENDPOINT_URL": ""},
    {"AWS_ENDPOINT_URL": "http://of-environment:5", "AWS_ENDPOINT_URL_DYNAMODB": "http://for-dynamodb:6/path"},
    {"AWS_ENDPOINT_URL_DYNAMODB": "http://for-dynamodb:6", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    {"AWS_ENDPOINT_URL_DYNAMODB": "http://[::1]:6"},
    {"AWS_USE_FIPS_ENDPOINT": "true"},
    {"AWS_USE_DUALSTACK_ENDPOINT": "TRUE", "AWS_USE_FIPS_ENDPOINT": "0"},
)


@pytest.mark.long(keep=16)
@pytest.mark.slow
@pytest.mark.parametrize("profile", [None, "default", "plain", "both", "other", "fips", "dual", "ignoring"])
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=[" ".join(settings) for settings in ENVIRONMENTS])
def test_settings_lead_to_the_endpoint_of_botocore(
    profile: str | None, environment: dict[str, str], configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(PROFILES)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for given in (None, "http://given:7"):
        options = ClientOptions(profile=profile, endpoint_url=given)
        session = open_session(options)
        assert find_endpoint(session, options)[:2] == asked(session, endpoint_url=given)


def test_the_region_comes_from_the_first_of_its_settings(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("[default]\nregion = eu-west-1\n[profile other]\nregion = eu-west-2\n")
    assert found().region == "eu-west-1"
    assert found(profile="other").region == "eu-west-2"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert found(profile="other").region == "eu-west-3"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert found(profile="other").region == "eu-central-1"
    assert found(region="eu-north-1").region == "eu-north-1"
    monkeypatch.setenv("AWS_REGION", "")
    assert found().region == "eu-west-3"


@pytest.mark.parametrize("setting", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
def test_dynamodb_local_has_no_variants(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, "true")
    assert f"unset {setting}" in refusal(region="local")


def test_the_clients_of_a_session_get_the_region_too() -> None:
    session = open_session(ClientOptions(region="eu-north-1"))
    assert session.get_config_variable("region") == "eu-north-1"  # an assumed role asks STS there


def test_a_missing_region_is_refused_with_its_settings() -> None:
    assert "region=" in refusal()


@pytest.mark.parametrize("region", ["us-east-1.evil.example", "evil.example/", "us_east_1", "-", "a" * 64, "a\n", "12"])
def test_a_region_that_is_no_part_of_a_host_name_is_refused(region: str) -> None:
    assert region.strip() in refusal(region=region)
    refusal(region=region, endpoint_url="http://localhost:8000")


def test_a_profile_that_is_missing_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nowhere" in refusal(profile="nowhere")
    monkeypatch.setenv("AWS_PROFILE", "neither")
    assert "neither" in refusal(region="us-east-1")


def test_a_services_section_that_is_missing_is_refused_by_name(configure: Configure) -> None:
    configure("[default]\nregion = us-east-1\nservices = absent\n")
    assert "'absent'" in refusal()


def test_a_file_that_is_no_configuration_is_refused(configure: Configure) -> None:
    configure("no section\n")
    refusal(region="us-east-1")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://localhost",
        "http://",
        "http:///path",
        "http://a b",
        "http://a/ b",
        "http://a:port",
        "http://a:70000",
        "http://a:0",
        "http://[::1",
        "http://a\r\nHost: b",
        "http://under_score",
        "http://ä.example",
        "http://a?b",
        "http://a#b",
    ],
)
def test_a_url_that_is_no_endpoint_is_refused_by_its_value(url: str) -> None:
    message = refusal(region="us-east-1", endpoint_url=url)
    assert "endpoint_url" in message
    assert repr(url) in message


def test_a_refused_url_is_traced_to_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    assert "AWS_ENDPOINT_URL: 'nonsense'" in refusal(region="us-east-1")


@pytest.mark.parametrize(
    "url", ["http://me:secret@host", "http://secret@host/path", "me:secret@host", "http://a\\@secret"]
)
def test_credentials_in_a_url_are_refused_and_not_shown(url: str) -> None:
    message = refusal(region="us-east-1", endpoint_url=url)
    assert "secret" not in message
    assert "endpoint_url" in message


def test_the_authorities_come_from_the_environment_or_the_profile(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("[default]\nregion = us-east-1\n[profile own]\nregion = us-east-1\nca_bundle = /of/profile.pem\n")
    assert found().ca_bundle is None
    assert found(profile="own").ca_bundle == "/of/profile.pem"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/of/requests.pem")
    assert found().ca_bundle == "/of/requests.pem"
    monkeypatch.setenv("AWS_CA_BUNDLE", "/of/environment.pem")
    assert found(profile="own").ca_bundle == "/of/environment.pem"


@pytest.mark.parametrize(
    ("settings", "url", "proxy"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, None, "proxy"),
        ({"https_proxy": "proxy:3128"}, None, "proxy"),
        ({"https_proxy": "//proxy:3128"}, None, "proxy"),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://plain", None),
        ({"http_proxy": "https://proxy:3128"}, "http://plain", "proxy"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "amazonaws.com"}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "example.org"}, None, "proxy"),
        ({"ALL_PROXY": "http://proxy:3128"}, None, None),  # as botocore has it
    ],
)
def test_the_proxy_is_that_of_the_environment(
    settings: dict[str, str], url: str | None, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert found(region="us-east-1", endpoint_url=url).proxy == proxy


def test_the_password_of_a_proxy_is_kept_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy:3128")
    endpoint = found(region="us-east-1")
    service = open_service(ClientOptions(region="us-east-1"))
    assert (endpoint.proxy, service.proxy) == ("proxy", "proxy")
    assert "hunter2" not in f"{endpoint!r} {service!r}"


@pytest.mark.parametrize("proxy", ["http://[bad", "http://", "http://:3128"])
def test_a_proxy_that_is_no_url_is_refused_by_the_names_of_its_settings(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    assert "HTTPS_PROXY" in refusal(region="us-east-1")


def test_an_empty_region_of_the_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert found().region == "us-west-2"
    assert ClientOptions().session()["region_name"] is None


def test_no_older_tls_than_that_of_botocore_is_spoken() -> None:
    assert tls_context(None).minimum_version >= create_urllib3_context().minimum_version >= ssl.TLSVersion.TLSv1_2
