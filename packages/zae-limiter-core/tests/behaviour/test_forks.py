"""A child that is forked while another thread of its parent opens the first client opens one, too."""

import os
import subprocess
import sys

import pytest

from support.core.transports import CLIENTS

OPEN = {
    "sync": "SyncRepository.open(**options)",
    "async": "__import__('asyncio').run(Repository.open(**options))",
}
HUNG = 9
LIFE = """
import os, signal, sys, threading
{imports}

options = dict(region="us-east-1", endpoint_url="http://127.0.0.1:9", transport={transport!r})
begun, forked = threading.Event(), threading.Event()

class Holding:
    '''Holds up the import of one module, until the process has forked, or waits for this import.'''

    def find_spec(self, name, path, target=None):
        if name == {held!r} and not begun.is_set():
            begun.set()
            forked.wait(0.5)

def open_one():
    try:
        {opening}
    except RateLimiterUnavailable as error:  # nobody listens at the endpoint
        return "no connection" in str(error) or "Could not connect" in str(error)

sys.meta_path.insert(0, Holding())
thread = threading.Thread(target=open_one)
thread.start()
assert begun.wait(20)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGALRM, lambda *_: os._exit({hung}))
    signal.alarm(20)
    os._exit(0 if open_one() else 1)
forked.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
HELD = {
    ("sync", "http"): (
        "importlib.metadata",
        "botocore.session",
        "zae_limiter.engines.dynamodb.sync.http",
        "encodings.idna",
    ),
    ("async", "http"): ("botocore.session", "zae_limiter.engines.dynamodb.aio.http"),
    ("sync", "sdk"): ("zae_limiter.engines.dynamodb.sync.sdk",),
    ("async", "sdk"): ("zae_limiter.engines.dynamodb.aio.sdk",),
}


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_child_does_not_wait_for_an_import_of_a_thread_of_its_parent(client: tuple[str, str]) -> None:
    variant, transport = client
    imports = f"from zae_limiter import RateLimiterUnavailable, {'Sync' * (variant == 'sync')}Repository"
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONWARNINGS": "ignore"}
    codes = {}
    for held in HELD[variant, transport]:
        life = LIFE.format(imports=imports, transport=transport, held=held, opening=OPEN[variant], hung=HUNG)
        codes[held] = subprocess.run([sys.executable, "-c", life], env=environment, timeout=60, check=False).returncode
    assert codes == dict.fromkeys(HELD[variant, transport], 0)
