"""What lives here: the example of docs/guides/fastapi.md that connects, served over a table.
What never does: the examples in memory (test_readme.py; core's tests of the frameworks).
"""

import re
from pathlib import Path

import pytest

from support.core.web.serving import serving
from support.integration.targets import Target

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/fastapi.md"


@pytest.mark.long(keep=1)
@pytest.mark.needs("endpoint")
def test_the_repository_of_a_lifespan_limits_and_is_closed(target: Target, tmp_path: Path) -> None:
    assert target.endpoint_url is not None
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "main.py").write_text(code, encoding="utf-8")
    with serving("uvicorn", "main:app", tmp_path, AWS_ENDPOINT_URL_DYNAMODB=target.endpoint_url) as served:
        answers = [served.get("/answer") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[0].headers["ratelimit"] == '"rpm";r=1;t=30'
