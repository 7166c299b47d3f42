"""Builds the exported HTML file, which needs no server, from the page's modules, its styles and the runs.

A page opened from a file cannot import modules by relative URLs, so its loader creates a `blob:` URL for each module
and an import map for the module names. Modules and runs are compressed with gzip and encoded in base64. The page's
Content-Security-Policy forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import posixpath
import re
from functools import cache, partial
from html import escape
from pathlib import Path

import msgspec

from zabka.api.http.page import WEB, find_libraries

_LIBRARY = "lit-html"
_MAIN = "web/main.js"
_UNPACKER = "web/source/packed.js"
_IMPORTED = re.compile(r"""(\bfrom\s*|\bimport\s*\(\s*|\bimport\s*)(["'])([^"'\s]+)\2""")
_DOC_COMMENT = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n", re.DOTALL | re.MULTILINE)
_STYLES = re.compile(r'<link rel="stylesheet" href="/web/(css/[a-z]+\.css)">\n')
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_LOADER = """
void (async () => {
  const imports = {};
  const modules = JSON.parse(await unpacked(document.getElementById("modules").textContent));
  for (const [name, text] of Object.entries(modules)) {
    imports[name] = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  }
  const add = (fields) => document.head.append(Object.assign(document.createElement("script"), fields));
  add({ type: "importmap", textContent: JSON.stringify({ imports }) });
  add({ type: "module", src: imports["web/main.js"] });
})().catch((reason) => {
  const why = `This file cannot be shown: ${reason}. It needs a browser of 2023 or later.`;
  document.getElementById("page").textContent = why;
});
"""
_LOADING = '<div id="page"><p class="loading">Loading… If this message stays, JavaScript is off.</p></div>'


class NoPage(Exception):
    """The page's files are not installed. The message says how to install them."""


def document(title: str, packed_contents: str) -> str:
    """Return the HTML file. `packed_contents` are the packed runs (`contents`). Raises NoPage."""
    parts = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        _page(),
        f'<script type="text/plain" id="runs">{packed_contents}</script>\n</body>\n</html>\n',
    )
    return "\n".join(parts)


def packed(data: bytes) -> str:
    """Compress bytes with gzip and encode them in base64. Equal bytes give equal results."""
    return base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0)).decode()


@cache
def _page() -> str:
    """Return the part of the exported HTML file that is the same for all runs."""
    index = (WEB / "index.html").read_text() if (WEB / "index.html").is_file() else ""
    libraries = find_libraries(None)
    if not index or libraries is None:
        raise NoPage("the page is not installed: install zabka[dashboard]")
    styles = "".join((WEB / name).read_text() for name in _STYLES.findall(index))
    icon = base64.b64encode((WEB / "icon.svg").read_bytes()).decode()
    unpacker = _without_comments((WEB / "source/packed.js").read_text()).replace("export ", "")
    announcements = index[index.index('<p id="announcements"') : index.index("</body>")]
    modules = packed(msgspec.json.encode(_modules(libraries)))
    return "\n".join((
        f'<link rel="icon" type="image/svg+xml" href="data:image/svg+xml;base64,{icon}">',
        f"<style>{styles}</style>\n</head>\n<body>\n{_LOADING}\n{announcements}",
        f'<script type="text/plain" id="modules">{modules}</script>',
        f'<script>{unpacker}\ndocument.addEventListener("DOMContentLoaded", () => {{{_LOADER}}});</script>',
    ))  # fmt: skip


def _modules(libraries: Path) -> dict[str, str]:
    """Return the modules that the page can load, keyed by name. Their imports use names instead of relative URLs."""
    found: dict[str, str] = {}
    waiting = [_MAIN]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        folder, _, path = name.partition("/")
        text = (WEB / path if folder == "web" else libraries / name).read_text()
        found[name] = _IMPORTED.sub(partial(_named, name, waiting), _without_comments(text))
    return found


def _named(importer: str, waiting: list[str], match: re.Match[str]) -> str:
    """Return an import statement with the module's name instead of its URL. Append the name to `waiting`, the modules
    still to be read.
    """
    address = match[3]
    if address.startswith("."):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(importer), address))
    else:
        name = f"{_LIBRARY}/{_LIBRARY}.js" if address == _LIBRARY else address
    waiting.append(name)
    return f'{match[1]}"{name}"'


def _without_comments(text: str) -> str:
    return _DOC_COMMENT.sub("", text)
