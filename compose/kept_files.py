"""Writes the generated files of this folder: compose.yaml, kubernetes.yaml, the Dockerfile and the locks.

Run `python -m zabka.compose.kept_files` in an environment with all of requirements.lock installed.
"""

from __future__ import annotations

from pathlib import Path

from zabka.compose.composition import compose_yaml
from zabka.compose.containers import container_topology
from zabka.compose.image import NODES_LOCK, SPARK_LOCK, dockerfile, dockerignore
from zabka.compose.locks import locks
from zabka.compose.manifests import kubernetes_yaml

HERE = Path(__file__).resolve().parent


def kept_files() -> dict[str, str]:
    """Return the content of every generated file, keyed by file name."""
    nodes, spark = locks(HERE.parent)
    return {
        "compose.yaml": compose_yaml(container_topology()),
        "kubernetes.yaml": kubernetes_yaml(container_topology(platform="kubernetes"), []),
        "Dockerfile": dockerfile(),
        "Dockerfile.dockerignore": dockerignore(),
        NODES_LOCK: nodes,
        SPARK_LOCK: spark,
    }


if __name__ == "__main__":
    for name, text in kept_files().items():
        (HERE / name).write_text(text)
