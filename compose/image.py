"""The container image: its Dockerfile, and the list of project files that its build needs.

The target `nodes` contains what peers, brokers, agents and the API need; `spark` adds PySpark and a Java runtime. The
final stages of both contain a virtual environment without its build tools.
"""

from __future__ import annotations

from zabka.compose.containers import (
    AGENT_PORT,
    API_PORT,
    CLIENT_PORT,
    DATA,
    ELECTION_PORT,
    INNER_PORT,
    KAFKA_PORT,
    QUORUM_PORT,
    TOKENS,
    USER_ID,
)

NODES_LOCK, SPARK_LOCK = "nodes.lock", "spark.lock"
LINKED = ("api", "broker_sim", "compose", "controller", "ensemble")
"""The packages that are outside the folder `zabka`, which contains a symbolic link to each."""
_PAGE_FILES = ("package.json", "package-lock.json", ".npmrc")
_PORTS = (CLIENT_PORT, QUORUM_PORT, ELECTION_PORT, INNER_PORT, KAFKA_PORT, API_PORT, AGENT_PORT)
_PACKAGES = "/opt/zabka/lib/python3.11/site-packages/"
_NOT_COMPILED = "/(test|tests|idlelib|lib2to3|turtledemo|ensurepip|site-packages|dist-packages)/"

_BUILD = f"""\
# Made by `python -m zabka.compose.kept_files`; change that, not this file.
# A tag moves. To build on the same bases again, name each by digest (`docker buildx imagetools inspect NAME` says it):
#   docker compose -f compose/compose.yaml build --build-arg PYTHON_IMAGE=NAME@sha256:…
# Every PYTHON_IMAGE has to be a Python 3.11, which the locks are for.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG NODE_IMAGE=node:22-bookworm-slim
ARG JRE_IMAGE=eclipse-temurin:17-jre

FROM ${{NODE_IMAGE}} AS page
WORKDIR /page
COPY {" ".join(_PAGE_FILES)} ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM ${{JRE_IMAGE}} AS jre

# Dependencies alone: no edit of the project installs them again.
FROM ${{PYTHON_IMAGE}} AS nodes-built
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/zabka
COPY compose/{NODES_LOCK} /tmp/
RUN /opt/pip/bin/pip --python /opt/zabka/bin/python install --no-cache-dir --require-hashes -r /tmp/{NODES_LOCK}

FROM nodes-built AS spark-built
COPY compose/{SPARK_LOCK} /tmp/
RUN /opt/pip/bin/pip --python /opt/zabka/bin/python install --no-cache-dir --require-hashes --no-deps \\
    -r /tmp/{SPARK_LOCK}

# What is installed of zabka is its packages and one command; nothing has to be downloaded to build them.
FROM ${{PYTHON_IMAGE}} AS project
WORKDIR /project
COPY . .
RUN mkdir /packages && cp -rL zabka /packages/ \\
 && python3 -m compileall -q /packages \\
 && printf '#!/opt/zabka/bin/python\\nfrom zabka.cli.main import main\\n\\nmain()\\n' > /zabka && chmod 755 /zabka
"""


def _final() -> str:
    """Return the last stages of the Dockerfile: a common base, and the two targets based on it."""
    return f"""
# The standard library is compiled once here: the official images leave that to every process.
FROM ${{PYTHON_IMAGE}} AS runtime
RUN stdlib=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))') \\
 && python3 -m compileall -q -x '{_NOT_COMPILED}' "$stdlib" \\
 && useradd --uid {USER_ID} --create-home zabka \\
 && install -d -o zabka -g zabka {DATA} {TOKENS} /tables
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PATH=/opt/zabka/bin:$PATH \\
    ZABKA_DATA={DATA} ZABKA_API_NODE_MODULES=/opt/page/node_modules
ARG PYTHON_IMAGE
LABEL org.opencontainers.image.title="zabka" \\
      org.opencontainers.image.description="A Kafka control plane that you can break on purpose, watch and measure" \\
      org.opencontainers.image.licenses="Apache-2.0" \\
      org.opencontainers.image.base.name="${{PYTHON_IMAGE}}"
WORKDIR /home/zabka
USER zabka
CMD ["zabka", "--help"]

FROM runtime AS spark
COPY --from=jre /opt/java/openjdk /opt/java/openjdk
ENV JAVA_HOME=/opt/java/openjdk
COPY --from=spark-built /opt/zabka /opt/zabka
COPY --from=project /packages/ {_PACKAGES}
COPY --from=project /zabka /opt/zabka/bin/zabka

FROM runtime AS nodes
COPY --from=nodes-built /opt/zabka /opt/zabka
COPY --from=page /page/node_modules /opt/page/node_modules
COPY --from=project /packages/ {_PACKAGES}
COPY --from=project /zabka /opt/zabka/bin/zabka
EXPOSE {" ".join(str(port) for port in _PORTS)}
"""


def dockerfile() -> str:
    """Return the Dockerfile: the page's libraries, the locked dependencies, and zabka with its own user."""
    return _BUILD + _final()


def dockerignore() -> str:
    """Return the build's ignore file, which admits only the packages and the files that they need.

    An edit of any other file therefore causes no rebuild.
    """
    return "".join(
        f"{line}\n"
        for line in (
            "# Made by `python -m zabka.compose.kept_files`; change that, not this file.",
            "*",
            *(f"!{name}" for name in (*_PAGE_FILES, *LINKED, "zabka")),
            "**/__pycache__",
        )
    )
