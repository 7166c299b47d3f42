"""Writes the generated files of this folder again: compose.yaml, kubernetes.yaml, the Dockerfile and locks.

Run `python -m zabka.compose.kept_files` with all of requirements.lock installed.
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
    """Return the content of every file, keyed by its name."""
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
