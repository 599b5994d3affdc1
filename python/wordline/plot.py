"""Pictures of results, by matplotlib."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._html import duration, layer_colour
from .distribution import Distribution, midpoints_ns
from .errors import InputError, need
from .result import Breakdown, write_whole

if TYPE_CHECKING:
    from .result import Result

# One of matplotlib's own sets, in an order that people with a weak sense of colour tell apart.
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#333333")
DIRECTION_COLOURS = {"read": COLOURS[0], "write": COLOURS[1], "trim": COLOURS[2]}
CAUSES = (
    ("user_sectors", "users' data", "#1f77b4"),
    ("gc_sectors", "collector", "#d62728"),
    ("padding_sectors", "padding", "#bdbdbd"),
    ("metadata_sectors", "metadata", "#7f7f7f"),
)
# Nines that an axis goes to at most.
_NINES = 6


class Picture:
    """A figure that notebooks show and that can be saved."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    @property
    def axes(self) -> list[Any]:
        """The figure's axes, to add to."""
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

    def _repr_png_(self) -> bytes:
        return self._drawn("png", 110)


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

    subs = (1.0,) if high / max(low, 1) > 300 else (1.0, 2.0, 5.0)
    axis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=20))
    axis.set_minor_locator(ticker.LogLocator(base=10, subs=tuple(range(1, 10)), numticks=100))
    axis.set_major_formatter(ticker.FuncFormatter(lambda ns, _: duration(ns)))
    axis.set_minor_formatter(ticker.NullFormatter())


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


def _count(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _counts_axis(axis: Any) -> None:
    from matplotlib import ticker

    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _count(value)))


def _draw_cdf(axes: Any, curves: Sequence[tuple[str, Distribution, str]]) -> None:
    most, low, high = 1.0, math.inf, 1.0
    for name, of, colour in curves:
        latency, share = of.cdf()
        # The last I/O is at one nine more than those before it would say, and not at infinity.
        last = 1 - 0.5 / of.count
        nines = np.minimum(_nines(np.minimum(share, last)), _NINES)
        x = np.concatenate([[latency[0]], latency]).astype(float)
        axes.plot(x, np.concatenate([[0.0], nines]), label=name, color=colour, linewidth=1.6)
        most = max(most, float(nines[-1]))
        # A few that are fast do not make room for themselves.
        low, high = min(low, float(of.percentile_ns(0.5))), max(high, float(x[-1]))
    axes.set_xscale("log")
    _latency_axis(axes.xaxis, low, high)
    axes.set_xlim(low / 1.3, high * 1.15)
    _nines_axis(axes.yaxis, min(most, _NINES))
    axes.set_ylim(0, most * 1.03)
    axes.set_xlabel("latency, from the application's call to its return")
    axes.set_ylabel("I/Os that are no slower")
    _style(axes)


def _draw_parts(axes: Any, bars: Sequence[tuple[str, float, NDArray[np.float64]]], layers: Sequence[str]) -> None:
    """Bars of equal length, cut by share; each named, with its latency behind it."""
    places = np.arange(len(bars))[::-1]
    left, other = np.zeros(len(bars)), np.zeros(len(bars))
    for i, layer in enumerate(layers):
        shares = np.array(
            [100 * split[i] / latency if latency else 0 for _, latency, split in bars]
        )
        if shares.max(initial=0) < 0.5:
            other += shares
            continue
        axes.barh(places, shares, left=left, height=0.72, color=layer_colour(layer), label=layer)
        left += shares
    if other.max(initial=0) >= 0.1:
        axes.barh(places, other, left=left, height=0.72, color="#f0e0d0", label="others")
    axes.set_yticks(places, [name for name, _, _ in bars])
    axes.tick_params(axis="y", length=0)
    for place, (_, latency, _) in zip(places, bars):
        axes.text(101, place, duration(latency), va="center", ha="left", fontsize=9)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the latency (%)")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _bars(parts: Breakdown, prefix: str) -> list[tuple[str, float, NDArray[np.float64]]]:
    rows = zip(parts.rows, parts.latency_ns, parts.by_layer_ns)
    return [(f"{prefix}{row}", float(latency), split) for row, latency, split in rows]


class Plots:
    """Pictures of a result. Each returns a :class:`Picture`."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def _some(self, direction: str | None) -> list[str]:
        if direction is not None:
            if self._result.direction(direction) is None:
                raise InputError(f"direction: the run has no {direction}s")
            return [direction]
        names = [one.name for one in self._result.directions]
        if not names:
            raise InputError("the run has no I/O: there is nothing to draw")
        return names

    def cdf(self, direction: str | None = None, by: str = "direction") -> Picture:
        """Latency by share of I/Os, the tail in nines; a curve for each direction, or ``by="job"`` for each job."""
        curves = []
        if by == "direction":
            for name in self._some(direction):
                of = self._result.direction(name)
                assert of is not None
                curves.append((name, of.latency, DIRECTION_COLOURS[name]))
        elif by == "job":
            for job in dict.fromkeys(thread.name for thread in self._result.threads):
                for name in self._some(direction):
                    of = self._result.direction(name, job)
                    if of is not None:
                        colour = COLOURS[len(curves) % len(COLOURS)]
                        curves.append((f"{job}, {name}", of.latency, colour))
        else:
            raise InputError(f"by '{by}': use direction or job")
        figure = _figure(7.5, 4.4)
        axes = figure.subplots()
        _draw_cdf(axes, curves)
        _legend(axes)
        axes.set_title(self._result.label, loc="left", fontsize=10)
        return Picture(figure)

    def breakdown(self, direction: str | None = None) -> Picture:
        """Where the time went, by layer: at the mean, and of the I/Os at percentiles."""
        bars: list[tuple[str, float, NDArray[np.float64]]] = []
        layers: tuple[str, ...] = ()
        names = self._some(direction)
        for name in names:
            parts = self._result.breakdown(name)
            layers = parts.layers
            bars += _bars(parts, f"{name}, " if len(names) > 1 else "")
        figure = _figure(8.0, 1.2 + 0.34 * len(bars))
        axes = figure.subplots()
        _draw_parts(axes, bars, layers)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.13, 1.0), frameon=False, borderaxespad=0.0, fontsize=9
        )
        what = "where the time went" if len(names) > 1 else f"where the time of {names[0]}s went"
        axes.set_title(f"{self._result.label}: {what}", loc="left", fontsize=10)
        return Picture(figure)

    def over_time(self, percents: tuple[float, ...] = (50, 99, 99.9)) -> Picture:
        """I/Os a second, percentiles of latency, and what was programmed and why."""
        names = self._some(None)
        programs = self._result.series("programs")
        panels = 1 + len(names) + (1 if programs.rows else 0)
        figure = _figure(8.5, 1.0 + 1.75 * panels)
        grid = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
        series = {name: self._result.series(name, percents) for name in names}
        for name in names:
            one = series[name]
            grid[0].stairs(one["iops"], _edges(one), label=f"{name}s", color=DIRECTION_COLOURS[name])
        grid[0].set_ylabel("I/Os a second")
        grid[0].set_ylim(bottom=0)
        _counts_axis(grid[0].yaxis)
        shades = ("#9ecae1", "#3182bd", "#d62728", "#7f0000", "#000000")
        for axes, name in zip(grid[1:], names):
            one = series[name]
            values: list[float] = []
            for percent, colour in zip(percents, shades):
                column = one[f"p{percent:g}_ns".replace(".", "_")]
                axes.stairs(column, _edges(one), label=f"{percent:g} %", color=colour, baseline=None)
                values += [float(v) for v in column[~np.isnan(column)]]
            axes.set_yscale("log")
            _latency_axis(axes.yaxis, min(values), max(values))
            axes.set_ylabel(f"{name} latency")
        if programs.rows:
            axes = grid[-1]
            edges = np.concatenate([[0.0], programs["end_s"]])
            width = np.maximum(np.diff(edges), 1e-12)
            base = np.zeros(programs.rows)
            for key, cause, colour in CAUSES:
                rate = programs[key] * 4096 / 1e6 / width
                if rate.any():
                    axes.stairs(base + rate, edges, baseline=base, fill=True, color=colour, label=cause)
                    base = base + rate
            axes.set_ylabel("programmed, MB/s")
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

    def heatmap(self, direction: str | None = None) -> Picture:
        """Latency over time: how many I/Os of each latency in each interval."""
        from matplotlib import colors

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
        figure = _figure(8.5, 4.4)
        axes = figure.subplots()
        shown = np.ma.masked_equal(drawn.T, 0)
        norm = colors.LogNorm(vmin=1, vmax=max(float(drawn.max()), 2))
        mesh = axes.pcolormesh(edges, cells, shown, norm=norm, cmap="viridis", rasterized=True)
        axes.set_yscale("log")
        _latency_axis(axes.yaxis, low, high)
        bar = figure.colorbar(mesh, ax=axes, pad=0.02)
        bar.set_label(f"{name}s in {duration(step)}, by latency")
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
    ) -> Picture:
        """This result beside others: latencies by share of I/Os, and where the time went at a percentile."""
        results = [self._result, *others]
        if labels is not None and len(labels) != len(results):
            raise InputError(f"labels: {len(labels)} for {len(results)} results: give one for each")
        names = list(labels or _labels(results))
        name = self._some(direction)[0]
        curves, bars = [], []
        layers: tuple[str, ...] = ()
        for i, (label, result) in enumerate(zip(names, results)):
            of = result.direction(name)
            if of is None:
                raise InputError(f"direction: {label} has no {name}s")
            curves.append((label, of.latency, COLOURS[i % len(COLOURS)]))
            parts = result.breakdown(name)
            if at not in parts.rows:
                raise InputError(f"at '{at}': use {', '.join(parts.rows)}")
            row = parts.rows.index(at)
            layers = parts.layers
            bars.append((label, float(parts.latency_ns[row]), parts.by_layer_ns[row]))
        figure = _figure(8.5, 5.2 + 0.34 * len(results))
        top, bottom = figure.subplots(2, 1, height_ratios=[3.4, 0.6 + 0.34 * len(results)])
        _draw_cdf(top, curves)
        _legend(top)
        top.set_title(f"{name}s", loc="left", fontsize=10)
        _draw_parts(bottom, bars, layers)
        bottom.legend(
            loc="upper left", bbox_to_anchor=(1.13, 1.25), frameon=False, borderaxespad=0.0, fontsize=9
        )
        bottom.set_title(f"where the time went, {at}", loc="left", fontsize=10)
        return Picture(figure)


def _labels(results: Sequence[Result]) -> list[str]:
    """What the runs differ in; their numbers where that says nothing."""
    keys = ("device", "ftl", "stack", "precondition", "scale", "workload", "seed")
    abouts = [result.provenance for result in results]
    differing = [key for key in keys if len({str(about.get(key)) for about in abouts}) > 1]
    names = [", ".join(str(about.get(key)) for key in differing) for about in abouts]
    sets = [set(about["overrides"]) for about in abouts]
    common = set.intersection(*sets)
    names = [
        ", ".join(filter(None, [name, *sorted(own - common)])) for name, own in zip(names, sets)
    ]
    if len(set(names)) < len(names):
        names = [f"{name or 'run'} ({i + 1})" for i, name in enumerate(names)]
    return names


def _edges(series: Any) -> NDArray[np.float64]:
    edges: NDArray[np.float64] = np.concatenate([series["begin_s"][:1], series["end_s"]])
    return edges


def _spoken(name: str) -> str:
    """A column's name as an axis says it, with its unit where the ticks have none."""
    found = re.fullmatch(r"(read|write|trim)_(mean|max|p\d+(?:_\d+)?)_ns", name)
    if found is not None:
        at = found[2].replace("_", ".")
        return f"{found[1]} latency, {at[1:] + ' %' if at.startswith('p') else at}"
    found = re.fullmatch(r"(read|write|trim)_(iops|bytes_per_s)", name)
    if found is not None:
        return f"{found[1]}s a second" if found[2] == "iops" else f"bytes {found[1]} a second"
    return name.removesuffix("_ns").replace("_", " ")


def front_picture(tuned: Any) -> Picture:
    """The points of a search, and those that no other beats."""
    objectives, constraints = tuned.objectives, tuned.constraints
    if len(objectives) > 1:
        names = [objectives[0].name, objectives[1].name]
    elif constraints:
        names = [objectives[0].name, constraints[0].name]
    else:
        raise InputError("a front is between two numbers: give a constraint or a second objective")
    if not tuned.rows:
        raise InputError("no point came to an end: there is nothing to draw")
    figure = _figure(7.5, 4.4)
    axes = figure.subplots()

    def draw(rows: Sequence[Any], label: str, **style: Any) -> None:
        if rows:
            axes.plot([row[names[0]] for row in rows], [row[names[1]] for row in rows], label=label, **style)

    kept = [row for row in tuned.rows if tuned.keeps(row)]
    missed = [row for row in tuned.rows if not tuned.keeps(row)]
    draw(missed, "misses a constraint", ls="", marker="o", ms=5, color="#c4c4c4")
    draw(kept, "keeps all", ls="", marker="o", ms=5, color=COLOURS[0])
    draw(tuned.front, "front", color=COLOURS[1], linewidth=1.2, drawstyle="steps-post")
    if tuned.best_row is not None:
        draw([tuned.best_row], "answer", ls="", marker="*", ms=14, color=COLOURS[1])
    for constraint in constraints:
        for name, line in zip(names, (axes.axvline, axes.axhline)):
            if constraint.name == name:
                line(constraint.bound, color="#333333", linewidth=0.8, ls="--", label=constraint.text)
    for axis, scale, values, label in (
        (axes.xaxis, axes.set_xscale, [row[names[0]] for row in tuned.rows], axes.set_xlabel),
        (axes.yaxis, axes.set_yscale, [row[names[1]] for row in tuned.rows], axes.set_ylabel),
    ):
        name = names[0] if axis is axes.xaxis else names[1]
        if name.endswith("_ns"):
            scale("log")
            _latency_axis(axis, min(values), max(values))
            label(_spoken(name))
        else:
            if max(values) >= 1e4:
                _counts_axis(axis)
            label(_spoken(name))
    _style(axes)
    _legend(axes)
    return Picture(figure)
