"""What lives here: an AWS of this process.
What never does: a claim.
"""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from support.cli.account import Account
from zae_limiter_cli.local.aws import forget_the_users_aws, serving
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.engines import Engine


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An AWS on moto alone, its pump at work."""
    before = dict(os.environ)
    credentials = Credentials.random()
    forget_the_users_aws(credentials)
    try:
        with serving(Engine("moto", "moto, in memory"), tmp_path_factory.mktemp("aws"), credentials) as aws:
            aws.pump.start()
            with closing(Account(aws)) as account:
                yield account
    finally:
        os.environ.clear()
        os.environ.update(before)
