"""A result as a notebook shows it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Life, Result

# A colour for each layer, the same in every picture.
LAYER_COLOURS = {
    "application": "#9a9a9a",
    "system call": "#c8c8c8",
    "block layer": "#17becf",
    "driver": "#5fa2ce",
    "queue wait": "#dbc55c",
    "link": "#9467bd",
    "device limit": "#8c564b",
    "cache": "#98df8a",
    "ftl": "#2ca02c",
    "LUN wait": "#d62728",
    "nand": "#1f77b4",
    "transfer": "#ff7f0e",
    "completion": "#e377c2",
    "network": "#bcbd22",
    "server": "#3d3d3d",
    "bridge": "#aec7e8",
    "SAS link": "#ffbb78",
}


def layer_colour(layer: str) -> str:
    """The colour of a layer by its name."""
    return LAYER_COLOURS.get(layer, "#555555")


def duration(ns: float) -> str:
    """A length of time with a unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            value = ns / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"


def _row(cells: list[str], tag: str = "td") -> str:
    first, *rest = cells
    right = "".join(f"<{tag} style='text-align:right'>{cell}</{tag}>" for cell in rest)
    return f"<tr><{tag} style='text-align:left'>{first}</{tag}>{right}</tr>"


def _bars(result: Result) -> str:
    """Where the time went, a bar for the mean and each percentile."""
    out, used = "", {}
    for one in result.directions:
        parts = result.breakdown(one.name)
        for row, latency, split in zip(parts.rows, parts.latency_ns, parts.by_layer_ns):
            bar = ""
            for layer, ns in zip(parts.layers, split):
                share = ns / latency if latency else 0
                if share > 0.002:
                    used[layer] = layer_colour(layer)
                    bar += (
                        f"<span title='{html.escape(layer)} {duration(ns)}' style='width:{share * 100:.2f}%;"
                        f"background:{layer_colour(layer)}'></span>"
                    )
            cell = f"<div style='display:flex;width:320px;height:12px'>{bar}</div>"
            out += (
                f"<tr><td style='text-align:left'>{one.name} {row}</td><td style='text-align:right'>"
                f"{duration(latency)}</td><td>{cell}</td></tr>"
            )
    names = " ".join(
        f"<span style='white-space:nowrap'><span style='color:{colour}'>&#9632;</span> {html.escape(layer)}</span>"
        for layer, colour in used.items()
    )
    return f"<table>{out}</table><div>{names}</div>" if out else ""


def life_html(life: Life) -> str:
    """What an I/O was at, step by step, each step where it stands in the I/O's time."""
    text, whole = html.escape, max(life.latency_ns, 1)
    out, before = "", life.begin_ns
    for step in life.steps:
        ns = step["end_ns"] - before
        left, width = (before - life.begin_ns) * 100 / whole, ns * 100 / whole
        bar = (
            "<div style='width:320px;height:12px'><div style='height:12px;min-width:1px;"
            f"margin-left:{left:.2f}%;width:{width:.2f}%;background:{layer_colour(step['layer'])}'></div></div>"
        )
        out += (
            f"<tr><td style='text-align:left'>{text(step['layer'])}</td>"
            f"<td style='text-align:left'>{text(step['why'])}</td>"
            f"<td style='text-align:right'>{duration(ns)}</td><td>{bar}</td></tr>"
        )
        before = step["end_ns"]
    return (
        f"<div><b>{text(life.direction)}</b> of {text(life.thread)}, {life.size_bytes:,} bytes "
        f"at byte {life.offset_bytes:,}: "
        f"{duration(life.latency_ns)}<table>{out}</table></div>"
    )


def result_html(result: Result) -> str:
    """The answer first, then what may mislead about it, then where the time went."""
    about = result.provenance
    text = html.escape
    head = f"<b>{text(about['device'])}</b>, FTL {text(about['ftl'])}, {text(about['stack'])}, seed {about['seed']}"
    rows = _row(["", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "p99.99", "max"], "th")
    for one in result.directions:
        at = [duration(one.latency.percentile_ns(p)) for p in (50, 99, 99.9, 99.99)]
        rows += _row(
            [
                one.name,
                f"{one.iops:,.0f}",
                f"{one.bandwidth_bytes_per_s / 1e6:,.1f}",
                duration(one.latency.mean_ns),
                *at,
                duration(one.latency.max_ns),
            ]
        )
    factor = result.write_amplification
    more = "" if factor is None else f", write amplification {factor:.2f}"
    said = "".join(f"<li><b>warning:</b> {text(one)}</li>" for one in result.warnings)
    said += "".join(f"<li>{text(one)}</li>" for one in result.notes)
    if result.failure is not None:
        said = f"<li><b>{text(result.failure)}</b></li>" + said
    said = f"<ul>{said}</ul>" if said else ""
    return (
        f"<div>{head}<br>{text(result.prepared)}<br>{result.simulated_ns / 1e9:.3f} s simulated{more}"
        f"<table>{rows}</table>{said}{_bars(result)}</div>"
    )
