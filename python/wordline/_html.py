"""A result as a notebook shows it."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .result import Breakdown, Life, Result

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


def plain(value: float, digits: int = 4) -> str:
    """A number without an exponent."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    if float(value).is_integer() or abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}"
    return str(np.format_float_positional(value, precision=digits, fractional=False, trim="-"))


def count(value: float) -> str:
    """A number with a letter for its thousands, to three digits."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{plain(value / size, 3)} {unit}"
    return plain(value, 3)


def told(name: str, value: Any) -> str:
    """A column's number with the unit that its name says; all others as they are."""
    if value is None:
        return "–"
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return str(value)
    number = float(value)
    if math.isnan(number):
        return "–"
    if name.endswith("_ns"):
        return duration(number)
    if name.endswith("_bytes_per_s"):
        return f"{number / 1e6:,.1f} MB/s"
    if name.endswith(("_iops", "_per_s")):
        text = count(number)
        return f"{text}/s" if text[-1].isalpha() else f"{text} /s"
    if name.endswith("_s"):
        return duration(number * 1e9)
    if name == "watts":
        return f"{plain(number, 3)} W"
    return f"{value:,}" if isinstance(value, (int, np.integer)) else plain(number, 6)


def time_ticks(low: float, high: float) -> list[float] | None:
    """Places of ticks on an axis of times that is too short for those of a log axis; none where it is not."""
    middle = (low + high) / 2
    low, high = min(low, 0.975 * middle), max(high, 1.025 * middle)
    if low <= 0 or high / low > 8:
        return None
    rough = (high - low) / 4
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(n * decade for n in (1, 2, 5, 10) if n * decade >= rough * 0.999)
    return [n * step for n in range(max(math.floor(low / step), 1), math.ceil(high / step) + 1)]


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


def breakdown_html(parts: Breakdown) -> str:
    """Layers down, mean and percentiles across, as the text report has it: below a layer the shares of what was in the
    way in it."""
    shares, told = parts.delay_shares(), parts.told_delays()
    out = _row([html.escape(f"{parts.direction}s"), *map(html.escape, parts.rows)], "th")
    whole = parts.by_layer_ns.sum(axis=1)
    for i, layer in enumerate(parts.layers):
        spent = parts.by_layer_ns[:, i]
        if not spent.any():
            continue
        cells = [
            f"{duration(ns)}, {100 * ns / of:.1f} %" if ns > 0 else "–" for ns, of in zip(spent, whole)
        ]
        out += _row([f"<b>{html.escape(layer)}</b>", *cells])
        for d in told:
            if parts.delays[d][0] == layer:
                cells = [f"{share:.1f} %" if share > 0 else "–" for share in shares[:, d]]
                out += _row([f"&emsp;{html.escape(parts.delays[d][1])}", *cells])
    out += _row(["<b>all</b>", *map(duration, parts.latency_ns)])
    return f"<table>{out}</table>"


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
        at = [told("_ns", one.latency.percentile_or_none(p)) for p in (50, 99, 99.9, 99.99)]
        kept = one.latency.count > 0
        rows += _row(
            [
                one.name,
                f"{one.iops:,.0f}",
                f"{one.bandwidth_bytes_per_s / 1e6:,.1f}",
                told("_ns", one.latency.mean_ns if kept else None),
                *at,
                told("_ns", one.latency.max_ns if kept else None),
            ]
        )
    factor = result.write_amplification
    more = ""
    if factor is not None:
        causes = result.write_amplification_by_cause
        split = ", ".join(f"{name} {part:.2f}" for name, part in causes.items() if part >= 0.005)
        more = f", write amplification {factor:.2f} ({split})"
    said = "".join(f"<li><b>warning:</b> {text(one)}</li>" for one in result.warnings)
    said += "".join(f"<li>{text(one)}</li>" for one in result.notes)
    if result.failure is not None:
        said = f"<li><b>{text(result.failure)}</b></li>" + said
    said = f"<ul>{said}</ul>" if said else ""
    return (
        f"<div>{head}<br>{text(result.prepared)}<br>{result.simulated_ns / 1e9:.3f} s simulated{more}"
        f"<table>{rows}</table>{said}{_bars(result)}</div>"
    )
