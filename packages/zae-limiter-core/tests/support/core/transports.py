"""The transports of both variants, as parameters of tests.

Lives here: a skip for what is not installed. Never: a claim.
"""

from importlib.util import find_spec

import pytest

from zae_limiter.engines.dynamodb.options import TRANSPORTS

needs_aioboto3 = pytest.mark.skipif(
    find_spec("aioboto3") is None, reason="aioboto3 is not installed: zae-limiter-core[aioboto3]"
)

CLIENTS = [  # variant and transport
    pytest.param((variant, transport), marks=needs_aioboto3 if needs else (), id=f"{variant}-{transport}")
    for transport in TRANSPORTS
    for variant, needs in (("async", transport == "sdk"), ("sync", False))
]
ASYNC_TRANSPORTS = [pytest.param(name, marks=needs_aioboto3 if name == "sdk" else (), id=name) for name in TRANSPORTS]
