"""Checks that texts use plain words: docstrings, comments, documents, page strings, names, commit subjects.

Each sentence is compared with the patterns of CONTRIBUTING ("Words"). A match is not always a mistake, so each kind of
text has a limit: the percentage of its sentences that may match. `make lint` runs this check, which fails if a limit is
exceeded.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMITS_PERCENT = {
    "docstring": 6.0,
    "comment": 6.0,
    "document": 4.0,
    "test name": 3.0,
    "page string": 3.0,
    "identifier": 0.3,
}
NAME_MAX = 60
"""Maximum length of a test name and of a commit subject."""
SENTENCE_WORDS_MAX = 40

PATTERNS = {
    "a clause as the subject": r"^(what|whoever|whom|whose|who|of (which|what|whom|those|an?|the|each)|that which)\b",
    "a question": r"^\w.*\?$",
    "no broker, no client: name it": r"^(nobody|nothing|no one|somebody|everybody)\b",
    "an old or private word": (
        r"\b(anew|whom|whomever|upon|deeds?|reigns?|reigning|nowhere|somebody|nobody|everybody|whoever|beside|mend(s|ed)?)\b"
    ),
    "told, heard, named: say who does it": (
        r"\b(is|are|was|were|be|been|being) ((not|never|also|only|then) )?(told|said|heard|named|spoken|meant)\b"
    ),
    "a program sends, reports or receives": (
        r"\b(tells?|telling|hears?|hearing|says|believes?|knows? of|owes?|promised?)\b"
    ),
    "'behind' for after": r"\bbehind (it|them|that|this|the|an?|each|its|which)\b",
    "of which, for whom": r"\b(of|for|to|from|by|with|about|over|under|in) (which|whom|whose)\b",
    "one that, those who: name it": r"\b(one|those|these) (that|who|which|whose)\b",
    "no more": r"\b(is|are|was|were) (no more|not any more)\b|\bany more\b",
}
_COMPILED = {reason: re.compile(pattern, re.IGNORECASE) for reason, pattern in PATTERNS.items()}
PRIVATE_WORDS = frozenset(
    (
        "reign", "deed", "told", "tell", "hear", "heard", "say", "said", "judge", "anew", "behind", "whom", "wanted",
        "occasion", "surrounding", "harm", "strike", "promise", "tape", "nobody", "somebody", "mend",
    )
)  # fmt: skip
"""Words that names must not contain. CONTRIBUTING lists the standard term for each."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\"'(])")
_TABLE_ROW = re.compile(r"^\s*\||---|\S {3,}\S")
_CODE_OR_LINK = re.compile(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)")
_EVENT_TEXT = re.compile(r'"(?:sentence|spoken|story)"\s*:\s*"([^"]{12,})"')
_PAGE_TEXT = re.compile(r"[\"'`>]([A-Z][^\"'`<>{}]{14,})[\"'`<]")


class Text(NamedTuple):
    """One sentence or name, with its kind, file and line."""

    kind: str
    place: str
    text: str


def reason_against(text: str) -> str | None:
    """Return the first rule that the sentence violates, or None."""
    plain = _CODE_OR_LINK.sub(lambda found: found.group(1) or "x", text).lstrip("*_-# ")
    if len(plain.split()) > SENTENCE_WORDS_MAX:
        return f"over {SENTENCE_WORDS_MAX} words"
    return next((reason for reason, pattern in _COMPILED.items() if pattern.search(plain)), None)


def reason_against_name(name: str) -> str | None:
    """Return a message about a private word (PRIVATE_WORDS) in a class or function name, or None."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
    found = sorted(words & PRIVATE_WORDS | {word for word in PRIVATE_WORDS if f"{word}s" in words})
    return f"a private word: {found[0]}" if found else None


def reason_against_subject(subject: str) -> str | None:
    """Return what is wrong with a commit subject, or None.  Git's own subjects of merges and reverts are allowed."""
    if subject.startswith(("Merge ", "Revert ")):
        return None
    if len(subject) > NAME_MAX:
        return f"{len(subject)} characters; {NAME_MAX} are allowed"
    if not re.fullmatch(r"[a-z0-9_./, -]+: \S.*[^.]", subject):
        return "use `area: verb object`, without a full stop"
    return reason_against(subject.partition(": ")[2])


def _reason(found: Text) -> str | None:
    if found.kind == "identifier":
        return reason_against_name(found.text)
    if found.kind == "test name":
        too_long = f"over {NAME_MAX} characters" if len(found.text) > NAME_MAX else None
        return too_long or reason_against(found.text.removeprefix("test_").replace("_", " "))
    return reason_against(found.text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text.  Fragments of one or two words and tables are omitted."""
    prose = " ".join(line.strip() for line in text.splitlines() if not _TABLE_ROW.search(line))
    found = (sentence.strip() for sentence in _SENTENCE_END.split(prose))
    return [sentence for sentence in found if len(sentence.split()) > 2]


def _in_python(path: Path) -> Iterator[Text]:
    source = path.read_text()
    is_test = path.name.startswith("test_")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        place = f"{path}:{getattr(node, 'lineno', 1)}"
        for sentence in sentences(ast.get_docstring(node) or ""):
            yield Text("docstring", place, sentence)
        if isinstance(node, ast.Module):
            continue
        if is_test and node.name.startswith("test_"):
            yield Text("test name", place, node.name)
        elif not is_test:
            yield Text("identifier", place, node.name)
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:", "# noqa", "# fmt")):
            block.append(token.string.lstrip("# "))
        elif token.type not in (tokenize.NL, tokenize.COMMENT) and block:
            for sentence in sentences(" ".join(block)):
                yield Text("comment", f"{path}:{token.start[0]}", sentence)
            block = []


def _in_markdown(path: Path) -> Iterator[Text]:
    block: list[str] = []
    in_code = False
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        is_text = not in_code and not line.startswith(("|", "#", "<!--", "    "))
        item = re.match(r"\s*([-*]|\d+\.)\s+", line)
        if not is_text or not line.strip() or item:
            for sentence in sentences("\n".join(block)):
                yield Text("document", f"{path}:{number}", sentence)
            block = []
        if is_text and line.strip():
            block.append(line[item.end() :] if item else line)


def _in_page(path: Path) -> Iterator[Text]:
    pattern = _EVENT_TEXT if path.suffix == ".json" else _PAGE_TEXT
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith(("//", "*", "/*")):
            for sentence in sentences(line.lstrip("/* ")):
                yield Text("comment", f"{path}:{number}", sentence)
            continue
        for found in pattern.finditer(line):
            for sentence in sentences(found.group(1)):
                yield Text("page string", f"{path}:{number}", sentence)


def texts() -> Iterator[Text]:
    """Yield every text in the files that Git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    for path in map(Path, filter(None, listed.stdout.split("\0"))):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".py":
            yield from _in_python(path)
        elif path.suffix == ".md":
            yield from _in_markdown(path)
        elif path.name == "sentences.json" or (path.suffix in (".js", ".html") and path.parts[:2] == ("api", "web")):
            yield from _in_page(path)


def check(listed_max: int) -> int:
    """Print one line per kind, and the flagged texts of kinds above their limit; return the exit code."""
    counts: Counter[str] = Counter()
    flagged: dict[str, list[str]] = defaultdict(list)
    for found in texts():
        counts[found.kind] += 1
        if (reason := _reason(found)) is not None:
            flagged[found.kind].append(f"  {found.place}: {found.text[:150]} [{reason}]")
    failed = False
    for kind, limit in LIMITS_PERCENT.items():
        percent = 100 * len(flagged[kind]) / max(1, counts[kind])
        is_over = percent > limit
        failed = failed or is_over
        print(f"words: {kind}: {percent:.1f} % of {counts[kind]} flagged, limit {limit:g} %")  # noqa: T201
        for line in flagged[kind][: listed_max or (20 if is_over else 0)]:
            print(line)  # noqa: T201
    if failed:
        print("words: rewrite these as CONTRIBUTING (Words) shows, or list more with --list N")  # noqa: T201
    return int(failed)


def main() -> int:
    """Check all texts of the project, or check one commit message with `--commit FILE`."""
    parser = argparse.ArgumentParser(prog="python -m scripts.words", description=__doc__)
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print up to N flagged texts of each kind")
    parser.add_argument("--commit", type=Path, metavar="FILE", help="check the subject of this commit message alone")
    given = parser.parse_args()
    if given.commit is None:
        return check(given.list)
    subject = given.commit.read_text().partition("\n")[0]
    if (reason := reason_against_subject(subject)) is None:
        return 0
    print(f"commit subject: {reason}: {subject}\nSee CONTRIBUTING (Words); `git commit --no-verify` skips this.")  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
