#!/usr/bin/env python3
"""Checks the relative links of all HTML pages below a directory: each file and each anchor must exist.

    scripts/check-links.py DIRECTORY [SUBDIRECTORY ...]

Links on pages below the subdirectories are not checked, only links to these pages.

Exit code: 0 all links are good, 1 some are broken.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page and the links in it."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        name = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if attributes.get(name):
            self.links.append(attributes[name])


def main():
    root = Path(sys.argv[1]).resolve()
    excluded = [root / name for name in sys.argv[2:]]
    # The page of the whole book for printers has the links of all chapters, relative to their places.
    pages = {path: Page(path) for path in root.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")}
    if not pages:
        print(f"{root} has no pages", file=sys.stderr)
        return 1
    checked = {path: page for path, page in pages.items() if not any(map(path.is_relative_to, excluded))}
    broken = 0
    for path, page in sorted(checked.items()):
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            fragment = unquote(parts.fragment)
            if not target.is_file():
                reason = "the file does not exist"
            elif fragment and target in pages and fragment not in pages[target].anchors:
                reason = "the page has no such anchor"
            else:
                continue
            broken += 1
            print(f"{path.relative_to(root)}: {link}: {reason}")
    print(f"{sum(len(page.links) for page in checked.values())} links in {len(checked)} pages, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
