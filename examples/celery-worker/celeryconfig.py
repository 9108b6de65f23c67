"""A queue of files, so that this example needs no broker; yours has `broker_url = "redis://..."` or `"sqs://"`."""

import os
from pathlib import Path

_folder = Path(os.environ.get("QUEUE_FOLDER", "queue")).resolve()
for _name in ("messages", "control", "results"):
    (_folder / _name).mkdir(parents=True, exist_ok=True)
broker_url = "filesystem://"
broker_transport_options = {
    "data_folder_in": str(_folder / "messages"),
    "data_folder_out": str(_folder / "messages"),
    "control_folder": str(_folder / "control"),
}
result_backend = f"file://{_folder / 'results'}"
