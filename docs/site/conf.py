"""Sphinx configuration of the documentation site. MyST parses the documents; Mermaid draws diagrams in the browser."""

from __future__ import annotations

import html
import re
from pathlib import Path, PurePosixPath

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent

project = "zabka"
html_title = "zabka"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["site"]
html_theme = "furo"
html_static_path = [str(HERE / "static"), str(HERE / "node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js")]
html_js_files = ["mermaid.tiny.js", "diagrams.js"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]


class Mermaid(SphinxDirective):
    """A Mermaid diagram, passed unchanged to the browser."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the diagram's source as the HTML element that Mermaid looks for."""
        text = html.escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid">{text}</pre>\n', format="html")]


_LINK = re.compile(r"\]\((?!\.\./|https?:)([\w./-]+)\.md\)")

_AT_THE_TOP = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([A-Z]+\.\w+)(?:#[\w-]+)?\)")


def name_what_is_not_on_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace links to documents at the top of the repository by their names, because the site does not contain
    them.
    """
    source[0] = _AT_THE_TOP.sub(r"\1 (`\2`)", source[0])


def list_what_an_index_links_to(app: Sphinx, name: str, source: list[str]) -> None:
    """Add a toctree of all linked pages to each page called index, so that its source can be plain Markdown."""
    if PurePosixPath(name).name == "index":
        linked = "\n".join(dict.fromkeys(_LINK.findall(source[0])))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{linked}\n```\n"


_LESSONS = "lessons/"
_QUESTION_ENDS = "\n## Run it\n"
_LISTED = re.compile(r"(?<=\| )(\[[^\]]+\]\(([\w-]+)\.md\))(?= \|)")
_PLAY_LISTED = r'\1, <a href="play/\2.html">play it here</a>'
_PLAY = """
<p><a href="play/{name}.html"><strong>Play this lesson here</strong></a>: predict, then watch the run. No installation
is needed.</p>
"""


def link_to_the_playable_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Insert links to the interactive pages (`scripts/lesson_pages.py`): in the list, and after each question."""
    if name == _LESSONS + "index":
        source[0] = _LISTED.sub(_PLAY_LISTED, source[0])
    if name.startswith(_LESSONS) and _QUESTION_ENDS in source[0]:
        link = _PLAY.format(name=name.removeprefix(_LESSONS))
        source[0] = source[0].replace(_QUESTION_ENDS, link + _QUESTION_ENDS, 1)


def setup(app: Sphinx) -> None:
    """Register the directive and the two source-read handlers."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", name_what_is_not_on_the_site)
    app.connect("source-read", list_what_an_index_links_to)
    app.connect("source-read", link_to_the_playable_page)
