"""What the tests of all packages share: the AWS SDK reads its descriptions of services once, not for each session."""

import functools


def pytest_configure() -> None:
    """Let all sessions of this process share what they read: most of what a client costs in the making is that."""
    try:
        import botocore.session
    except ImportError:
        return  # a package that is tested without the SDK
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
