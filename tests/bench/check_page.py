# SPDX-License-Identifier: MIT
"""check_page.py PAGE: is it well formed, alone in the world, and accessible?
Prints what a reader sees, a row of a table or another text a line, cells parted
by |. Exit status 1 after complaints on stderr."""
import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "hr", "link", "input"}
ROWS = {"tr", "p", "dt", "dd", "h1", "h2", "caption", "title", "desc",
        "figcaption", "summary"}
CELLS = {"td", "th"}
FETCH = {"script", "link", "img", "iframe", "object", "embed", "base", "image",
         "use", "foreignobject", "video", "audio", "source"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.wrong = []
        self.ids = []
        self.refs = []
        self.tables = []        # has a caption, for each open table
        self.pictures = []
        self.text = []
        self.seen = set()

    def complain(self, what):
        self.wrong.append("line %d: %s" % (self.getpos()[0], what))

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        attributes = dict(attrs)
        if len(attributes) != len(attrs):
            self.complain("<%s> has an attribute twice" % tag)
        self.attributes(tag, attributes)
        if tag in VOID:
            return
        if tag == "table":
            self.tables.append(False)
        elif tag == "caption":
            self.tables[-1] = True
        elif tag == "svg":
            self.pictures.append(set())
        elif tag in ("title", "desc") and "svg" in self.open:
            self.pictures[-1].add(tag)
        if tag in ROWS:
            self.text.append("")
        if tag in CELLS and self.text[-1]:
            self.text[-1] += "|"
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def attributes(self, tag, attributes):
        if tag in FETCH or any(k.startswith("on") or k in ("src", "srcset")
                               for k in attributes):
            self.complain("<%s> could fetch or run something" % tag)
        if "id" in attributes:
            if attributes["id"] in self.ids:
                self.complain("id %s twice" % attributes["id"])
            self.ids.append(attributes["id"])
        if "href" in attributes:
            if not attributes["href"].startswith("#"):
                self.complain("a link out: %s" % attributes["href"])
            self.refs.append(attributes["href"][1:])
        self.refs += attributes.get("aria-labelledby", "").split()
        if tag == "th" and "scope" not in attributes:
            self.complain("a heading without scope")
        if tag == "svg" and (attributes.get("role") != "img" or
                             "aria-labelledby" not in attributes):
            self.complain("a plot that is no labelled picture")

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.complain("</%s> closes <%s>" % (
                tag, self.open[-1] if self.open else "nothing"))
            return
        self.open.pop()
        if tag == "table" and not self.tables.pop():
            self.complain("a table without a caption")
        if tag == "svg" and self.pictures.pop() != {"title", "desc"}:
            self.complain("a plot without title or description")

    def handle_data(self, data):
        if "style" in self.open:
            return
        if ROWS.intersection(self.open):
            self.text[-1] += data

    def unknown_decl(self, data):
        self.complain("a declaration: %s" % data)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    page = Page()
    page.feed(source)
    page.close()
    for tag in page.open:
        page.wrong.append("<%s> is never closed" % tag)
    for ref in page.refs:
        if ref not in page.ids:
            page.wrong.append("nothing has the id %s" % ref)
    for text in ("://", "url(", "@import"):
        if text in source:
            page.wrong.append("the page has %s" % text)
    for tag in ("html", "style", "table", "svg", "title"):
        if tag not in page.seen:
            page.wrong.append("there is no <%s>" % tag)
    sys.stdout.write("\n".join(page.text) + "\n")
    sys.stderr.write("".join(w + "\n" for w in page.wrong))
    sys.exit(1 if page.wrong else 0)


main()
