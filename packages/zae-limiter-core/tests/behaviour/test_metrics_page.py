"""What docs/metrics.md says of several workers, in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")
PAGE = Path(__file__).resolve().parents[4] / "docs/metrics.md"
WORKER = """
import sys
from contextlib import suppress
from counts import count
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

limits = [Limit.per_day("rpd", int(sys.argv[1]))]
limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits, observers=[count])
for _ in range(60):
    with suppress(RateLimitExceeded), limiter.acquire("ann", "api", {"rpd": 1}):
        pass
"""


@pytest.mark.slow
def test_any_worker_answers_for_all_of_them(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python counts.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "counts.py").write_text(code)
    folder = tmp_path / "counted"
    folder.mkdir()
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), "PYTHONPATH": str(tmp_path)}
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, capacity], env=environment, cwd=tmp_path)
        for capacity in ("60", "45")
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    ask = "from counts import metrics; print(metrics().decode())"
    told = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^(zae_limiter_\w+\{.*\}) (\S+)$", told.stdout, re.MULTILINE))
    assert found == {
        'zae_limiter_acquires_total{outcome="admitted",resource="api"}': "105.0",
        'zae_limiter_acquires_total{outcome="refused",resource="api"}': "15.0",
        'zae_limiter_refusals_total{limit="rpd",resource="api"}': "15.0",
        'zae_limiter_tokens_total{limit="rpd",resource="api"}': "105.0",
    }
