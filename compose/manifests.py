"""Generates Kubernetes manifests for a topology of containers. `zabka kubernetes` writes them, for any number of nodes.

Peers and brokers are pods of two StatefulSets. The pods' ordinals begin at 1, so that a pod has its node's name. Each
pod has its own volume, and a DNS name below a headless service. The API is a Deployment of one pod. Sources:
Kubernetes' API reference (apps/v1, policy/v1; `ordinals` since 1.27) and the restricted Pod Security Standard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from zabka.compose.containers import (
    AGENT_PORT,
    API_HOST,
    API_PORT,
    CLIENT_PORT,
    DATA,
    ELECTION_PORT,
    INNER_PORT,
    QUORUM_PORT,
    SECRETS,
    TOKENS,
    USER_ID,
)
from zabka.compose.files import API_TOKEN_FILE, TOKEN_FILE
from zabka.compose.plan import BadPlan
from zabka.compose.topology import Topology

IMAGE = "zabka"
STORAGE = "2Gi"
CONFIG, SETTINGS, AGENTS_SECRET = "zabka", "zabka-settings", "zabka-agents"
READS_FOR_GROUP = 0o440
_LABEL = "app.kubernetes.io"
_QUANTITY = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti|M|G|T)")

Object = dict[str, Any]
Secrets = Mapping[str, Mapping[str, str]]
"""The contents of the files that peers, brokers and the API of a secured cluster need, by kind and file name."""


def kubernetes_yaml(
    topology: Topology,
    settings: list[str],
    *,
    image: str = IMAGE,
    storage: str = STORAGE,
    agents_token: str = "",
    secrets: Secrets | None = None,
) -> str:
    """Return the content of the manifests. Raises BadPlan.

    `settings` are the settings from which the topology was created, `storage` is the size of each volume, and
    `agents_token`, if given, is written as a Secret. `secrets` has the certificates and passwords of a secured cluster.
    """
    if not _QUANTITY.fullmatch(storage):
        raise BadPlan(f"--storage is a size such as {STORAGE}, not {storage!r}")
    return _head(topology, has_secret=bool(agents_token)) + "".join(
        f"---\n{as_yaml(each)}" for each in manifests(topology, settings, image, storage, agents_token, secrets)
    )


def manifests(
    topology: Topology,
    settings: list[str],
    image: str,
    storage: str,
    agents_token: str,
    secrets: Secrets | None = None,
) -> list[Object]:
    """Return every Kubernetes object. Each object comes before the objects that refer to it."""
    counts = {"ZABKA_PEERS": str(len(topology.peers)), "ZABKA_BROKERS": str(len(topology.brokers))}
    data = {**counts, "ZABKA_PROFILE": topology.profile, "ZABKA_PLATFORM": topology.platform}
    if topology.secure:
        data["ZABKA_SECURE"] = "true"
    found = [_object("v1", "ConfigMap", CONFIG, data=data)]
    if settings:
        # The settings may contain passwords, so they are stored in a Secret.
        found.append(_object("v1", "Secret", SETTINGS, stringData={"settings": json.dumps(settings)}))
    if agents_token:
        found.append(_object("v1", "Secret", AGENTS_SECRET, stringData={TOKEN_FILE: agents_token}))
    for kind, files in (secrets or {}).items():
        found.append(_object("v1", "Secret", _secret(kind), stringData=dict(files)))
    pod = _Pod(image, has_settings=bool(settings), secure=topology.secure)
    peers = {"client": CLIENT_PORT, "quorum": QUORUM_PORT, "election": ELECTION_PORT, "agent": AGENT_PORT}
    found += _nodes("peer", len(topology.peers), peers, pod, storage)
    if topology.brokers:
        found += _nodes("broker", len(topology.brokers), {"kafka": INNER_PORT, "agent": AGENT_PORT}, pod, storage)
    return found + _api(pod, storage)


def _head(topology: Topology, *, has_secret: bool) -> str:
    made = "" if has_secret else (
        "# The agents' token is not in this file. Before it is applied for the first time:\n"
        f'#   kubectl create secret generic {AGENTS_SECRET} --from-literal={TOKEN_FILE}="$(openssl rand -hex 32)"\n'
    )  # fmt: skip
    return (
        f"# Made by `zabka kubernetes --peers {len(topology.peers)} --brokers {len(topology.brokers)}`; change that, "
        f"not this file.\n{made}"
        f"# Calls that change something need the API's: kubectl exec deploy/{API_HOST} -- cat {DATA}/{API_TOKEN_FILE}\n"
    )


def _secret(kind: str) -> str:
    """Return the name of the Secret of a kind of node."""
    return f"zabka-{kind}"


def _labels(component: str) -> dict[str, str]:
    return {f"{_LABEL}/name": "zabka", f"{_LABEL}/component": component}


def _object(version: str, kind: str, name: str, component: str = "", **rest: Any) -> Object:
    labels = _labels(component) if component else {f"{_LABEL}/name": "zabka"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, **rest}


def _nodes(kind: str, count: int, ports: dict[str, int], pod: _Pod, storage: str) -> list[Object]:
    """Return a StatefulSet of peers or of brokers, its headless service, and its disruption budget."""
    labels = _labels(kind)
    service = f"{kind}s"
    spec = {
        "clusterIP": "None",
        # Publish addresses of pods that are not ready: peers must find each other to form a quorum, and are ready only
        # with a quorum.
        "publishNotReadyAddresses": True,
        "selector": labels,
        "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
    }
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    return [
        _object("v1", "Service", service, kind, spec=spec),
        _object("policy/v1", "PodDisruptionBudget", service, kind, spec=budget),
        _object(
            "apps/v1",
            "StatefulSet",
            kind,
            kind,
            spec={
                "serviceName": service,
                "replicas": count,
                "ordinals": {"start": 1},
                # Start all pods at the same time. With the policy OrderedReady, each pod would wait until the previous
                # one is ready, and no peer is ready without a quorum.
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": pod.spec(kind, "$(POD_NAME)", ports, {"path": "/healthz", "port": "agent"}),
                },
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": labels}, "spec": _claim(storage)}],
            },
        ),
    ]


def _api(pod: _Pod, storage: str) -> list[Object]:
    labels = _labels(API_HOST)
    ports = {"http": API_PORT, "agent": AGENT_PORT}
    scheme = {"scheme": "HTTPS"} if pod.secure else {}
    spec = pod.spec(API_HOST, "host-1", ports, {"path": "/healthz", "port": "http", **scheme})
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": API_HOST}})
    return [
        _object(
            "v1",
            "Service",
            API_HOST,
            API_HOST,
            spec={"selector": labels, "ports": [{"name": "http", "port": API_PORT, "targetPort": "http"}]},
        ),
        _object("v1", "PersistentVolumeClaim", API_HOST, API_HOST, spec=_claim(storage)),
        _object(
            "apps/v1",
            "Deployment",
            API_HOST,
            API_HOST,
            spec={
                "replicas": 1,
                # The collected history must have only one writer, so never run two API pods.
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        ),
    ]


def _claim(storage: str) -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}


class _Pod:
    """The common parts of all pods: user, environment, and resources."""

    def __init__(self, image: str, *, has_settings: bool, secure: bool) -> None:
        self._image = image
        self.secure = secure
        self._has_settings = has_settings

    def spec(self, component: str, host: str, ports: dict[str, int], ready: Object) -> Object:
        """Return the pod specification of a node or of the API. `host` is the argument of
        `zabka.compose.containers`.
        """
        return {
            "automountServiceAccountToken": False,
            # The grace period is longer than an agent takes to stop its node cleanly.
            "terminationGracePeriodSeconds": 20,
            # The pause container becomes process 1 and reaps orphaned child processes of the scenario process.
            "shareProcessNamespace": True,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "fsGroup": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": _labels(component)},
                }
            ],
            "containers": [self._container(component, host, ports, ready)],
            "volumes": [
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
                {"name": "tokens", "secret": {"secretName": AGENTS_SECRET, "defaultMode": READS_FOR_GROUP}},
                *([self._secrets(component)] if self.secure else []),
            ],
        }

    def _secrets(self, component: str) -> Object:
        return {"name": "secrets", "secret": {"secretName": _secret(component), "defaultMode": READS_FOR_GROUP}}

    def _container(self, component: str, host: str, ports: dict[str, int], ready: Object) -> Object:
        # Check only the agent: a user may have killed the node on purpose, and the agent must not be restarted for
        # that.
        alive = {"httpGet": {"path": "/livez", "port": "agent"}}
        return {
            "name": component,
            "image": self._image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-m", "zabka.compose.containers", host],
            "envFrom": [{"configMapRef": {"name": CONFIG}}],
            "env": self._environment(),
            "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
            "startupProbe": {**alive, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 90},
            "livenessProbe": {**alive, "periodSeconds": 30, "timeoutSeconds": 15, "failureThreshold": 5},
            "readinessProbe": {"httpGet": ready, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "data", "mountPath": DATA},
                {"name": "tokens", "mountPath": TOKENS, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},
                *([{"name": "secrets", "mountPath": SECRETS, "readOnly": True}] if self.secure else []),
            ],
        }

    def _environment(self) -> list[Object]:
        own = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        if self._has_settings:
            wanted = {"secretKeyRef": {"name": SETTINGS, "key": "settings"}}
            own.append({"name": "ZABKA_SETTINGS", "valueFrom": wanted})
        return own


# ---- YAML ----------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9./_-]*")
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def as_yaml(value: Any, depth: int = 0) -> str:
    """Return a value as YAML.

    Non-empty mappings and lists are in block style; everything else is JSON, which is valid YAML.
    """
    pad = "  " * depth
    if isinstance(value, dict):
        return "".join(
            f"{pad}{key}:\n{as_yaml(each, depth + 1)}"
            if each and isinstance(each, (dict, list))
            else f"{pad}{key}: {_scalar(each)}\n"
            for key, each in value.items()
        )
    lines = []
    for each in value:
        text = as_yaml(each, depth + 1) if isinstance(each, dict) else f"{pad}  {_scalar(each)}\n"
        lines.append(f"{pad}- {text[len(pad) + 2 :]}")
    return "".join(lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value)
