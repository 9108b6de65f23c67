import os

import pytest

os.environ |= {"PROVIDER_URL": "http://provider/v1", "PROVIDER_KEY": "sk-provider"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
