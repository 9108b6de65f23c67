"""Who the client of a request is, whatever it writes into the header."""

import time
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import ValidationError
from zae_limiter.integrations.addresses import FIELDS, Proxies

TRUSTED = ["10.0.0.0/8", "192.168.1.1", "2001:db8:ffff::/48"]
PEER, CLIENT = "10.0.0.1", "203.0.113.9"


def client(*lines: str, field: str = "x-forwarded-for", peer: str | None = PEER, **more: Any) -> str:
    return Proxies(more.pop("trusted_proxies", TRUSTED), **more).client(peer, {field: lines})


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([CLIENT], CLIENT),
        ([f"6.6.6.6,{CLIENT}"], CLIENT),
        ([f"6.6.6.6, {CLIENT}", "10.1.1.1, 192.168.1.1"], CLIENT),
        ([CLIENT, "::ffff:10.2.2.2"], CLIENT),
        ([f"{CLIENT}:4711"], CLIENT),
        ([f"::ffff:{CLIENT}"], CLIENT),
        (["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        (["[2001:db8:1:2:3:4:5:6]"], "2001:db8:1:2::/64"),
        (["[2001:DB8:1:2::6]:80"], "2001:db8:1:2::/64"),
        (["fe80::1%eth0"], "fe80::/64"),
        (["2001:db8:ffff::7"], "2001:db8:ffff::/64"),  # all are trusted: the one furthest away
        ([f"{CLIENT}, , ,"], CLIENT),
        (["10.3.3.3"], "10.3.3.3"),
        (["garbage, 10.3.3.3"], "10.3.3.3"),
        (["garbage"], PEER),
        (["[10.3.3.3]"], PEER),
        (["[::1"], PEER),
        (["203.0.113.009"], PEER),
        ([f"{CLIENT}:port"], PEER),
        ([f"{CLIENT}:"], PEER),
        ([f"http://{CLIENT}"], PEER),
        (["\uff13.3.3.3"], PEER),
        (["123456"], PEER),
        ([], PEER),
        ([""], PEER),
    ],
)
def test_the_chain_is_read_from_the_right(lines: list[str], found: str) -> None:
    assert client(*lines) == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([f"for={CLIENT}"], CLIENT),
        ([f"For={CLIENT};proto=http;by=10.0.0.7"], CLIENT),
        ([f'proto=https ; for = "{CLIENT}:80"'], CLIENT),
        (['for="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::/64"),
        ([f'for="{CLIENT}:_port"'], CLIENT),
        (['for="\\2\\03.0.113.9"'], CLIENT),
        ([f'for=6.6.6.6;x="a,b;for=7.7.7.7", for={CLIENT};x="c,d;\\"for=8.8.8.8\\",", for=10.4.4.4'], CLIENT),
        (['for="open', f"for={CLIENT}"], CLIENT),
        (['for="', f'for="{CLIENT}"'], CLIENT),
        (['for=6.6.6.6;x="\\', f"for={CLIENT}"], CLIENT),
        (["for=_hidden, for=10.4.4.4"], "10.4.4.4"),
        (["for=unknown"], PEER),
        (['for="_SEVKISEK"'], PEER),
        (["by=10.0.0.7"], PEER),
        ([f"for={CLIENT};for=6.6.6.6"], PEER),
        ([f"for={CLIENT}", "proto=http"], PEER),
        ([CLIENT], PEER),
    ],
)
def test_a_chain_of_rfc_7239_is_read_alike(lines: list[str], found: str) -> None:
    assert client(*lines, field="forwarded") == found


@pytest.mark.parametrize("peer", [CLIENT, "2001:db8:1:2::3", "::ffff:203.0.113.9"])
def test_without_trusted_proxies_the_header_is_worth_nothing(peer: str) -> None:
    for trusted in ([], TRUSTED):
        alone = Proxies(trusted).client(peer, {})
        assert client("6.6.6.6", peer=peer, trusted_proxies=trusted) == alone
        assert client("for=6.6.6.6", field="forwarded", peer=peer, trusted_proxies=trusted) == alone


def test_one_who_shares_a_prefix_shares_a_bucket() -> None:
    for prefix, found in ((64, "2001:db8:1:2::/64"), (48, "2001:db8:1::/48"), (128, "2001:db8:1:2::3")):
        assert client(peer="2001:db8:1:2::3", v6_prefix=prefix) == found
    assert client(peer="::ffff:10.0.0.1", trusted_proxies=[]) == "10.0.0.1"


def test_a_peer_without_an_address_is_trusted_by_name_alone() -> None:
    for peer in (None, ""):
        assert client(CLIENT, peer=peer) == "unknown"
        assert client(CLIENT, peer=peer, trusted_proxies=["unix"]) == CLIENT
        assert client("garbage", peer=peer, trusted_proxies=["unix"]) == "unknown"
    assert client(CLIENT, peer="testclient", trusted_proxies=["unix"]) == "unknown"


def test_of_two_fields_that_contradict_each_other_neither_counts() -> None:
    proxies = Proxies(TRUSTED)
    both = {"forwarded": [f"for={CLIENT}"], "x-forwarded-for": [CLIENT]}
    assert proxies.client(PEER, both) == CLIENT
    assert proxies.client(PEER, {**both, "forwarded": ["for=6.6.6.6"]}) == PEER
    environ = {"REMOTE_ADDR": PEER, "HTTP_FORWARDED": "for=6.6.6.6", "HTTP_X_FORWARDED_FOR": CLIENT}
    assert proxies.of_environ(environ) == PEER
    assert Proxies(TRUSTED, fields=["x-forwarded-for"]).of_environ(environ) == CLIENT


HOP = st.sampled_from(["10.0.0.2", "10.77.0.1:80", "192.168.1.1", "2001:db8:ffff::9", "::ffff:10.0.0.3"])
OURS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6, network="2001:db8:aaaa::/48"))
TEXT = st.one_of(
    st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]), max_size=60),
    st.lists(st.sampled_from(['"', "\\", ",", ";", "for=", "[", "]", ":", "6.6.6.6", "10.0.0.9", " "])).map("".join),
)


@given(st.lists(TEXT, max_size=4), OURS, st.lists(HOP, max_size=5), st.sampled_from(FIELDS), st.data())
def test_no_text_of_a_client_moves_it(written: list[str], real: Any, hops: list[str], field: str, data: Any) -> None:
    """Proxies append; whatever the client has sent before stays without effect."""

    def entry(address: str) -> str:
        if field != "forwarded":
            return address
        return f'for="[{address}]"' if address.count(":") > 1 else f'for="{address}"'

    appended = [entry(each) for each in (str(real), *hops)]
    cut = data.draw(st.integers(0, len(appended)))
    lines = [*written, ", ".join(appended[:cut]), ", ".join(appended[cut:])]
    alone = client(", ".join(appended), field=field)
    assert client(*lines, field=field) == alone
    assert client(",".join(lines), field=field) == alone
    if not str(real).startswith("10.") and str(real) != "192.168.1.1":
        assert alone == (f"{IPv6Address(int(real) >> 64 << 64)}/64" if real.version == 6 else str(real))


@given(st.lists(TEXT, max_size=4), st.sampled_from(FIELDS))
def test_garbage_is_an_address_or_the_peer(written: list[str], field: str) -> None:
    """The one whom a trusted proxy lets write all of the header is whatever address it writes, and nothing else."""
    found = client(*written, field=field)
    assert found == PEER or IPv6Address(f"::ffff:{found}" if "." in found else found.removesuffix("/64"))


def test_a_long_header_takes_linear_time() -> None:
    begun = time.process_time()
    for text in (
        '\\"' * 30_000,
        '"' * 60_000,
        "10.0.0.1," * 7_000,
        'for="\\\\\\\\' * 7_000,
        ";" * 60_000,
        "[" * 60_000,
    ):
        for field in FIELDS:
            client(text, field=field)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trusted_proxies": "10.0.0.0/8"}, "trusted_proxies '10.0.0.0/8': must be a list"),
        ({"trusted_proxies": ["10.0.0.1/8"]}, "must be an address or a network"),
        ({"trusted_proxies": [10]}, "must be an address or a network"),
        ({"trusted_proxies": ["*"]}, "must be an address or a network"),
        ({"trusted_proxies": ["0.0.0.0/0"]}, "trusts everybody"),
        ({"trusted_proxies": ["::ffff:0:0/96"]}, "trusts everybody"),
        ({"trusted_proxies": 5}, "must be a list"),
        ({"v6_prefix": 0}, "v6_prefix 0: must be 1 to 128"),
        ({"v6_prefix": True}, "must be 1 to 128"),
        ({"v6_prefix": "64"}, "must be 1 to 128"),
        ({"fields": []}, "fields"),
        ({"fields": "forwarded"}, "fields"),
        ({"fields": ["x-real-ip"]}, "fields"),
    ],
)
def test_what_no_proxy_can_be_is_refused_at_once(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Proxies(**more)
