from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore.loaders import Loader

from zae_limiter_provisioner.refusals import Refused
from zae_limiter_provisioner.response_url import ALLOWED_HOST, ENDPOINT, REGION, SUFFIXES, check_response_url

BUCKET = "cloudformation-custom-resource-response"
QUERY = "/arn%3Aaws%3Acloudformation%3Aeu-central-1?X-Amz-Signature=abc"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ALLOWED_HOST, ENDPOINT, REGION):
        monkeypatch.delenv(name, raising=False)


def test_every_partition_of_botocore_has_its_suffix() -> None:
    data: Any = Loader([str(Path(botocore.__file__).parent / "data")]).load_data("partitions")
    assert {each["outputs"]["dnsSuffix"] for each in data["partitions"]} == set(SUFFIXES)


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", f"{BUCKET}-useast1.s3.amazonaws.com"),
        ("us-east-1", f"{BUCKET}-useast1.s3.us-east-1.amazonaws.com"),
        ("eu-west-1", f"{BUCKET}-euwest1.s3-eu-west-1.amazonaws.com"),
        ("eu-west-1", f"{BUCKET}-eu-west-1.s3.eu-west-1.amazonaws.com"),
        ("eu-west-1", f"{BUCKET}-euwest1.s3.dualstack.eu-west-1.amazonaws.com"),
        ("ap-southeast-5", f"{BUCKET}-apsoutheast5.s3.ap-southeast-5.amazonaws.com"),
        ("us-gov-west-1", f"{BUCKET}-usgovwest1.s3-us-gov-west-1.amazonaws.com"),
        ("cn-north-1", f"{BUCKET}-cnnorth1.s3.cn-north-1.amazonaws.com.cn"),
        ("us-iso-east-1", f"{BUCKET}-usisoeast1.s3.us-iso-east-1.c2s.ic.gov"),
        ("us-isob-east-1", f"{BUCKET}-usisobeast1.s3.us-isob-east-1.sc2s.sgov.gov"),
        ("eusc-de-east-1", f"{BUCKET}-euscdeeast1.s3.eusc-de-east-1.amazonaws.eu"),
    ],
)
@pytest.mark.parametrize("port", ["", ":443"])
def test_the_hosts_of_cloudformation_get_replies(
    region: str, host: str, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://{host}{port}{QUERY}"
    assert check_response_url(url) == url
    monkeypatch.setenv(REGION, region)
    assert check_response_url(url) == url
    monkeypatch.setenv(REGION, "ap-south-2")
    with pytest.raises(Refused):
        check_response_url(url)


@pytest.mark.parametrize(
    "host",
    [
        f"{BUCKET}-us-e-ast-1.s3.amazonaws.com",
        f"{BUCKET}-us-ea-st-1.s3.us-east-1.amazonaws.com",
        f"{BUCKET}-useast-1.s3.us-east-1.amazonaws.com",
        f"{BUCKET}-us-east1.s3-us-east-1.amazonaws.com",
        f"{BUCKET}-useast1.s3.us-ea-st-1.amazonaws.com",
    ],
)
def test_hyphens_elsewhere_than_in_the_regions_own_name_are_another_bucket(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REGION, "us-east-1")
    with pytest.raises(Refused):
        check_response_url(f"https://{host}{QUERY}")


def test_without_a_region_a_bucket_with_hyphens_is_nobodys() -> None:
    with pytest.raises(Refused):
        check_response_url(f"https://{BUCKET}-us-e-ast-1.s3.amazonaws.com{QUERY}")


GOOD = f"{BUCKET}-euwest1.s3.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    "url",
    [
        f"http://{GOOD}/",
        f"https://{GOOD}:8443/",
        f"https://{GOOD}:x/",
        f"https://user@{GOOD}/",
        f"https://{GOOD}@evil.example/",
        f"https://{GOOD}.evil.example/",
        f"https://{GOOD}./",
        f"https://evil.example/{GOOD}",
        f"https://evil.example#{GOOD}",
        f"https://evil.example\\@{GOOD}/",
        f"https://{GOOD}\n.evil.example/",
        f"https://{GOOD}/ HTTP/1.1",
        f"https://{BUCKET}-evil.s3.amazonaws.com/",
        f"https://{BUCKET}-useast1.s3.eu-west-1.amazonaws.com/",
        f"https://x.{GOOD}/",
        f"https://x-{GOOD}/",
        f"https://{BUCKET}-euwest1.s3.eu-west-1.evil.com/",
        f"https://{BUCKET}-euwest1.s3xeu-west-1.amazonaws.com/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1/",
        "file:///etc/passwd",
        "",
        7,
        ["https"],
    ],
    ids=str,
)
def test_any_other_url_is_refused(url: object) -> None:
    with pytest.raises(Refused) as refused:
        check_response_url(url)
    assert refused.value.code == "bad_request"
    assert "ZAEL_RESPONSE_HOST" in str(refused.value)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4566/reply"),
        ("127.0.0.1:4566", "http://127.0.0.1:4566/reply"),
        ("localhost", "https://LOCALHOST/reply"),
    ],
)
def test_one_host_more_may_be_allowed(allowed: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_HOST, allowed)
    assert check_response_url(f"https://{GOOD}/")
    assert check_response_url(url) == url


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1:4566", "http://127.0.0.1:80/reply"),
        ("localhost", "http://127.0.0.1/reply"),
        ("localhost", "http://me@localhost/reply"),
        ("localhost", "ftp://localhost/reply"),
        ("", "http:///reply"),
    ],
)
def test_no_other_host_is_allowed_then(allowed: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_HOST, allowed)
    with pytest.raises(Refused):
        check_response_url(url)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://172.17.0.2:4566", "http://172.17.0.2:4566/bucket/key?Signature=x"),
        ("http://localhost.localstack.cloud:4566", "http://localhost.localstack.cloud:4566/bucket/key"),
        ("http://[::1]:4566", "http://[::1]:4566/bucket/key"),
    ],
)
def test_the_host_of_the_emulator_that_runs_the_function_gets_replies(
    endpoint: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused):
        check_response_url(url)
    monkeypatch.setenv(ENDPOINT, endpoint)
    assert check_response_url(url) == url
    assert check_response_url(f"https://{GOOD}/")
    for other in ("http://other.example:4566/x", url.replace("http:", "ftp:"), url.replace("://", "://me@")):
        with pytest.raises(Refused):
            check_response_url(other)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_endpoint_of_aws_allows_no_host_more(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"evil-bucket.s3.us-east-1.{suffix}"
    monkeypatch.setenv(ENDPOINT, f"https://{host}")
    with pytest.raises(Refused):
        check_response_url(f"https://{host}/x")


@pytest.mark.parametrize(
    "given", ["http://localhost", "localhost/x", "a b", "me@localhost", "localhost:x", ":1", "::1"]
)
def test_a_setting_that_is_no_host_is_told_and_cloudformation_gets_its_replies(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED_HOST, given)
    assert check_response_url(f"https://{GOOD}/")
    with pytest.raises(Refused, match="ZAEL_RESPONSE_HOST") as refused:
        check_response_url("http://localhost/x")
    assert f"ZAEL_RESPONSE_HOST {given!r} must be a host, or host:port" in str(refused.value)
