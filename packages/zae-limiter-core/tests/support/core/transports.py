"""The transports of both variants, as parameters of tests.

Lives here: a skip for what is not installed. Never: a claim.
"""

from importlib.util import find_spec

import pytest

from zae_limiter.operations.client import TRANSPORTS

needs_aioboto3 = pytest.mark.skipif(
    find_spec("aioboto3") is None, reason="aioboto3 is not installed: zae-limiter-core[aioboto3]"
)

ASYNC_TRANSPORTS = [
    pytest.param(transport, marks=needs_aioboto3 if transport == "sdk" else (), id=transport)
    for transport in TRANSPORTS
]

# (variant, transport)
CLIENTS = [
    pytest.param((variant, transport), marks=needs_aioboto3 if needs else (), id=f"{variant}-{transport}")
    for transport in TRANSPORTS
    for variant, needs in (("async", transport == "sdk"), ("sync", False))
]
