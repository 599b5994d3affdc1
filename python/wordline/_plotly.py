"""The same pictures by plotly: values under the pointer, in one HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._html import duration, time_ticks
from .errors import need

Curve = tuple[str, NDArray[np.float64], NDArray[np.float64], str]
Parts = tuple[str, str, NDArray[np.float64]]


def graph() -> Any:
    """plotly's figures, or how to get them."""
    return need("plotly.graph_objects", "plotly", "backend='plotly'")


def _figure(height: float, title: str, rows: int = 1, **layout: Any) -> Any:
    graph()
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=rows, cols=1, **layout)
    figure.update_layout(
        template="plotly_white",
        title={"text": _text(title), "font": {"size": 14}},
        height=height,
        margin={"l": 80, "r": 20, "t": 60, "b": 60},
        hovermode="closest",
        legend={"traceorder": "grouped"},
    )
    return figure


def _text(text: str) -> str:
    """plotly reads some HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _latency_axis(low: float, high: float) -> dict[str, Any]:
    """A log axis whose ticks are times with their units."""
    low, high = max(low, 1.0), max(high, 2.0)
    ticks = time_ticks(low, high)
    if ticks is None:
        subs = (1,) if high / low > 300 else (1, 2, 5)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [sub * 10.0**decade for decade in decades for sub in subs]
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [duration(tick) for tick in ticks],
    }


def _nines_axis(most: float) -> dict[str, Any]:
    names = {0: "0 %", 1: "90 %", 2: "99 %"}
    places = [0.0, math.log10(2), *(float(n) for n in range(1, math.ceil(most) + 1))]
    text = ["0 %", "50 %", *(names.get(n, f"99.{'9' * (n - 2)} %") for n in range(1, math.ceil(most) + 1))]
    return {"range": [0, most * 1.03], "tickvals": places, "ticktext": text}


def _percent(nines: float) -> str:
    return f"{100 * (1 - 10.0**-nines):.{max(0, math.ceil(nines) - 1)}f} %"


def _add_curves(figure: Any, curves: Sequence[Curve], low: float, high: float, row: int = 1) -> None:
    most = 1.0
    for name, latency, nines, colour in curves:
        said = [f"{_percent(n)} are no slower than {duration(x)}" for x, n in zip(latency, nines)]
        figure.add_scatter(
            x=latency,
            y=nines,
            name=_text(name),
            mode="lines",
            line={"color": colour},
            text=said,
            hovertemplate="%{text}<extra>%{fullData.name}</extra>",
            row=row,
            col=1,
        )
        most = max(most, float(nines[-1]))
    figure.update_xaxes(
        title="latency, from the application's call to its return",
        **_latency_axis(low / 1.3, high * 1.15),
        row=row,
        col=1,
    )
    figure.update_yaxes(title="I/Os that are no slower", **_nines_axis(most), row=row, col=1)


def _add_parts(
    figure: Any, names: Sequence[str], latencies: Sequence[float], parts: Sequence[Parts], row: int = 1
) -> None:
    """Bars of equal length, cut by share; each with its latency in its name."""
    rows = [f"{_text(name)} ({duration(latency)})" for name, latency in zip(names, latencies)]
    for layer, colour, shares in parts:
        times = [duration(share / 100 * latency) for share, latency in zip(shares, latencies)]
        figure.add_bar(
            x=shares,
            y=rows,
            name=_text(layer),
            orientation="h",
            marker={"color": colour},
            text=times,
            textposition="none",
            hovertemplate="%{fullData.name}: %{text}, %{x:.1f} %<extra>%{y}</extra>",
            row=row,
            col=1,
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="share of the latency (%)", range=[0, 100], row=row, col=1)
    figure.update_yaxes(autorange="reversed", row=row, col=1)


def cdf(title: str, curves: Sequence[Curve], low: float, high: float) -> Any:
    figure = _figure(460, title)
    _add_curves(figure, curves, low, high)
    figure.update_layout(showlegend=True)
    return figure


def breakdown(title: str, names: Sequence[str], latencies: Sequence[float], parts: Sequence[Parts]) -> Any:
    figure = _figure(160 + 34 * len(names), title)
    _add_parts(figure, names, latencies, parts)
    return figure


def compare(
    titles: tuple[str, str],
    curves: Sequence[Curve],
    low: float,
    high: float,
    latencies: Sequence[float],
    parts: Sequence[Parts],
) -> Any:
    height = 520 + 34 * len(curves)
    figure = _figure(
        height,
        "",
        rows=2,
        row_heights=[0.75, 0.25],
        vertical_spacing=110 / height,
        subplot_titles=[_text(title) for title in titles],
    )
    _add_curves(figure, curves, low, high)
    _add_parts(figure, [curve[0] for curve in curves], latencies, parts, row=2)
    return figure


class OverTime:
    """Panels below each other that share their time axis."""

    def __init__(self, title: str, panels: int, end_s: float) -> None:
        self.figure = _figure(120 + 190 * panels, title, rows=panels, shared_xaxes=True, vertical_spacing=0.04)
        self.figure.update_xaxes(title="simulated time (s)", range=[0, end_s], row=panels, col=1)

    def stairs(
        self,
        row: int,
        edges: NDArray[np.float64],
        values: NDArray[np.float64],
        name: str,
        colour: str,
        said: Callable[[float], str],
        stacked: bool = False,
    ) -> None:
        """A value for each interval; those stacked stand on each other."""
        y = np.concatenate([values, values[-1:]]).astype(float)
        more = {"stackgroup": f"row {row}", "line": {"width": 0, "shape": "hv"}} if stacked else {}
        self.figure.add_scatter(
            **{
                "x": edges,
                "y": y,
                "name": _text(name),
                "mode": "lines",
                "line": {"shape": "hv", "color": colour},
                "fillcolor": colour,
                "text": ["" if math.isnan(v) else said(v) for v in y],
                "hovertemplate": "%{text} at %{x:.3f} s<extra>%{fullData.name}</extra>",
                "legendgroup": f"row {row}",
                **more,
            },
            row=row,
            col=1,
        )

    def axis(self, row: int, title: str, latency: tuple[float, float] | None = None) -> None:
        """What a panel's values are, in what range where they are latencies."""
        more = {"rangemode": "tozero"} if latency is None else _latency_axis(latency[0] / 1.2, latency[1] * 1.2)
        self.figure.update_yaxes(title=title, **more, row=row, col=1)


def heatmap(
    title: str, what: str, edges_s: NDArray[np.float64], edges_ns: NDArray[np.float64], counts: NDArray[np.float64]
) -> Any:
    figure = _figure(460, title)
    shown = np.where(counts > 0, np.log10(np.maximum(counts, 1)), np.nan)
    top = math.ceil(float(np.log10(max(counts.max(), 10))))
    said = [
        [f"{count:,.0f} of {duration(low)} to {duration(high)}" for count in row]
        for row, low, high in zip(counts, edges_ns, edges_ns[1:])
    ]
    figure.add_heatmap(
        x=edges_s,
        y=edges_ns,
        z=shown,
        text=said,
        colorscale="Viridis",
        colorbar={
            "title": {"text": _text(what), "side": "right"},
            "tickvals": list(range(top + 1)),
            "ticktext": [f"{10**n:,}" for n in range(top + 1)],
        },
        hovertemplate="%{text} at %{x:.3f} s<extra></extra>",
    )
    figure.update_xaxes(title="simulated time (s)")
    figure.update_yaxes(title="latency", **_latency_axis(edges_ns[0], edges_ns[-1]))
    return figure


def front(
    labels: tuple[str, str],
    times: tuple[bool, bool],
    groups: Sequence[tuple[str, NDArray[np.float64], NDArray[np.float64], Sequence[str], dict[str, Any]]],
    bounds: Sequence[tuple[int, float, str]],
) -> Any:
    """Points in groups; a bound is a line across the axis that it is of, 0 for x and 1 for y."""
    figure = _figure(460, "")
    for name, x, y, said, style in groups:
        figure.add_scatter(
            x=x, y=y, name=name, text=list(said), hovertemplate="%{text}<extra>%{fullData.name}</extra>", **style
        )
    for axis, bound, name in bounds:
        line = figure.add_vline if axis == 0 else figure.add_hline
        line(bound, line={"dash": "dash", "color": "#333333", "width": 1}, annotation_text=_text(name))
    for i, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        values = [float(v) for group in groups for v in group[1 + i]]
        values += [bound for axis, bound, _ in bounds if axis == i]
        update(title=_text(labels[i]), **(_latency_axis(min(values) / 1.2, max(values) * 1.2) if times[i] else {}))
    return figure
