"""Pages of the site that lie outside `docs/`; their links work on the site and in a clone."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]

# Path in the repository: path in the site. What is in docs/ keeps its path.
PAGES = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "assets/README.md": "shipped_data.md",
}

# The target of a link to another file, without its anchor.
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    uri = page.file.src_uri
    path = next((path for path, other in PAGES.items() if other == uri), f"docs/{uri}")

    def rewrite(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        return posixpath.relpath(find_page(target), posixpath.dirname(uri) or ".")

    return LINK.sub(rewrite, markdown)


def find_page(path: str) -> str:
    """Find what the site has in place of a file of the repository."""
    package, is_init, _ = path.partition("/__init__.pyi")
    if is_init:  # where a package lists its public names
        return f"reference/{package.replace('/', '.')}.md"
    return PAGES.get(path, path.removeprefix("docs/"))
