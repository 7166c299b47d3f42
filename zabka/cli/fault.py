"""`zabka fault`: inject faults into the requests and links of a running cluster, through the cluster's API."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from zabka.agent.token_file import BadToken, read_token
from zabka.ensemble.request_fault import Effect
from zabka.ensemble.runtime.link_fault import Kind
from zabka.kafka.request_faults.ready_sets import READY_SETS
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.http_api import HttpApi, Refused

FAULTS = "/api/v1/faults"
DEFAULT_URL = "http://127.0.0.1:8080"
LINK_KINDS: tuple[str, ...] = get_args(Kind)
EFFECTS: tuple[str, ...] = get_args(Effect)
_CLIENTS = "a client: client:ID (Kafka), session:0xID (ZooKeeper) or an IP address"
_TEXTS = {
    "client-id": "client ids, a pattern such as shop-*",
    "listener": "a listener",
    "topic": "a topic, or a pattern",
    "group": "a consumer group, or a pattern",
    "transactional-id": "a transactional id, or a pattern",
    "path": "a znode's path, or a pattern such as /app/*",
    "principal": "of clients, a pattern: User:alice (Kafka), sasl:alice or digest:* (ZooKeeper)",
    "node": "the node that applies it, such as broker-1 (default: all)",
    "error": "for the effect error: Kafka's or ZooKeeper's name of it",
}
_NUMBERS = {
    "partition": "a partition of the topic",
    "min-version": "the lowest version of the request",
    "max-version": "the highest version of the request",
    "delay-ms": "for delays, of requests and links",
    "throttle-ms": "for the effect throttle",
    "times": "the fault ends after so many uses at a node",
    "nth": "only the nth matching request",
    "every": "every nth matching request",
    "for-ms": "the fault ends after so long",
}


_OF_LINKS = ("delay_ms", "bytes_per_s")


def main(arguments: list[str]) -> int:
    """Run `zabka fault` with these arguments; return its exit code."""
    options = _parser().parse_args(arguments)
    work: dict[str, Callable[[HttpApi, argparse.Namespace], None]] = {
        "add": _add, "list": _list, "remove": _remove, "sets": _sets,
    }  # fmt: skip
    try:
        token = None if options.token_file is None else read_token(options.token_file)
        work[options.command](HttpApi(options.on, token), options)
    except Refused as refused:
        return _fail(_detail(refused))
    except (ClusterFailed, BadToken, OSError, ValueError) as failed:
        return _fail(str(failed))
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("zabka fault", description="Add, list and remove faults of requests and links.")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    adding = commands.add_parser("add", help="add a request fault, a ready set of them, or a link fault")
    adding.add_argument("name", nargs="?", metavar="NAME", help=f"a ready set: {', '.join(READY_SETS)}")
    adding.add_argument("--api", help="a Kafka API, such as Produce, or * for all")
    adding.add_argument("--opcode", help="a ZooKeeper operation, such as create, or * for all")
    adding.add_argument("--effect", choices=EFFECTS, metavar="EFFECT", help=f"one of {', '.join(EFFECTS)}")
    for name, text in _TEXTS.items():
        adding.add_argument(f"--{name}", help=text)
    for name, text in _NUMBERS.items():
        adding.add_argument(f"--{name}", type=int, metavar="N", help=text)
    adding.add_argument("--probability", type=float, metavar="P", help="each matching request with this probability")
    adding.add_argument("--keep-open", action="store_true", default=None, help="drop_response: keep the connection")
    adding.add_argument("--from", metavar="END", help=f"a link fault: its first end, a node or {_CLIENTS}")
    adding.add_argument("--to", metavar="END", help="a link fault: its second end, or * for all nodes")
    adding.add_argument("--kind", choices=LINK_KINDS, help=f"a link fault: {', '.join(LINK_KINDS)}")
    adding.add_argument("--bytes-per-s", type=int, metavar="N", help="a link fault: its bandwidth")
    adding.add_argument("--one-way", action="store_true", help="a link fault: only from the first to the second end")
    listing = commands.add_parser("list", help="print the active faults, with the uses of each")
    removing = commands.add_parser("remove", help="remove faults")
    removing.add_argument("id", nargs="*", help="ids, as printed by add and list")
    removing.add_argument("--all", action="store_true", help="remove every fault")
    sets = commands.add_parser("sets", help="print the ready sets")
    for each in (listing, sets):
        each.add_argument("--json", action="store_true", help="print JSON")
    for each in (adding, listing, removing, sets):
        each.add_argument(
            "--on", metavar="URL", default=os.environ.get("ZABKA_ON", DEFAULT_URL),
            help=f"the API of the cluster, which zabka up prints (default: ZABKA_ON, or {DEFAULT_URL})",
        )  # fmt: skip
        each.add_argument("--token-file", type=Path, metavar="FILE", help="the token, if the API requires it")
    return made


def _add(api: HttpApi, options: argparse.Namespace) -> None:
    given = {name: value for name in _fields() if (value := getattr(options, name)) is not None}
    if sum(map(bool, (options.name, options.api, options.opcode, vars(options)["from"]))) != 1:
        raise ValueError("give the name of a ready set, --api, --opcode or --from, and only one of them")
    if options.name:
        made = api.post(f"{FAULTS}/sets/{options.name}", given)
    elif options.api or options.opcode:
        if options.effect is None:
            raise ValueError(f"--effect is missing; effects are {', '.join(EFFECTS)}")
        name = {"api": options.api} if options.api else {"opcode": options.opcode}
        made = [api.post(FAULTS, {"kind": "request", "effect": options.effect, **name, **given})]
    else:
        made = [api.post(FAULTS, _link(options, given))]
    for fault in made:
        _print(f"{fault['id']}  {_text(fault)}")


def _fields() -> list[str]:
    return [name.replace("-", "_") for name in (*_TEXTS, *_NUMBERS, "probability", "keep-open", "bytes-per-s")]


def _link(options: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    unused = [name for name in given if name not in _OF_LINKS]
    if unused:
        raise ValueError(f"--{unused[0].replace('_', '-')} selects requests: it needs --api, --opcode or a ready set")
    if options.kind is None or options.to is None:
        raise ValueError("a link fault needs --from, --to and --kind")
    return {
        "from": vars(options)["from"], "to": options.to, "kind": options.kind, "both_ways": not options.one_way,
        **given,
    }  # fmt: skip


def _list(api: HttpApi, options: argparse.Namespace) -> None:
    faults = api.get(FAULTS)
    if options.json:
        _print(json.dumps(faults, indent=2))
    for fault in () if options.json else faults:
        _print(f"{fault['id']}  {_text(fault)}{_counts(fault)}")
    if not faults and not options.json:
        _print("no fault is active")


def _remove(api: HttpApi, options: argparse.Namespace) -> None:
    if bool(options.id) == options.all:
        raise ValueError("give the ids of the faults, or --all")
    if options.all:
        _print(f"removed {len(api.post(f'{FAULTS}/reset'))} faults")
    for fault_id in options.id:
        api.request("DELETE", f"{FAULTS}/{fault_id}")
        _print(f"removed {fault_id}")


def _sets(api: HttpApi, options: argparse.Namespace) -> None:
    sets = api.get(f"{FAULTS}/sets")
    if options.json:
        _print(json.dumps(sets, indent=2))
    for each in () if options.json else sets:
        _print(f"{each['name']}: {each['imitates']}\n  {each['expected']}")
        _print(f"  narrowed by {', '.join(each['takes'])}")


def _text(fault: dict[str, Any]) -> str:
    """Describe a request fault or link fault in one line."""
    if fault["kind"] == "request":
        return f"{fault['text']} ({fault['part_of']})" if fault.get("part_of") else str(fault["text"])
    amount = f" {fault['delay_ms']} ms" if fault["delay_ms"] else ""
    amount += f" {fault['bytes_per_s']} bytes/s" if fault["bytes_per_s"] else ""
    return f"{fault['kind']}{amount} {fault['from']} {'<->' if fault['both_ways'] else '->'} {fault['to']}"


def _counts(fault: dict[str, Any]) -> str:
    if fault["kind"] != "request":
        return ""
    by_node = ", ".join(f"{node} {used}" for node, used in fault["used_by"].items())
    return f"; used {fault['used']} of {fault['matched']}{f' ({by_node})' if by_node else ''}"


def _detail(refused: Refused) -> str:
    """Return the `detail` of the problem document in the API's response."""
    _, _, body = str(refused).partition(f"{refused.status} ")
    try:
        problem = json.loads(body)
    except ValueError:
        return str(refused)
    reasons = [str(each.get("what", each)) for each in problem.get("errors", ())]
    return "; ".join(reasons) or str(problem.get("detail", refused))


def _print(text: str) -> None:
    print(text)  # noqa: T201


def _fail(reason: str) -> int:
    print(f"zabka fault: {reason}", file=sys.stderr)  # noqa: T201
    return 1
