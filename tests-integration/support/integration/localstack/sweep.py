"""What lives here: the end of all containers with a label, a program of its own.
What never does: an import of the tests'.
"""

import sys

import docker

if __name__ == "__main__":
    engine = docker.from_env()
    for container in engine.containers.list(all=True, filters={"label": sys.argv[1]}):
        container.remove(force=True, v=True)
