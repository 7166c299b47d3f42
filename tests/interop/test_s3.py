"""Journals in an S3 bucket (S3Proxy): Spark computes the same result as for local files with the same content."""

from __future__ import annotations

import hmac
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from bench.free_ports import free_ports
from tests.interop.kafka_jars import s3a_jars, s3proxy_classpath
from tests.interop.kafka_jars.kafka_jars import S3A_POM
from tests.pipeline.audits.test_audits import play
from zabka.pipeline.gold import NAMES

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/read-journals-elsewhere.md"
BUCKET, IDENTITY, SECRET = "histories", "reader", "a secret"
READY_S = 60.0


class Bucket(NamedTuple):
    """An S3 bucket, and a local directory with the same files."""

    endpoint: str
    files: Path

    def put(self, key: str, data: bytes) -> None:
        """Upload an object to the bucket. The request is signed with S3's signature version 2."""
        date, kind, place = formatdate(usegmt=True), "application/octet-stream", f"/{BUCKET}/{key}"
        to_sign = f"PUT\n\n{kind}\n{date}\n{place}".encode()
        signature = b64encode(hmac.digest(SECRET.encode(), to_sign, "sha1")).decode()
        headers = {"Date": date, "Content-Type": kind, "Authorization": f"AWS {IDENTITY}:{signature}"}
        with urllib.request.urlopen(urllib.request.Request(self.endpoint + place, data, headers, method="PUT")):
            pass


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    directory = tmp_path_factory.mktemp("s3")
    (directory / "store" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    bucket = Bucket(f"http://127.0.0.1:{port}", directory / "files")
    settings = {
        "s3proxy.endpoint": bucket.endpoint, "s3proxy.authorization": "aws-v2-or-v4", "s3proxy.identity": IDENTITY,
        "s3proxy.credential": SECRET, "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(directory / "store"),
    }  # fmt: skip
    (directory / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", s3proxy_classpath(), "org.gaul.s3proxy.Main"]
    with (directory / "s3proxy.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--properties", str(directory / "s3proxy.conf")], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_for(port, server)
        write_journals(bucket.files)
        for path in bucket.files.rglob("*.jsonl"):
            bucket.put(f"live/{path.relative_to(bucket.files).as_posix()}", path.read_bytes())
        yield bucket
    finally:
        server.kill()
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
            return
        assert server.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)


def write_journals(directory: Path) -> None:
    """Write the journals of several runs.

    Two runs have one file each (one correct, one with an injected bug), and one has files of several nodes. Some lines
    are invalid.
    """
    (directory / "seeds").mkdir(parents=True)
    play("chaos", 11, None, directory / "seeds", 4_000)
    name, _ = play("ensemble", 20, "established without a quorum", directory / "seeds")
    lines = (directory / "seeds" / name).read_bytes().splitlines(keepends=True)
    for node in ("peer-1", "peer-2", "peer-3"):
        own = directory / "cluster" / node / "journal" / f"{node}.000000000001.jsonl"
        own.parent.mkdir(parents=True)
        own.write_bytes(b"".join(line for line in lines if f'"node":"{node}"'.encode() in line) + b'no entry\n{"half')


@pytest.fixture
def configured(bucket: Bucket, tmp_path: Path) -> dict[str, str]:
    """Return the environment for a command, with Spark configured as the documentation page describes."""
    (tmp_path / "conf").mkdir()
    settings = {
        "spark.jars": ",".join(map(str, s3a_jars())),
        "spark.hadoop.fs.s3a.endpoint": bucket.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    credentials = {"AWS_ACCESS_KEY_ID": IDENTITY, "AWS_SECRET_ACCESS_KEY": SECRET}
    return {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(tmp_path / "conf"), **credentials}


def pipeline(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zabka.cli.main", "pipeline", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def table(place: Path) -> list[dict[str, Any]]:
    return sorted(pq.read_table(place).to_pylist(), key=str)


def test_tables_from_a_bucket_equal_those_from_local_files(
    bucket: Bucket, configured: dict[str, str], tmp_path: Path
) -> None:
    for data, out in ((f"s3a://{BUCKET}/live", "there"), (str(bucket.files), "here")):
        done = pipeline("tables", "--data", data, "--out", str(tmp_path / out), env=configured)
        assert done.returncode == 0, done.stderr
    for name in NAMES:
        assert table(tmp_path / "there" / name) == table(tmp_path / "here" / name), name
    assert {row["run"] for row in table(tmp_path / "there" / "elections")} >= {"cluster", "seeds/chaos-seed-11.jsonl"}
    assert len(table(tmp_path / "there" / "bad_lines")) == 3


def test_audits_of_a_bucket_equal_the_audits_of_its_files(
    bucket: Bucket, configured: dict[str, str], tmp_path: Path
) -> None:
    for data, out in ((f"s3a://{BUCKET}/live", "there"), (str(bucket.files), "here")):
        done = pipeline("audit", data, "--out", str(tmp_path / out), env=configured)
        assert done.returncode == 1, done.stderr
        assert "3 runs, 2 with violations" in done.stdout
    assert table(tmp_path / "there" / "audits") == table(tmp_path / "here" / "audits")


@pytest.mark.parametrize(
    ("data", "lacking", "expected"),
    [
        (f"s3a://{BUCKET}/live", {"AWS_SECRET_ACCESS_KEY": "another"}, "Forbidden (Service: S3, Status Code: 403"),
        ("s3a://no-bucket/live", {}, "The specified bucket does not exist"),
        (f"s3a://{BUCKET}/nothing", {}, "Path does not exist: s3a://"),
        (
            f"s3a://{BUCKET}/live",
            {"SPARK_CONF_DIR": "/"},
            "org.apache.hadoop.fs.s3a.S3AFileSystem is not among Spark's",
        ),
    ],
)
def test_unreadable_bucket_data_exits_with_a_one_line_error(
    data: str, lacking: dict[str, str], expected: str, configured: dict[str, str], tmp_path: Path
) -> None:
    done = pipeline("tables", "--data", data, "--out", str(tmp_path / "out"), env={**configured, **lacking})
    assert done.returncode == 2
    assert expected in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr and "\tat " not in done.stderr


def test_documentation_lists_the_tested_s3_library_versions() -> None:
    versions = dict(re.findall(r"<(hadoop|awssdk)\.version>(.+?)<", S3A_POM.read_text()))
    page = PAGE.read_text()
    assert f"hadoop-aws:{versions['hadoop']}," in page
    assert set(re.findall(r"software\.amazon\.awssdk:[a-z0-9-]+:([0-9.]+)", page)) == {versions["awssdk"]}
