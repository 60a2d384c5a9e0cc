# SPDX-License-Identifier: MIT
"""Plots as inline SVG, 360 units wide, so that a phone shows them at their size.
Colours are classes, which the page sets for its light and its dark theme."""
import math

from markup import Markup, number, tag

WIDTH = 360
LABEL = 118                     # the names of bars end here
RIGHT = 304                     # the axis ends here, figures follow
ROW = 21
SPAN_LOG = 30                   # past this ratio an axis is logarithmic


def nice(x):
    """The next of 1, 2, 5, 10… from x on."""
    power = 10 ** math.floor(math.log10(x))
    for step in (1, 2, 5):
        if x <= step * power * 1.0000001:
            return step * power
    return 10 * power


def tick_text(x):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # Sizes in bytes stay as they are: 1024.
        if abs(x) >= size and abs(x / size - round(x / size, 1)) < 1e-6:
            return "%g%s" % (round(x / size, 1), unit)
    return "%g" % round(x, 6)


class Linear:
    """From 0, or from the least where that is negative."""

    def __init__(self, low, high):
        self.log = False
        high = max(high, 0.0)
        low = min(low, 0.0)
        if high == low:
            high = low + 1
        self.step = nice((high - low) / 4)
        self.low = math.floor(low / self.step + 1e-9) * self.step
        self.high = math.ceil(high / self.step - 1e-9) * self.step

    def at(self, x):
        part = (x - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0)

    def ticks(self):
        n = round((self.high - self.low) / self.step)
        return [self.low + i * self.step for i in range(n + 1)]


class Log:
    """Whole decades; what is 0 or less lies on the left edge."""

    def __init__(self, low, high):
        self.log = True
        self.low = math.floor(math.log10(low) + 1e-9)
        self.high = max(math.ceil(math.log10(high) - 1e-9), self.low + 1)

    def at(self, x):
        if x <= 0:
            return 0.0
        part = (math.log10(x) - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0)

    def ticks(self):
        step = 1 + (self.high - self.low) // 7
        return [10.0 ** e for e in range(self.low, self.high + 1, step)]


def axis_for(values):
    """values: (median, min, max). A single slow window must not flatten all
    others: the axis ends where the medians do, and half as far again."""
    medians = [v[0] for v in values] or [0.0]
    positive = [m for m in medians if m > 0]
    least = min([v[1] for v in values] or [0.0])
    most = min(max([v[2] for v in values] or [0.0]), 1.5 * max(medians))
    most = max(most, max(medians))
    if positive and max(positive) / min(positive) > SPAN_LOG:
        low = min(v[1] if v[1] > 0 else v[0] for v in values if v[0] > 0)
        return Log(max(low, min(positive) / 10), most)
    return Linear(least if least < 0 else 0, most)


def text(x, y, content, **attributes):
    return tag("text", content, x="%.1f" % x, y="%.1f" % y, **attributes)


def hline(x1, x2, y, class_):
    return tag("line", x1="%.1f" % x1, x2="%.1f" % x2, y1="%.1f" % y,
               y2="%.1f" % y, class_=class_)


def vline(x, y1, y2, class_):
    return tag("line", x1="%.1f" % x, x2="%.1f" % x, y1="%.1f" % y1,
               y2="%.1f" % y2, class_=class_)


def picture(name, title, desc, height, body):
    return tag("svg", tag("title", title, id=name + "-t"),
               tag("desc", desc, id=name + "-d"), Markup("".join(body)),
               viewBox="0 0 %d %d" % (WIDTH, math.ceil(height)), role="img",
               aria_labelledby="%s-t %s-d" % (name, name))


def cut(name, length):
    return name if len(name) <= length else name[:length - 1] + "…"


# --- bars ---------------------------------------------------------------------

def bar(axis, y, name, family, value):
    """One row: name, bar, whiskers from min to max, the median in figures."""
    def x(v):
        return LABEL + 6 + axis.at(v) * (RIGHT - LABEL - 6)
    median, low, high = value
    middle = y + ROW / 2
    zero = x(0) if not axis.log else LABEL + 6
    left, right = sorted((zero, x(median)))
    out = [text(LABEL, middle + 4, cut(name, 19), text_anchor="end",
                class_="name " + family),
           tag("rect", x="%.1f" % left, y="%.1f" % (y + 4),
               width="%.1f" % max(right - left, 0.5), height=ROW - 8,
               class_="bar " + family)]
    if low < high:
        clipped = axis.at(high) >= 1 and x(high) - x(low) > 0 and \
            high > (10 ** axis.high if axis.log else axis.high)
        # Seen on its bar, too.
        out.append(hline(x(low), x(high), middle, "halo"))
        out.append(hline(x(low), x(high), middle, "whisker"))
        out.append(vline(x(low), middle - 3, middle + 3, "whisker"))
        if clipped:
            out.append(tag("path", class_="whisker", d="M%.1f %.1f l4 3 l-4 3" %
                           (x(high) - 3, middle - 3)))
        else:
            out.append(vline(x(high), middle - 3, middle + 3, "whisker"))
    out.append(text(WIDTH - 1, middle + 4, number(median), text_anchor="end",
                    class_="figure"))
    return out


def bars(name, title, items, axis):
    """items: (variant, family, (median, min, max) or None if it failed)."""
    top = 2
    bottom = top + ROW * len(items)
    body = []
    for tick in axis.ticks():
        x = LABEL + 6 + axis.at(tick) * (RIGHT - LABEL - 6)
        body += [vline(x, top, bottom + 3, "grid"),
                 text(x, bottom + 15, tick_text(tick), text_anchor="middle",
                      class_="tick")]
    told = []
    for i, (variant, family, value) in enumerate(items):
        y = top + i * ROW
        if value is None:
            body += [text(LABEL, y + ROW / 2 + 4, cut(variant, 19),
                          text_anchor="end", class_="name " + family),
                     text(LABEL + 10, y + ROW / 2 + 4, "failed",
                          class_="tick")]
            told.append(variant + " failed")
            continue
        body += bar(axis, y, variant, family, value)
        told.append("%s %s (%s to %s)" % (variant, number(value[0]),
                                          number(value[1]), number(value[2])))
    desc = "Horizontal bars, %s scale; median and, in brackets, least to " \
        "greatest: %s." % ("logarithmic" if axis.log else "linear",
                           ", ".join(told))
    return picture(name, title, desc, bottom + 20, body)


# --- lines --------------------------------------------------------------------

MARKS = {
    "circle": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "square": "M-3 -3h6v6h-6z",
    "up": "M0 -4l4 7h-8z",
    "diamond": "M0 -4.5l4 4.5l-4 4.5l-4 -4.5z",
    "down": "M0 4l4 -7h-8z",
    "bow": "M-3.5 -3.5v7l7 -7v7z",
    "bar": "M-4 -1.5h8v3h-8z",
}
COLOURS = 5                     # of peers; prime to the number of marks


def mark(x, y, index, own):
    """Colour and shape together tell variants apart, also without colour."""
    shape = list(MARKS.values())[index % len(MARKS)]
    return tag("path", d=shape, transform="translate(%.1f %.1f)" % (x, y),
               class_="mark " + tint(index, own))


def tint(index, own):
    return "own" if own else "c%d" % (index % COLOURS)


def curve(points, index, own):
    """One variant: its line, min to max at each point, its marks."""
    further = " further" if own and index else ""
    out = [tag("polyline", class_="curve " + tint(index, own) + further,
               points=" ".join("%.1f,%.1f" % (x, m) for x, m, _, _ in points))]
    for x, _, low, high in points:
        if abs(low - high) > 1:
            out.append(vline(x, low, high, "range " + tint(index, own)))
    out += [mark(x, m, index, own) for x, m, _, _ in points]
    return out


def legend(series, top):
    """Two columns of mark and name."""
    body = []
    for i, (variant, index, own, _) in enumerate(series):
        x = 14 if i % 2 == 0 else WIDTH / 2 + 8
        y = top + (i // 2) * 17
        body += [mark(x, y, index, own),
                 text(x + 10, y + 4, cut(variant, 24), class_="name")]
    return body


def lines(name, title, series, axis, unit):
    """series: (variant, index, own, {x: (median, min, max)})."""
    left, right, top, bottom = 38, WIDTH - 12, 8, 178
    xs = sorted({x for _, _, _, values in series for x in values})
    span = math.log(xs[-1] / xs[0]) if len(xs) > 1 and xs[0] > 0 else 0

    def at_x(x):
        if span:
            return left + 6 + math.log(x / xs[0]) / span * (right - left - 12)
        return left + 6 + xs.index(x) / max(len(xs) - 1, 1) * (right - left - 12)

    def at_y(y):
        return bottom - axis.at(y) * (bottom - top)
    body = []
    for tick in axis.ticks():
        y = at_y(tick)
        body += [hline(left, right, y, "grid"),
                 text(left - 4, y + 4, tick_text(tick), text_anchor="end",
                      class_="tick")]
    every = 1 + (len(xs) - 1) // 9
    for x in xs[::every]:
        body.append(text(at_x(x), bottom + 15, tick_text(x),
                         text_anchor="middle", class_="tick"))
    body.append(text((left + right) / 2, bottom + 30, unit,
                     text_anchor="middle", class_="tick"))
    told = []
    for variant, index, own, values in series:
        points = [(at_x(x),) + tuple(at_y(v) for v in values[x])
                  for x in sorted(values)]
        body += curve(points, index, own)
        told.append("%s %s" % (variant, ", ".join(
            "%s at %s" % (number(values[x][0]), tick_text(x))
            for x in sorted(values))))
    body += legend(series, bottom + 48)
    height = bottom + 48 + 17 * ((len(series) + 1) // 2)
    desc = "Lines, %s scale; medians: %s." % (
        "logarithmic" if axis.log else "linear", "; ".join(told))
    return picture(name, title, desc, height, body)
