"""Pictures of results, by matplotlib or by plotly."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _plotly
from ._html import count, duration, layer_colour, time_ticks, told
from .distribution import Distribution, midpoints_ns
from .errors import InputError, need
from .result import DELAY_AT_LEAST, Breakdown, Series, write_whole

if TYPE_CHECKING:
    from .result import Result

Backend = Literal["matplotlib", "plotly"]

# One of matplotlib's own sets, in an order that people with a weak sense of colour tell apart.
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#333333")
DIRECTION_COLOURS = {"read": COLOURS[0], "write": COLOURS[1], "trim": COLOURS[2], "sync": COLOURS[3]}
CAUSES = (
    ("user_sectors", "users' data", "#1f77b4"),
    ("gc_sectors", "collector", "#d62728"),
    ("folded_sectors", "folded", "#ff9896"),
    ("map_sectors", "pages of the map", "#9467bd"),
    ("resubmitted_sectors", "written again", "#8c564b"),
    ("parity_sectors", "parity", "#dbdb8d"),
    ("padding_sectors", "padding", "#bdbdbd"),
    ("metadata_sectors", "metadata", "#7f7f7f"),
)
# Percentiles over time, from the lowest on.
_SHADES = ("#9ecae1", "#3182bd", "#d62728", "#7f0000", "#000000")
# Nines that an axis goes to at most.
_NINES = 6


class Picture:
    """A figure that notebooks show and that can be saved."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    @property
    def axes(self) -> list[Any]:
        """The axes of matplotlib's figure, to add to."""
        return list(self.figure.axes)

    def save(self, path: str | os.PathLike[str], dpi: int = 150) -> None:
        """Writes it as what the path ends in: png, svg or pdf. The file appears when it is complete."""
        path = os.fspath(path)
        kind = path.rsplit(".", 1)[-1].lower()
        if kind not in ("png", "svg", "pdf"):
            raise InputError(f"{path}: a picture ends in .png, .svg or .pdf")
        data = self._drawn(kind, dpi)
        write_whole(path, lambda file: file.write(data))

    def _drawn(self, kind: str, dpi: int) -> bytes:
        data = io.BytesIO()
        self.figure.savefig(data, format=kind, dpi=dpi, bbox_inches="tight")
        return data.getvalue()

    def _repr_png_(self) -> bytes | None:
        return self._drawn("png", 110)


class PlotlyPicture(Picture):
    """A figure of plotly's: values are told under the pointer. ``figure`` is plotly's own, to add to."""

    @property
    def axes(self) -> list[Any]:
        """None: they are in ``figure.layout``."""
        return []

    def save(self, path: str | os.PathLike[str], dpi: int = 150) -> None:
        """Writes it as what the path ends in: html, one file that needs no network, or json, plotly's own form. The
        file appears when it is complete."""
        path = os.fspath(path)
        kind = path.rsplit(".", 1)[-1].lower()
        if kind not in ("html", "json"):
            raise InputError(
                f"{path}: a picture of plotly's ends in .html or .json; backend='matplotlib' has png, svg and pdf"
            )
        text = self.figure.to_html(include_plotlyjs=True) if kind == "html" else self.figure.to_json()
        write_whole(path, lambda file: file.write(text.encode()))

    def _repr_png_(self) -> None:
        return None

    def _repr_mimebundle_(self, *arguments: Any, **more: Any) -> Any:
        return self.figure._repr_mimebundle_(*arguments, **more)


def _is_plotly(backend: str) -> bool:
    if backend not in ("matplotlib", "plotly"):
        raise InputError(f"backend '{backend}': use matplotlib or plotly")
    if backend == "plotly":
        _plotly.graph()
    return backend == "plotly"


def _figure(width: float, height: float) -> Any:
    figure = need("matplotlib.figure", "plot", "a picture")
    need("matplotlib.ticker", "plot", "a picture")
    return figure.Figure(figsize=(width, height), layout="constrained")  # type: ignore[attr-defined]


def _style(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)


def _latency_axis(axis: Any, low: float, high: float) -> None:
    """A log axis whose ticks are times with their units."""
    from matplotlib import ticker

    axis.set_major_formatter(ticker.FuncFormatter(lambda ns, _: duration(ns)))
    axis.set_minor_formatter(ticker.NullFormatter())
    ticks = time_ticks(low, high)
    if ticks is not None:
        axis.set_major_locator(ticker.FixedLocator(ticks))
        axis.set_minor_locator(ticker.NullLocator())
        return
    subs = (1.0,) if high / max(low, 1) > 300 else (1.0, 2.0, 5.0)
    axis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=20))
    axis.set_minor_locator(ticker.LogLocator(base=10, subs=tuple(range(1, 10)), numticks=100))


def _nines(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a share is on an axis of nines: 0.9 at 1, 0.99 at 2."""
    result: NDArray[np.float64] = -np.log10(np.maximum(1 - share, 10.0 ** -(_NINES + 1)))
    return result


def _nines_axis(axis: Any, most: float) -> None:
    from matplotlib import ticker

    places = [0.0, math.log10(2), *range(1, math.ceil(most) + 1)]
    names = {0: "0 %", 1: "90 %", 2: "99 %"}

    def name(place: float, _: int) -> str:
        if 0 < place < 1:
            return "50 %"
        n = round(place)
        return names.get(n, f"99.{'9' * (n - 2)} %")

    axis.set_major_locator(ticker.FixedLocator(places))
    axis.set_major_formatter(ticker.FuncFormatter(name))


def _legend(axes: Any, title: str | None = None) -> None:
    """To the right of the data."""
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        borderaxespad=0.0,
        title=title,
        alignment="left",
    )


def _counts_axis(axis: Any) -> None:
    from matplotlib import ticker

    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: count(value)))


def _lines(curves: Sequence[tuple[str, Distribution, str]]) -> tuple[list[_plotly.Curve], float, float]:
    """Latencies and the nines that are no slower, and the latencies that an axis has to show."""
    lines: list[_plotly.Curve] = []
    low, high = math.inf, 1.0
    for name, of, colour in curves:
        latency, share = of.cdf()
        # The last I/O is at one nine more than those before it would say, and not at infinity.
        last = 1 - 0.5 / of.count
        nines = np.minimum(_nines(np.minimum(share, last)), _NINES)
        x = np.concatenate([[latency[0]], latency]).astype(float)
        lines.append((name, x, np.concatenate([[0.0], nines]), colour))
        # A few that are fast do not make room for themselves.
        low, high = min(low, float(of.percentile_ns(0.5))), max(high, float(x[-1]))
    return lines, low, high


def _draw_cdf(axes: Any, lines: Sequence[_plotly.Curve], low: float, high: float) -> None:
    most = 1.0
    for name, x, nines, colour in lines:
        axes.plot(x, nines, label=name, color=colour, linewidth=1.6)
        most = max(most, float(nines[-1]))
    axes.set_xscale("log")
    _latency_axis(axes.xaxis, low, high)
    axes.set_xlim(low / 1.3, high * 1.15)
    _nines_axis(axes.yaxis, min(most, _NINES))
    axes.set_ylim(0, most * 1.03)
    axes.set_xlabel("latency, from the application's call to its return")
    axes.set_ylabel("I/Os that are no slower")
    _style(axes)


def _not_kept(what: str) -> str:
    return f"the latencies of {what} were not kept: run without disable_lat and gtod_reduce"


class _Bar:
    """A row of a breakdown, under a name."""

    def __init__(self, name: str, parts: Breakdown, row: int) -> None:
        self.name, self.latency = name, float(parts.latency_ns[row])
        share = 100 / self.latency if self.latency else 0.0
        self.layers = dict(zip(parts.layers, parts.by_layer_ns[row] * share))
        self.delays = dict(zip(parts.delays, parts.by_delay_ns[row] * share))


def _parts(bars: Sequence[_Bar]) -> list[_plotly.Parts]:
    """The share of each layer in each bar, in per cent; those that nobody would see together. What was in the way in a
    layer is a part of its own in a lighter colour, behind the rest of the layer."""
    parts: list[_plotly.Parts] = []
    other = np.zeros(len(bars))
    for layer in dict.fromkeys(layer for bar in bars for layer in bar.layers):
        shares = np.array([bar.layers.get(layer, 0.0) for bar in bars])
        if shares.max(initial=0) < 0.5:
            other += shares
            continue
        known = dict.fromkeys(delay for bar in bars for delay in bar.delays if delay[0] == layer)
        split = [(delay[1], np.array([bar.delays.get(delay, 0.0) for bar in bars])) for delay in known]
        split = [(why, of) for why, of in split if of.max() >= DELAY_AT_LEAST]
        left = shares - sum((of for _, of in split), np.zeros(len(bars)))
        # Of rounding, or of a layer that is nothing else.
        if left.max(initial=0) >= 0.1:
            name = f"{layer}: the rest" if split else layer
            parts.append((name, layer_colour(layer), np.maximum(left, 0)))
        for i, (why, of) in enumerate(split):
            parts.append((f"{layer}: {why}", _lighter(layer_colour(layer), (i + 1) / (len(split) + 1)), of))
    if other.max(initial=0) >= 0.1:
        parts.append(("others", "#f0e0d0", other))
    return parts


def _lighter(colour: str, by: float) -> str:
    """A colour on its way to a white that bars on a white page still show."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * 0.8 * by):02x}" for part in parts)


def _draw_parts(axes: Any, bars: Sequence[_Bar], parts: Sequence[_plotly.Parts]) -> None:
    """Bars of equal length, cut by share; each named, with its latency behind it."""
    places = np.arange(len(bars))[::-1]
    left = np.zeros(len(bars))
    for layer, colour, shares in parts:
        axes.barh(
            places, shares, left=left, height=0.72, color=colour, label=layer, edgecolor="white", linewidth=0.4
        )
        left += shares
    axes.set_yticks(places, [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    for place, bar in zip(places, bars):
        axes.text(101, place, duration(bar.latency), va="center", ha="left", fontsize=9)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the latency (%)")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _bars(parts: Breakdown, prefix: str) -> list[_Bar]:
    return [_Bar(f"{prefix}{name}", parts, row) for row, name in enumerate(parts.rows)]


class Plots:
    """Pictures of a result, each by matplotlib, or with ``backend="plotly"`` by plotly."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def _some(self, direction: str | None) -> list[str]:
        """The directions to draw: those that had I/Os."""
        if direction is not None:
            if not self._had(direction):
                raise InputError(f"direction: the run has no {direction}s")
            return [direction]
        names = [one.name for one in self._result.directions]
        if not names:
            raise InputError("the run has no I/O: there is nothing to draw")
        return names

    def _had(self, name: str) -> bool:
        if self._result._main(name) == "sync":
            return self._result.sync is not None
        return self._result.direction(name) is not None

    def _kept(self, direction: str | None) -> list[str]:
        """Of these the ones with latencies."""
        names = self._some(direction)
        kept = [name for name in names if self._result.latency(name) is not None]
        if not kept:
            raise InputError(_not_kept(f"{names[0]}s"))
        return kept

    def cdf(
        self, direction: str | None = None, by: str = "direction", *, backend: Backend = "matplotlib"
    ) -> Picture:
        """Latency by share of I/Os, the tail in nines; a curve for each direction, or ``by="job"`` for each job."""
        curves = []
        if by == "direction":
            for name in self._kept(direction):
                of = self._result.latency(name)
                assert of is not None
                curves.append((name, of, DIRECTION_COLOURS[name]))
        elif by == "job":
            for job in dict.fromkeys(thread.name for thread in self._result.threads):
                for name in self._kept(direction):
                    of = self._result.latency(name, job)
                    if of is not None:
                        colour = COLOURS[len(curves) % len(COLOURS)]
                        curves.append((f"{job}, {name}", of, colour))
        else:
            raise InputError(f"by '{by}': use direction or job")
        lines, low, high = _lines(curves)
        if _is_plotly(backend):
            return PlotlyPicture(_plotly.cdf(self._result.label, lines, low, high))
        figure = _figure(7.5, 4.4)
        axes = figure.subplots()
        _draw_cdf(axes, lines, low, high)
        _legend(axes)
        axes.set_title(self._result.label, loc="left", fontsize=10)
        return Picture(figure)

    def breakdown(self, direction: str | None = None, *, backend: Backend = "matplotlib") -> Picture:
        """Where the time went, by layer: at the mean, and of the I/Os at percentiles. What was in the way in a layer has a
        lighter colour of its own where it is 5 % of a bar or more."""
        bars: list[_Bar] = []
        names = self._some(direction)
        for name in names:
            parts = self._result.breakdown(name)
            bars += _bars(parts, f"{name}, " if len(names) > 1 else "")
        what = "where the time went" if len(names) > 1 else f"where the time of {names[0]}s went"
        title, cut = f"{self._result.label}: {what}", _parts(bars)
        if _is_plotly(backend):
            rows, latencies = [bar.name for bar in bars], [bar.latency for bar in bars]
            return PlotlyPicture(_plotly.breakdown(title, rows, latencies, cut))
        figure = _figure(8.0, 1.2 + 0.34 * len(bars))
        axes = figure.subplots()
        _draw_parts(axes, bars, cut)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.13, 1.0), frameon=False, borderaxespad=0.0, fontsize=9
        )
        axes.set_title(title, loc="left", fontsize=10)
        return Picture(figure)

    def over_time(
        self, percents: tuple[float, ...] = (50, 99, 99.9), *, backend: Backend = "matplotlib"
    ) -> Picture:
        """I/Os a second, percentiles of latency, and what was programmed and why. A last interval that is too short to
        have a rate is left out, and so is a percentile where less than one I/O of the interval lies beyond."""
        names = self._some(None)
        programs = _whole(self._result.series("programs"))
        panels = 1 + len(names) + (1 if programs.rows else 0)
        series = {name: _whole(self._result.series(name, percents)) for name in names}
        if _is_plotly(backend):
            return PlotlyPicture(self._over_time_by_plotly(series, programs, percents, panels))
        figure = _figure(8.5, 1.0 + 1.75 * panels)
        grid = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
        for name in names:
            one = series[name]
            grid[0].stairs(one["iops"], _edges(one), label=f"{name}s", color=DIRECTION_COLOURS[name])
        grid[0].set_ylabel("I/Os a second")
        grid[0].set_ylim(bottom=0)
        _counts_axis(grid[0].yaxis)
        for axes, name in zip(grid[1:], names):
            one = series[name]
            values: list[float] = []
            for percent, colour in zip(percents, _SHADES):
                column = one[f"p{percent:g}_ns".replace(".", "_")]
                if np.isnan(column).all():
                    continue
                axes.stairs(column, _edges(one), label=f"{percent:g} %", color=colour, baseline=None)
                values += [float(v) for v in column[~np.isnan(column)]]
            if values:
                axes.set_yscale("log")
                _latency_axis(axes.yaxis, min(values), max(values))
                axes.set_ylim(min(values) / 1.1, max(values) * 1.1)
            else:
                axes.set_yticks([])
                axes.text(0.5, 0.5, f"too few {name}s in each interval", transform=axes.transAxes, ha="center")
            axes.set_ylabel(f"{name} latency")
        if programs.rows:
            axes = grid[-1]
            edges, rates = _programmed(programs, self._bytes_a_sector())
            base = np.zeros(programs.rows)
            for rate, cause, colour in rates:
                axes.stairs(base + rate, edges, baseline=base, fill=True, color=colour, label=cause)
                base = base + rate
            axes.set_ylabel(self._programmed_label())
            axes.set_ylim(bottom=0)
            if not base.any():
                axes.text(0.5, 0.5, "nothing was programmed", transform=axes.transAxes, ha="center")
        for axes in grid:
            _style(axes)
            if axes.get_legend_handles_labels()[0]:
                _legend(axes)
        grid[-1].set_xlabel("simulated time (s)")
        grid[-1].set_xlim(0, self._result.simulated_ns / 1e9)
        figure.align_ylabels(list(grid))
        grid[0].set_title(self._result.label, loc="left", fontsize=10)
        return Picture(figure)

    def _bytes_a_sector(self) -> float:
        """Of drives with several sizes of sector it is their mean."""
        of = self._result.machine["write_amplification"]
        sectors = sum(n for cause, n in of.items() if cause.endswith("_sectors"))
        return float(of["flash_bytes"]) / sectors if sectors else 0.0

    def _programmed_label(self) -> str:
        parity = self._result.machine["write_amplification"]["parity_sectors"]
        return "programmed,\nparity apart, MB/s" if parity else "programmed, MB/s"

    def _over_time_by_plotly(
        self, series: dict[str, Any], programs: Any, percents: tuple[float, ...], panels: int
    ) -> Any:
        picture = _plotly.OverTime(self._result.label, panels, self._result.simulated_ns / 1e9)
        for row, (name, one) in enumerate(series.items(), 2):
            edges = _edges(one)
            picture.stairs(
                1, edges, one["iops"], f"{name}s", DIRECTION_COLOURS[name], lambda v: f"{count(v)} a second"
            )
            values: list[float] = []
            for percent, colour in zip(percents, _SHADES):
                column = one[f"p{percent:g}_ns".replace(".", "_")]
                if np.isnan(column).all():
                    continue
                picture.stairs(row, edges, column, f"{name}s, {percent:g} %", colour, duration)
                values += [float(v) for v in column[~np.isnan(column)]]
            picture.axis(row, f"{name} latency", (min(values), max(values)) if values else None)
        picture.axis(1, "I/Os a second")
        if programs.rows:
            edges, rates = _programmed(programs, self._bytes_a_sector())
            for rate, cause, colour in rates:
                picture.stairs(panels, edges, rate, cause, colour, lambda v: f"{v:.3g} MB/s", stacked=True)
            picture.axis(panels, self._programmed_label().replace("\n", " "))
        return picture.figure

    def heatmap(self, direction: str | None = None, *, backend: Backend = "matplotlib") -> Picture:
        """Latency over time: how many I/Os of each latency in each interval."""
        plotly = _is_plotly(backend)
        name = self._some(direction)[0]
        matrix, step = self._result.latency_counts(name), self._result.interval_ns
        centres = midpoints_ns()
        there = np.flatnonzero(matrix.sum(axis=0))
        low, high = float(centres[there[0]]), float(centres[there[-1]])
        # As fine as a picture can show: a latency's bucket is in the cell that its midpoint is in.
        low, high = low / 1.05, high * 1.05
        cells = np.geomspace(max(low, 1), high, 61)
        place = np.clip(np.searchsorted(cells, centres[there], side="right") - 1, 0, 59)
        drawn = np.zeros((len(matrix), 60))
        np.add.at(drawn.T, place, matrix[:, there].T.astype(float))
        edges = np.minimum(np.arange(len(matrix) + 1) * step, self._result.simulated_ns) / 1e9
        what = f"{name}s in {duration(step)}, by latency"
        if plotly:
            return PlotlyPicture(_plotly.heatmap(self._result.label, what, edges, cells, drawn.T))
        figure = _figure(8.5, 4.4)
        from matplotlib import colors

        axes = figure.subplots()
        shown = np.ma.masked_equal(drawn.T, 0)
        norm = colors.LogNorm(vmin=1, vmax=max(float(drawn.max()), 2))
        mesh = axes.pcolormesh(edges, cells, shown, norm=norm, cmap="viridis", rasterized=True)
        axes.set_yscale("log")
        _latency_axis(axes.yaxis, low, high)
        bar = figure.colorbar(mesh, ax=axes, pad=0.02)
        bar.set_label(what)
        _counts_axis(bar.ax.yaxis)
        bar.ax.minorticks_off()
        axes.set_xlabel("simulated time (s)")
        axes.set_ylabel(f"{name} latency")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(self._result.label, loc="left", fontsize=10)
        return Picture(figure)

    def compare(
        self,
        *others: Result,
        labels: Sequence[str] | None = None,
        direction: str | None = None,
        at: str = "p99",
        backend: Backend = "matplotlib",
    ) -> Picture:
        """This result beside others: latencies by share of I/Os, and where the time went at a percentile."""
        results = [self._result, *others]
        if labels is not None and len(labels) != len(results):
            raise InputError(f"labels: {len(labels)} for {len(results)} results: give one for each")
        names = list(labels or _labels(results))
        name = self._kept(direction)[0]
        curves, bars = [], []
        for i, (label, result) in enumerate(zip(names, results)):
            of = result.latency(name)
            if of is None:
                had = Plots(result)._had(name)
                raise InputError(_not_kept(f"{name}s of {label}") if had else f"direction: {label} has no {name}s")
            curves.append((label, of, COLOURS[i % len(COLOURS)]))
            parts = result.breakdown(name)
            if at not in parts.rows:
                raise InputError(f"at '{at}': use {', '.join(parts.rows)}")
            bars.append(_Bar(label, parts, parts.rows.index(at)))
        lines, low, high = _lines(curves)
        cut = _parts(bars)
        titles = (f"{name}s", f"where the time went, {at}")
        if _is_plotly(backend):
            return PlotlyPicture(_plotly.compare(titles, lines, low, high, [bar.latency for bar in bars], cut))
        figure = _figure(8.5, 5.2 + 0.34 * len(results))
        top, bottom = figure.subplots(2, 1, height_ratios=[3.4, 0.6 + 0.34 * len(results)])
        _draw_cdf(top, lines, low, high)
        _legend(top)
        top.set_title(titles[0], loc="left", fontsize=10)
        _draw_parts(bottom, bars, cut)
        bottom.legend(
            loc="upper left", bbox_to_anchor=(1.13, 1.25), frameon=False, borderaxespad=0.0, fontsize=9
        )
        bottom.set_title(titles[1], loc="left", fontsize=10)
        return Picture(figure)


def _labels(results: Sequence[Result]) -> list[str]:
    """What the runs differ in; their numbers where that says nothing."""
    keys = ("device", "ftl", "stack", "precondition", "scale", "workload", "seed")
    abouts = [result.provenance for result in results]
    differing = [key for key in keys if len({str(about.get(key)) for about in abouts}) > 1]

    said = [str(about.get("workload")).split() for about in abouts]
    shared = set(said[0]).intersection(*said)
    # A few options that differ tell more than the names of jobs.
    own = {id(result): [w.lstrip("-") for w in words if w not in shared] for result, words in zip(results, said)}
    few = all(0 < len(words) <= 3 for words in own.values())

    def word(key: str, result: Result) -> str:
        if key != "workload":
            return str(result.provenance.get(key))
        if few:
            return " ".join(own[id(result)])
        # Jobs may be given in any number of words, or as text.
        return ", ".join(dict.fromkeys(thread.name for thread in result.threads)) or str(result.provenance[key])

    names = [", ".join(word(key, result) for key in differing) for result in results]
    sets = [set(about["overrides"]) for about in abouts]
    common = set.intersection(*sets)
    names = [
        ", ".join(filter(None, [name, *sorted(own - common)])) for name, own in zip(names, sets)
    ]
    # Where one has nothing set that others have, it is what they are compared with.
    names = [_short(name) or ("nothing set" if any(names) else "run") for name in names]
    if len(set(names)) < len(names):
        names = [f"{name} ({i + 1})" for i, name in enumerate(names)]
    return names


def _short(name: str, most: int = 32) -> str:
    """A name that leaves room for a picture: its ends tell more than its middle."""
    return name if len(name) <= most else f"{name[: most // 2]} … {name[-most // 2 + 3 :]}"


def _whole(series: Series) -> Series:
    """Without a last interval that is too short to have a rate: less than a quarter of the first."""
    ends = series["end_s"]
    if len(ends) > 4 and ends[-1] - ends[-2] < ends[0] / 4:
        return Series({name: values[:-1] for name, values in series.items()})
    return series


def _edges(series: Any) -> NDArray[np.float64]:
    edges: NDArray[np.float64] = np.concatenate([series["begin_s"][:1], series["end_s"]])
    return edges


def _programmed(
    programs: Any, sector_bytes: float
) -> tuple[NDArray[np.float64], list[tuple[NDArray[np.float64], str, str]]]:
    """Intervals, and what was programmed in them for each cause, in MB/s."""
    edges: NDArray[np.float64] = np.concatenate([[0.0], programs["end_s"]])
    width = np.maximum(np.diff(edges), 1e-12)
    rates = [(programs[key] * sector_bytes / 1e6 / width, cause, colour) for key, cause, colour in CAUSES]
    return edges, [one for one in rates if one[0].any()]


def _spoken(name: str) -> str:
    """A column's name as an axis says it, with its unit where the ticks have none."""
    found = re.fullmatch(r"(read|write|trim)_(mean|max|p\d+(?:_\d+)?)_ns", name)
    if found is not None:
        at = found[2].replace("_", ".")
        return f"{found[1]} latency, {at[1:] + ' %' if at.startswith('p') else at}"
    found = re.fullmatch(r"(read|write|trim)_(iops|bytes_per_s)", name)
    if found is not None:
        return f"{found[1]}s a second" if found[2] == "iops" else f"bytes {found[1]} a second"
    return name if "." in name else name.removesuffix("_ns").replace("_", " ")


def front_picture(tuned: Any, backend: Backend = "matplotlib") -> Picture:
    """The points of a search, and those that no other beats."""
    objectives, binding = tuned.objectives, tuned.binding
    if len(objectives) > 1:
        names = [objectives[0].name, objectives[1].name]
    elif binding is not None:
        names = [objectives[0].name, binding.name]
    else:
        raise InputError("a front is between two numbers: give a constraint or a second objective")
    if not tuned.rows:
        raise InputError("no point came to an end: there is nothing to draw")
    # By a bound's name, the axis that it is a line across.
    bounds = [(names.index(c.name), c) for c in tuned.constraints if c.name in names]
    if _is_plotly(backend):
        return PlotlyPicture(_front_by_plotly(tuned, names, bounds))
    figure = _figure(7.5, 4.4)
    axes = figure.subplots()

    def draw(rows: Sequence[Any], label: str, **style: Any) -> None:
        if rows:
            axes.plot([row[names[0]] for row in rows], [row[names[1]] for row in rows], label=label, **style)

    for label, rows, colour in _groups(tuned):
        draw(rows, label, ls="", marker="o", ms=5, color=colour)
    draw(tuned.front, "front", color=COLOURS[1], linewidth=1.2, drawstyle="steps-post")
    if tuned.best_row is not None:
        draw([tuned.best_row], "answer", ls="", marker="*", ms=14, color=COLOURS[1])
    for which, constraint in bounds:
        line = (axes.axvline, axes.axhline)[which]
        line(constraint.bound, color="#333333", linewidth=0.8, ls="--", label=constraint.text)
    for which, (axis, scale, label) in enumerate(
        ((axes.xaxis, axes.set_xscale, axes.set_xlabel), (axes.yaxis, axes.set_yscale, axes.set_ylabel))
    ):
        name = names[which]
        values = [row[name] for row in tuned.rows] + [c.bound for at, c in bounds if at == which]
        if name.endswith("_ns"):
            scale("log")
            _latency_axis(axis, min(values), max(values))
        elif max(values) >= 1e4:
            _counts_axis(axis)
        label(_spoken(name))
    _style(axes)
    _legend(axes)
    return Picture(figure)


def _groups(tuned: Any) -> list[tuple[str, list[Any], str]]:
    """The points of a search by what became of them."""
    kept = [row for row in tuned.rows if tuned.keeps(row)]
    groups = [
        ("misses a constraint", [row for row in tuned.rows if not tuned.keeps(row)], "#c4c4c4"),
        ("misses under other seeds", [row for row in kept if tuned.rejected(row)], "#8a8a8a"),
        ("keeps all" if tuned.constraints else "tried", [row for row in kept if not tuned.rejected(row)], COLOURS[0]),
    ]
    return [group for group in groups if group[1]]


def _front_by_plotly(tuned: Any, names: Sequence[str], bounds: Sequence[tuple[int, Any]]) -> Any:
    def said(row: Any) -> str:
        lines = [f"{_spoken(name)}: {told(name, row[name])}" for name in names]
        lines += [f"{name}: {told(name, row[name])}" for name in tuned.names if name not in names]
        return "<br>".join(lines)

    def group(name: str, rows: Sequence[Any], **style: Any) -> Any:
        x, y = (np.array([row[column] for row in rows], dtype=float) for column in names)
        return name, x, y, [said(row) for row in rows], style

    groups = [group(name, rows, mode="markers", marker={"color": colour}) for name, rows, colour in _groups(tuned)]
    if tuned.front:
        groups.append(group("front", tuned.front, mode="lines", line={"color": COLOURS[1], "shape": "hv"}))
    if tuned.best_row is not None:
        star = {"color": COLOURS[1], "symbol": "star", "size": 14}
        groups.append(group("answer", [tuned.best_row], mode="markers", marker=star))
    lines = [(which, constraint.bound, constraint.text) for which, constraint in bounds]
    times = (names[0].endswith("_ns"), names[1].endswith("_ns"))
    return _plotly.front((_spoken(names[0]), _spoken(names[1])), times, groups, lines)
