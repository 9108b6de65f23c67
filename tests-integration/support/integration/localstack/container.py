"""What lives here: LocalStack in a container, which ends with this session, as do the containers that it starts.
What never does: how an image is built (`tests-integration/localstack/image.sh`).
"""

import gc
import os
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from ..fetch import Unavailable
from ..last_will import afterwards
from .health import CUSTOM_RESOURCES, RECIPE, SETTINGS, VERSION, wait_until_healthy

PUBLIC_IMAGE: Final = f"localstack/localstack:{VERSION}"
OWN_IMAGE: Final = f"zae-limiter/localstack:{VERSION}"  # of `just localstack-image`
LABEL: Final = "zael-test-session"
PULL_SECONDS: Final = 60
PORT: Final = 4566
SOCKET: Final = "/var/run/docker.sock"


@contextmanager
def in_container() -> Iterator[str]:
    """The URL of a LocalStack that is healthy; ``Unavailable`` without an engine or an image."""
    image = _image()
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"  # it would be another image; `afterwards` does its work
    from testcontainers.core.container import DockerContainer

    label = f"{LABEL}={uuid.uuid4().hex}"
    script = f"start.d/{CUSTOM_RESOURCES}"
    made = (
        DockerContainer(image)
        .with_exposed_ports(PORT)
        .with_envs(**SETTINGS, GATEWAY_LISTEN=f"0.0.0.0:{PORT}", LAMBDA_DOCKER_FLAGS=f"--label {label}")
        .with_volume_mapping(SOCKET, SOCKET, "rw")  # the public image runs each Lambda in a container beside its own
        .with_volume_mapping(str(RECIPE / script), f"/etc/localstack/init/{script}", "ro")
        .with_kwargs(labels=dict([label.split("=")]))
    )
    sweep = [sys.executable, str(Path(__file__).with_name("sweep.py")), label]
    with afterwards(sweep), made:
        url = f"http://{made.get_container_host_ip()}:{made.get_exposed_port(PORT)}"
        wait_until_healthy(url, [CUSTOM_RESOURCES], lambda: _log_of(made.get_wrapped_container()))
        yield url


def _log_of(running: Any) -> str | None:
    """What a container that has ended has written; ``None`` while it runs."""
    running.reload()
    return None if running.status == "running" else running.logs(tail=40).decode(errors="replace")


def _image() -> str:
    """The image that the environment names, else the public one, else our own; the public one may be pulled."""
    from docker.errors import ImageNotFound

    chosen = os.environ.get("ZAEL_LOCALSTACK_IMAGE")
    with closing(_engine()) as engine:
        for image in [chosen] if chosen else [PUBLIC_IMAGE, OWN_IMAGE]:
            try:
                engine.images.get(image)
            except ImageNotFound:
                continue
            return image
        _pull(engine, chosen or PUBLIC_IMAGE)
    return chosen or PUBLIC_IMAGE


def _engine() -> Any:
    """A client of the container engine; ``Unavailable`` where none answers."""
    import docker
    from docker.errors import DockerException

    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            return docker.from_env(timeout=10)  # asks for the engine's version
        except DockerException as error:
            complaint = str(error)
        gc.collect()  # a socket that could not connect is left open by the library
    raise Unavailable(f"no container engine answers: {complaint}")


def _pull(engine: Any, image: str) -> None:
    failed: list[Exception] = []

    def pull() -> None:
        try:
            engine.images.pull(image)
        except Exception as error:  # noqa: BLE001  whatever it was, the image is not there
            failed.append(error)

    thread = threading.Thread(target=pull, daemon=True)
    thread.start()
    thread.join(PULL_SECONDS)
    if thread.is_alive():
        raise Unavailable(f"the image {image} was not pulled within {PULL_SECONDS} s")
    if failed:
        raise Unavailable(f"the image {image} cannot be pulled: {failed[0]}")
