"""Java properties: one parser reads zoo.cfg, the dynamic file, memberships and server.properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ensemble.java_properties import FILES
from zabka.ensemble.properties import (
    BadProperties,
    decode_properties,
    logical_lines,
    property_line,
    read_properties,
)
from zabka.ensemble.server.config.dynamic_config import DynamicConfigFiles
from zabka.ensemble.server.config.zoo_cfg import ConfigError, load
from zabka.ensemble.zab.membership import BadMembership, Membership

NEXT = Membership.parse("server.1=h:1:2:participant;0.0.0.0:2181\nversion=500000001")


@pytest.mark.parametrize("data", FILES, ids=repr)
def test_properties_file_is_parsed_as_in_java(data: bytes) -> None:
    expected = FILES[data]
    if expected is None:
        with pytest.raises(BadProperties, match="four hexadecimal digits"):
            read_properties(decode_properties(data))
    else:
        assert read_properties(decode_properties(data)) == expected


@given(st.text(max_size=100))
def test_joined_logical_lines_equal_the_original_file(text: str) -> None:
    assert "".join(line.source for line in logical_lines(text)) == text


@given(st.dictionaries(st.sampled_from(["a", "b.c", "clientPort"]), st.text(max_size=40)))
def test_written_properties_are_parsed_to_the_same_values(properties: dict[str, str]) -> None:
    text = "\n".join(property_line(key, value) for key, value in properties.items())
    assert text.isascii()
    assert read_properties(text) == properties


def test_zoo_cfg_in_any_java_syntax_is_loaded(tmp_path: Path) -> None:
    directory = tmp_path / "a b"
    path = tmp_path / "zoo.cfg"
    escaped = str(directory).replace(" ", "\\ ").encode()
    path.write_bytes(b"\\u0063lientPort 2181\r\ndata\\\r\n   Dir:" + escaped + b"\r\ntickTime=500\\")
    config = load(path)
    assert (config.client_port, config.data_dir, config.tick_time) == (2181, directory, 500)
    assert config.warnings == ()


def test_zoo_cfg_is_read_as_iso_8859_1(tmp_path: Path) -> None:
    path = tmp_path / "zoo.cfg"
    path.write_bytes(b"clientPort=1\ndataDir=/z\xfcrich\n")
    assert load(path).data_dir == Path("/zürich")


def test_zoo_cfg_with_an_invalid_escape_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "zoo.cfg"
    path.write_bytes(b"clientPort=1\ndataDir=C:\\users\n")
    with pytest.raises(ConfigError, match=r"\\users is not \\u and four hexadecimal digits \(in "):
        load(path)


def test_dynamic_file_is_parsed_as_properties(tmp_path: Path) -> None:
    dynamic = tmp_path / "zoo.cfg.dynamic.100000000"
    dynamic.write_bytes(b"! members\nserver.1 h\\:1:2:partici\\\n  pant;2181\n")
    (tmp_path / "myid").write_text("1")
    path = tmp_path / "zoo.cfg"
    path.write_text(f"dataDir {tmp_path}\ndynamicConfigFile {dynamic}\n")
    config = load(path)
    assert config.membership == Membership.parse("server.1=h:1:2:participant;2181\nversion=100000000")
    dynamic.write_bytes(b"server.1=h:1:2\\u\n")
    with pytest.raises(ConfigError, match="is not a Java properties file"):
        load(path)


def test_rewritten_zoo_cfg_keeps_all_other_bytes_and_values(tmp_path: Path) -> None:
    """A reconfig removes only the server lines from zoo.cfg, even if a line is continued. All other bytes stay the
    same.
    """
    path = tmp_path / "zürich.cfg"
    kept = b"# z\xfcrich\r\ndataDir = /z\xfcrich\r\na=1\\\n  2\n"
    path.write_bytes(kept + b"server.1 h:1:\\\n  2\npeer\\\n  Type=observer\nb=c\\")
    DynamicConfigFiles(path, 1).save(NEXT)
    written = path.read_bytes()
    assert written.startswith(kept + b"b=c\\\n\n")
    read = read_properties(decode_properties(written))
    assert read == {
        "dataDir": "/zürich", "a": "12", "b": "c", "dynamicConfigFile": f"{path}.dynamic.500000001",
    }  # fmt: skip
    assert read_properties(Path(read["dynamicConfigFile"]).read_text()) == {
        "server.1": "h:1:2:participant;0.0.0.0:2181"
    }


def test_membership_with_an_invalid_escape_is_rejected() -> None:
    with pytest.raises(BadMembership, match="four hexadecimal digits"):
        Membership.parse("server.1=h:1:2\\u00")
