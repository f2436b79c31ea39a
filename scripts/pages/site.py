"""Hooks of MkDocs: the navigation is docs/README.md, and links work as they do on the repository's page.

Pages are read in two places. On the repository's page a link may lead to any file of the checkout; the site has the
pages below docs and those of `ALSO_PAGES`, and shows the path of any other file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from pages.gallery import frames

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README.md"
ALSO_PAGES = {
    "README.md": "index.md",
    INDEX: "pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "tests/lab/README.md": "laboratory.md",
}
NOT_IN_SITE = {"docs/index-page.md"}  # a package index shows it
REPORTS = "<!-- reports -->"
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ENTRY = re.compile(r"^- \[(?P<title>[^\]]*)\]\((?P<target>[^)#]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index of the pages."""
    config.nav = navigation((ROOT / INDEX).read_text("utf-8"))
    return config


def navigation(index: str) -> list[dict[str, Any]]:
    """Return MkDocs' navigation of an index with headings of two levels above lists of links."""
    tree: list[dict[str, Any]] = [{"tprof": ["index.md", {"All pages": "pages.md"}]}]
    place: list[dict[str, Any]] = tree
    for line in index.splitlines():
        if line.startswith("## "):
            tree.append({line[3:]: (place := [])})
        elif line.startswith("### "):
            part: list[dict[str, Any]] = []
            next(iter(tree[-1].values())).append({line[4:]: part})
            place = part
        elif entry := ENTRY.match(line):
            place.append({entry["title"]: _page_of(os.path.normpath(f"docs/{entry['target']}"))})
    return tree


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside docs, and leave out what is for a package index."""
    for source in files.documentation_pages():
        if f"docs/{source.src_uri}" in NOT_IN_SITE | set(ALSO_PAGES):
            files.remove(source)
    for source, uri in ALSO_PAGES.items():
        content = _with_links_of_site((ROOT / source).read_text("utf-8"), source=source, uri=uri)
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let the links of a page lead to pages of the site, and the gallery show its reports."""
    if page.file.src_uri in ALSO_PAGES.values():
        return markdown
    markdown = markdown.replace(REPORTS, frames())
    return _with_links_of_site(markdown, source=f"docs/{page.file.src_uri}", uri=page.file.src_uri)


def _with_links_of_site(markdown: str, *, source: str, uri: str) -> str:
    parts, begin = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [_linked(markdown[begin : fence.start()], source, uri), fence.group()]
        begin = fence.end()
    return "".join([*parts, _linked(markdown[begin:], source, uri)])


def _linked(text: str, source: str, uri: str) -> str:
    return LINK.sub(lambda link: _link(link, source, uri), text)


def _link(link: re.Match[str], source: str, uri: str) -> str:
    parts = urlsplit(link["target"])
    if parts.scheme or parts.netloc:
        if parts.scheme != "https" or "." not in parts.netloc:
            raise PluginError(f"{source}: {link['target']} is not the address of a page: write https://…")
        return link.group()
    if not parts.path:
        return link.group()
    path = os.path.normpath(Path(source).parent / parts.path)
    page = _page_of(path)
    if page is None:
        if not (ROOT / path).exists():
            raise PluginError(f"{source} links to {path}, which is not there: mend the link")
        return f"{link['text']} (`{path}`)" if path not in link["text"] else f"`{path}`"
    target = os.path.relpath(page, Path(uri).parent) + (f"#{parts.fragment}" if parts.fragment else "")
    return f"{link['picture']}[{link['text']}]({target})"


def _page_of(path: str) -> str | None:
    """Return the site's file of a file of the checkout, both relative to their roots."""
    if path in NOT_IN_SITE or not path.startswith("docs/"):
        return ALSO_PAGES.get(path)
    return ALSO_PAGES.get(path, path.removeprefix("docs/"))
