# SPDX-License-Identifier: MIT
"""HTML and SVG text. Whatever is not Markup already is escaped on its way in, so
that no name or error message of a JSON line can become a tag."""
import html

VOID = {"meta", "line", "rect", "circle", "path", "polyline"}


class Markup(str):
    """Text that is HTML already."""


def markup(child):
    if isinstance(child, Markup):
        return child
    if isinstance(child, (list, tuple)):
        return Markup("".join(markup(c) for c in child))
    return Markup(html.escape(str(child), quote=True))


def tag(name, /, *children, **attributes):
    """An element. An attribute's name may end in _ (class_), an inner _ is a -;
    one whose value is None is left out."""
    text = "<" + name
    for key, value in attributes.items():
        if value is None:
            continue
        key = key.rstrip("_").replace("_", "-")
        text += ' %s="%s"' % (key, html.escape(str(value), quote=True))
    if name in VOID and not children:
        return Markup(text + ("/>" if name != "meta" else ">"))
    return Markup(text + ">" + markup(children) + "</%s>" % name)


def number(x):
    """Digits that mean something, and never an exponent."""
    size = abs(x)
    if x == 0:
        return "0"
    if size >= 1000:
        return format(x, ",.0f")
    return format(x, ".1f" if size >= 100 else ".2f" if size >= 1 else ".3f")
