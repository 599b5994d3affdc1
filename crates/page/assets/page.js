"use strict";
(() => {
const root = document.documentElement;
root.classList.add("js");
const data = JSON.parse(document.getElementById("data").textContent);
const results = data.results;
const $ = (tag, attributes = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};
const v = (name) => `var(--${name})`;
const slug = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
const cssOf = (prefix, name) => v(`${prefix}-${slug(name)}`);
const seriesColour = (i) => v(`s${i % 8}`);
const words = (name) => ({
  user_read: "user reads", rebuild_read: "reads to rebuild", gc_read: "GC reads", meta_read: "metadata reads",
  user_program: "user programs", gc_program: "GC programs", meta_program: "metadata programs",
  parity_program: "parity programs", erase: "erases", suspension: "suspension", transfer: "transfers",
}[name] ?? name.replaceAll("_", " "));

/* Numbers. */
const trim = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
const digits = (x, n = 3) => {
  if (x === 0) return "0";
  const whole = Math.floor(Math.log10(Math.abs(x))) + 1;
  return x.toLocaleString("en-US", {
    maximumFractionDigits: Math.max(0, n - whole), minimumFractionDigits: 0,
  });
};
const TIMES = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const unitOf = (ns) => TIMES.find(([, by]) => Math.abs(ns) >= by) ?? TIMES[3];
const time = (ns, n = 4) => {
  if (ns == null) return "–";
  const [unit, by] = unitOf(ns);
  return `${digits(ns / by, n)} ${unit}`;
};
/* In the unit of the greatest, with as many decimals as three digits of that have. */
const timeUpTo = (most) => {
  const [unit, by] = unitOf(most);
  const decimals = most > 0 ? Math.max(0, 2 - Math.floor(Math.log10(most / by))) : 0;
  return (ns) => `${(ns / by).toLocaleString("en-US", { maximumFractionDigits: decimals })} ${unit}`;
};
const SIZES = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
const size = (bytes) => {
  const [unit, by] = SIZES.find(([, by]) => Math.abs(bytes) >= by) ?? SIZES[3];
  return `${digits(bytes / by, 4)} ${unit}`;
};
const count = (x) => {
  const [unit, by] = [["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]].find(([, by]) => Math.abs(x) >= by) ?? ["", 1];
  return unit ? `${digits(x / by, 3)} ${unit}` : digits(x, 3);
};
const percent = (share) => `${digits(share * 100, 3)} %`;

/* Ticks of a logarithmic axis: decades, and where there are few of them 2 and 5 between. */
const logTicks = (low, high, most = 9) => {
  const ticks = [];
  const steps = Math.log10(high / low) > 2.6 ? [1] : Math.log10(high / low) > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const s of steps) {
      const t = s * 10 ** e;
      if (t >= low * 0.999 && t <= high * 1.001) ticks.push(Number(t.toPrecision(3)));
    }
  }
  const decades = ticks.filter((t) => Number.isInteger(Math.round(Math.log10(t) * 1e6) / 1e6));
  const shown = ticks.length > most && decades.length > 1 ? decades : ticks;
  // A narrow range may have less than two round numbers: its ends are marked.
  if (shown.length < 2) return [low, high];
  return shown.filter((_, i) => i % Math.ceil(shown.length / most) === 0);
};
const logDomain = (values) => {
  const [low, high] = d3.extent(values.filter((x) => x > 0));
  if (low === undefined) return [1, 10];
  return low === high ? [low / 1.5, high * 1.5] : [low / 1.08, high * 1.08];
};
/* A vertical axis: its scale, and the marks that draw it. */
const timeAxis = (domain, label = "latency", most = 9) => {
  const ticks = logTicks(...domain, most);
  return { scale: { type: "log", domain, axis: null, label: null }, marks: axisY(ticks, (x) => time(x, 3), label) };
};
const axisY = (ticks, format, label, grid = true) => [
  ...(grid ? [Plot.gridY(ticks)] : []),
  Plot.axisY(ticks, { text: format, label, labelArrow: "none", tickSize: 4 }),
];
const binary = (top) => {
  const [, by] = SIZES.find(([, by]) => top >= by) ?? SIZES[3];
  return d3.ticks(0, top / by, 4).map((x) => x * by);
};
const linear = (top, label, format) => {
  const domain = [0, top > 0 ? top * 1.06 : 1];
  const ticks = format === size ? binary(domain[1]) : d3.ticks(...domain, 4);
  return { scale: { domain, axis: null, label: null }, marks: axisY(ticks, format, label) };
};
const base = (width, more) => ({
  width, marginLeft: 64, marginRight: 18, marginTop: 26, marginBottom: 34,
  style: { fontSize: "12px", fontFamily: "inherit", color: "var(--ink)", background: "none" },
  ...more,
});
const axisStyle = { tickSize: 4 };
/* Pixels that the longest of these takes in a picture. */
const ruler = document.createElement("canvas").getContext("2d");
const longest = (texts) => {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(d3.max(texts, (text) => ruler.measureText(text).width));
};

/* As much of a text as has room. */
const clipped = (text, room) => {
  if (longest([text]) <= room) return text;
  let n = text.length;
  while (n > 1 && longest([`${text.slice(0, n)}…`]) > room) n--;
  return `${text.slice(0, n)}…`;
};

/* Results. */
const machine = (r) => r.wordline.machine;
const colourOf = (d) => v(d.ddir);
const isOne = results.length === 1;
const named = (r) => r.label;

/* Percentiles on an axis of nines. */
const NINES = [[0, "0"], [Math.log10(2), "50 %"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"], [5, "99.999 %"],
  [6, "99.9999 %"], [7, "99.99999 %"]];
const nineName = (x) => {
  const beyond = 10 ** -x;
  return trim((100 * (1 - beyond)).toFixed(Math.max(1, Math.ceil(x) - 1))) + " %";
};
const curves = (of) => {
  const list = [];
  results.forEach((r, i) => {
    for (const d of r.runs[0].wordline.latency) if (d.N > 0 && of(d)) list.push({ d, r, i });
  });
  return list;
};
/* Names that several have get numbers: the jobs of one numjobs. */
const numbered = (names) => names.map((name, i) => (
  names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} ${names.slice(0, i + 1).filter((n) => n === name).length}`));
/* More curves than there are colours are of one colour, and hover tells the least, the middle and the greatest. */
const CURVES = 8;
const tail = (list, name, colour, dash = () => null) => {
  const many = list.length > CURVES;
  const names = numbered(list.map(name));
  const legend = list.map((c, k) => ({ label: names[k], colour: many ? v("s0") : colour(c, k), dash: many ? null : dash(c, k) }));
  const rows = list.flatMap((c, k) => c.d.ns.map((ns, i) => ({ k, curve: names[k], x: i / c.d.points_a_nine, ns })));
  const last = d3.max(rows, (d) => d.x) ?? 1;
  const some = (rs) => {
    const by = d3.sort(rs, (r) => r.ns);
    return [["fastest", 0], ["middle", by.length >> 1], ["slowest", by.length - 1]].map(([which, i]) => `${which} of ${by.length}, ${by[i].curve}  ${time(by[i].ns)}`);
  };
  const at = d3.rollups(rows, (rs) => rs, (d) => d.x).map(([x, rs]) => ({
    x, title: [nineName(x) + " are within", ...(many ? some(rs) : rs.map((r) => `${r.curve}  ${time(r.ns)}`))].join("\n"),
  }));
  const y = logDomain(rows.map((d) => d.ns));
  return {
    legend: many ? [{ label: `each of ${list.length}`, colour: v("s0") }] : legend,
    alt: `Percentiles of latency of ${legend.map((l) => l.label).join(", ")}`,
    csv: rows.map((d) => ({ curve: d.curve, percentile: 100 * (1 - 10 ** -d.x), latency_ns: d.ns })),
    // The last mark's words stand around the end of the axis.
    plot: (width) => Plot.plot(base(width, {
      height: 340, marginRight: 28,
      x: { domain: [0, Math.max(last, 1)], label: "share of I/Os that are at least as fast", labelAnchor: "center", labelArrow: "none" },
      y: timeAxis(y).scale,
      marks: [
        ...timeAxis(y).marks,
        Plot.gridX(NINES.map((n) => n[0]).filter((x) => x <= last), { strokeOpacity: .12 }),
        Plot.axisX(NINES.map((n) => n[0]).filter((x) => x <= last + .01 && (width > 560 || x === 0 || x >= 1)), {
          tickFormat: (x) => NINES.find((n) => n[0] === x)[1], ...axisStyle,
          label: "share of I/Os that are at least as fast", labelAnchor: "center", labelArrow: "none",
        }),
        ...legend.map((l, k) => Plot.line(rows.filter((d) => d.k === k), {
          x: "x", y: "ns", stroke: l.colour, strokeWidth: many ? 1.2 : 2, strokeOpacity: many ? .5 : 1, strokeDasharray: l.dash ?? undefined, curve: "monotone-x",
        })),
        Plot.ruleX(at, Plot.pointerX({ x: "x", stroke: v("muted") })),
        Plot.tip(at, Plot.pointerX({ x: "x", frameAnchor: "top-left", title: "title", fontFamily: "inherit" })),
      ],
    })),
  };
};

/* Series. */
/* The last interval is left out of pictures where it is too short to have a rate. */
const spans = (ends) => {
  const all = ends.map((end, i) => ({ t0: (i ? ends[i - 1] : 0) / 1e9, t1: end / 1e9, i }));
  const last = all.at(-1);
  return all.length > 4 && last.t1 - last.t0 < (all[0].t1 - all[0].t0) / 4 ? all.slice(0, -1) : all;
};
const inUnit = (to) => [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, by]) => to >= by) ?? ["ns", 1e-9];
const timeX = (to, width) => ({
  domain: [0, to], label: `simulated time (${inUnit(to)[0]})`, labelAnchor: "center", labelArrow: "none",
  ticks: d3.ticks(0, to, width < 620 ? 5 : 9), tickFormat: (x) => digits(x / inUnit(to)[1], 4), tickSize: 4,
});
/* What hover shows of an interval. */
const hover = (rows) => [
  Plot.ruleX(rows, Plot.pointerX({ x: "mid", stroke: v("muted") })),
  Plot.tip(rows, Plot.pointerX({ x: "mid", frameAnchor: "top", title: "title", fontFamily: "inherit" })),
];
const at = (s) => `${digits(s.t0, 4)} to ${digits(s.t1, 4)} s`;
const PLACE = { height: 210 };
/* Lines by interval: series of {label, colour, values by interval, width, dash}. */
const lines = (ends, series, { format, label, log, rules = [], height, mode = "step" }) => {
  const to = ends.at(-1) / 1e9;
  const intervals = spans(ends);
  const rows = intervals.map((s) => ({
    mid: (s.t0 + s.t1) / 2,
    title: [at(s), ...series.map((x) => `${x.label}  ${x.values[s.i] == null ? "–" : format(x.values[s.i])}`)].join("\n"),
  }));
  const points = series.map((x) => intervals.flatMap((s) => [
    { t: s.t0, y: x.values[s.i] }, { t: s.t1, y: x.values[s.i] },
  ]).map((p) => (log && !(p.y > 0) ? { ...p, y: NaN } : p)));
  const all = points.flat().map((p) => p.y).filter((y) => y != null && !Number.isNaN(y)).concat(rules.map((r) => r.y));
  const y = log ? timeAxis(logDomain(all), label) : linear(d3.max(all) ?? 1, label, format);
  return {
    legend: [...series, ...rules].map(({ label, colour, dash, width }) => ({ label, colour, dash, width })),
    alt: `${label} over time: ${series.map((s) => s.label).join(", ")}`,
    csv: intervals.map((s) => Object.fromEntries([["from_s", s.t0], ["to_s", s.t1], ...series.map((x) => [x.csv ?? x.label, x.values[s.i]])])),
    plot: (width) => Plot.plot(base(width, {
      ...PLACE, ...(height ? { height } : {}),
      x: timeX(to, width), y: y.scale,
      marks: [
        ...y.marks,
        ...rules.map((r) => Plot.ruleY([r.y], { stroke: r.colour, strokeDasharray: r.dash })),
        ...series.map((x, k) => Plot.line(points[k], {
          x: "t", y: "y", stroke: x.colour, strokeWidth: x.width ?? 1.6, strokeDasharray: x.dash ?? undefined,
        })),
        ...hover(rows),
      ],
    })),
  };
};
/* Stacks by interval. */
const stacks = (ends, series, { format, label, top, over = [] }) => {
  const to = ends.at(-1) / 1e9;
  const intervals = spans(ends);
  const shown = series.filter((x) => x.values.some((n) => n > 0));
  const sums = intervals.map((s) => d3.sum(shown, (x) => x.values[s.i] ?? 0));
  const highest = d3.max([...sums, ...over.flatMap((x) => intervals.map((s) => x.values[s.i] ?? 0))]);
  const y = linear(top ?? highest ?? 1, label, format);
  const rows = intervals.map((s) => ({
    mid: (s.t0 + s.t1) / 2,
    title: [at(s), ...over.map((x) => `${x.label}  ${format(x.values[s.i] ?? 0)}`), ...[...shown].reverse().map((x) => `${x.label}  ${x.values[s.i] == null ? "–" : format(x.values[s.i])}`),
      ...(shown.length > 1 ? [`all  ${format(sums[s.i])}`] : [])].join("\n"),
  }));
  const boxes = intervals.flatMap((s) => {
    let y = 0;
    return shown.map((x) => ({ x1: s.t0, x2: s.t1, y1: y, y2: (y += x.values[s.i] ?? 0), fill: x.colour }));
  });
  return {
    legend: [...shown.map(({ label, colour }) => ({ label, colour, box: true })), ...over.map(({ label, colour }) => ({ label, colour }))],
    alt: `${label} over time: ${shown.map((s) => s.label).join(", ")}`,
    csv: intervals.map((s) => Object.fromEntries([["from_s", s.t0], ["to_s", s.t1], ...[...series, ...over].map((x) => [x.csv ?? x.label, x.values[s.i]])])),
    plot: (width) => Plot.plot(base(width, {
      ...PLACE,
      x: timeX(to, width), y: y.scale,
      marks: [
        ...y.marks,
        Plot.rect(boxes, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: (d) => d.fill, shapeRendering: "crispEdges" }),
        ...over.map((x) => Plot.line(intervals.flatMap((s) => [{ t: s.t0, y: x.values[s.i] }, { t: s.t1, y: x.values[s.i] }]),
          { x: "t", y: "y", stroke: x.colour, strokeWidth: 1.6 })),
        Plot.ruleY([0], { stroke: v("muted"), strokeOpacity: .6 }),
        ...hover(rows),
      ],
    })),
  };
};
const lengths = (ends) => ends.map((end, i) => (end - (i ? ends[i - 1] : 0)) / 1e9);
/* I/Os a second by interval; where nothing was counted there is none. */
const rates = (i, l) => l.ios.map((n, k) => {
  const [begin, end] = [k ? i.end_ns[k - 1] : 0, i.end_ns[k]];
  const without = (l.uncounted_ns ?? [[0, l.counted_from_ns ?? 0]]).map(([from, to]) => Math.max(0, Math.min(end, to) - Math.max(begin, from)));
  const counted = end - begin - d3.sum(without);
  return counted > 0 ? n * 1e9 / counted : null;
});
const pick = (args) => results[args.result ?? 0].runs[0];
const intervalsOf = (r) => machine(r).intervals;
const direction = (r, ddir) => intervalsOf(r).latency.find((l) => l.ddir === ddir);
/* All in the colour of their direction: dashes and width tell them apart on a light and on a dark ground. */
const PERCENTILES = [["p50_ns", "50 %", "1.5 2.5", 1.6], ["p99_ns", "99 %", "6 3", 1.6], ["p99_9_ns", "99.9 %", undefined, 1.4], ["p99_99_ns", "99.99 %", undefined, 2.6]];

/* Latency by interval as areas: how many of an interval's I/Os a cell has. */
const HEAT = [1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1];
const HEAT_COLOURS = [1, 2, 3, 4, 5, 6, 8].map((i) => v(`h${i}`));
const HEAT_NAMES = ["less", "0.01 %", "0.1 %", "1 %", "3 %", "10 %", "30 % and more"];
const heat = (r, ddir) => {
  const i = intervalsOf(r), l = direction(r, ddir), ends = i.end_ns;
  const cells = [];
  for (const s of spans(ends)) {
    const all = l.ios[s.i];
    l.counts[s.i].forEach((n, k) => {
      if (n) cells.push({ ...s, low: Math.max(l.edges_ns[k], .5), high: l.edges_ns[k + 1], n, share: n / all });
    });
  }
  const rows = cells.map((c) => ({
    x: (c.t0 + c.t1) / 2, y: Math.sqrt(c.low * c.high),
    title: `${at(c)}\n${time(c.low)} to ${time(c.high)}\n${c.n.toLocaleString("en-US")} of ${l.ios[c.i].toLocaleString("en-US")} ${ddir}s, ${percent(c.share)}`,
  }));
  const domain = [d3.min(cells, (c) => c.low), d3.max(cells, (c) => c.high)];
  const colour = (c) => HEAT_COLOURS[d3.bisectRight(HEAT, c.share)];
  return {
    legend: HEAT_NAMES.map((label, k) => ({ label, colour: HEAT_COLOURS[k], box: true })),
    alt: `Latency of ${ddir}s over time: share of each interval's I/Os by latency`,
    csv: cells.map((c) => ({ from_s: c.t0, to_s: c.t1, from_ns: c.low, to_ns: c.high, ios: c.n })),
    plot: (width) => Plot.plot(base(width, {
      height: 260, x: timeX(ends.at(-1) / 1e9, width), y: timeAxis(domain).scale,
      marks: [
        timeAxis(domain).marks[1],
        Plot.rect(cells, { x1: "t0", x2: "t1", y1: "low", y2: "high", fill: colour, shapeRendering: "crispEdges" }),
        Plot.tip(rows, Plot.pointer({ x: "x", y: "y", title: "title", fontFamily: "inherit" })),
      ],
    })),
  };
};

/* Channels and LUNs. */
const grid = (flash, values, { format, what, top }) => {
  // Numbers of cells have no unit: all are in that of the greatest, which the legend has.
  const most = top ?? d3.max(values) ?? 0;
  const cells = values.map((value, lun) => ({ channel: lun % flash.channels, at: Math.floor(lun / flash.channels), lun, value }));
  const level = (x) => (most > 0 ? Math.min(8, Math.floor(x / most * 9)) : 0);
  const across = Math.ceil(flash.luns / flash.channels);
  const labels = cells.length <= 160;
  return {
    legend: [0, most / 2, most].map((x, i) => ({ label: format(x, most), colour: v(`h${4 * i}`), box: true })),
    alt: `${what} of each LUN, by channel`,
    csv: cells.map((c) => ({ channel: c.channel, lun_of_channel: c.at, lun: c.lun, [slug(what).replaceAll("-", "_")]: c.value })),
    plot: (width) => {
      const down = flash.channels;
      const cell = Math.max(9, Math.min(26, (width - 80) / across));
      return Plot.plot({
        ...base(width, {}), marginTop: 34, marginBottom: 8, marginLeft: 58, marginRight: Math.max(6, width - 58 - cell * across * 1.6),
        height: Math.max(70, Math.min(26, Math.max(15, cell)) * down + 44),
        x: { type: "band", domain: d3.range(across), axis: "top", label: "LUN of the channel", labelAnchor: "left", labelArrow: "none", tickSize: 0, padding: .06,
          ticks: d3.range(0, across, Math.ceil(across / 16)) },
        y: { type: "band", domain: d3.range(down), label: "channel", labelArrow: "none", tickSize: 0, padding: .06, ticks: d3.range(0, down, Math.ceil(down / 32)) },
        marks: [
          Plot.cell(cells, { x: "at", y: "channel", fill: (c) => v(`h${level(c.value)}`), rx: 1.5 }),
          ...(labels && cell >= 20 ? [Plot.text(cells, { x: "at", y: "channel", text: (c) => format(c.value, most).replace(/ .*/, ""), fontSize: 9.5,
            fill: (c) => (level(c.value) > 4 ? v("paper") : v("ink")) })] : []),
          Plot.tip(cells, Plot.pointer({ x: "at", y: "channel", title: (c) => `LUN ${c.lun}: ${c.at} of channel ${c.channel}\n${what}  ${format(c.value, most)}`, fontFamily: "inherit" })),
        ],
      });
    },
  };
};

/* Processor time and memory of the host. */
const ownerOf = (key) => key.replace(/_(ns|bytes)$/, "").replaceAll("_", " ").replace(/^ftl/, "FTL");
const cores = (rows) => {
  const ends = rows.map((r) => r.end_ns), seconds = lengths(ends), count = rows[0].core_busy_ns.length;
  const cells = spans(ends).flatMap((s) => d3.range(count).map((core) => ({
    ...s, core, share: Math.min(1, rows[s.i].core_busy_ns[core] / 1e9 / seconds[s.i]),
  })));
  return {
    legend: [0, 4, 8].map((level) => ({ label: percent(level / 8), colour: v(`h${level}`), box: true })),
    alt: "Share of each interval that each core of the host was busy",
    csv: cells.map((c) => ({ from_s: c.t0, to_s: c.t1, core: c.core, busy: c.share })),
    plot: (width) => Plot.plot(base(width, {
      height: Math.max(110, 56 + count * Math.max(5, Math.min(22, 200 / count))), x: timeX(ends.at(-1) / 1e9, width),
      y: { domain: [-.5, count - .5], label: "core", labelAnchor: "top", labelArrow: "none", tickSize: 0,
        ticks: d3.range(0, count, Math.ceil(count / 12)), tickFormat: (n) => `${n}` },
      marks: [
        Plot.rect(cells, { x1: "t0", x2: "t1", y1: (c) => c.core - .45, y2: (c) => c.core + .45, fill: (c) => v(`h${Math.min(8, Math.floor(c.share * 9))}`), shapeRendering: "crispEdges" }),
        Plot.tip(cells, Plot.pointer({ x: (c) => (c.t0 + c.t1) / 2, y: "core", title: (c) => `${at(c)}\ncore ${c.core}\n${percent(c.share)}`, fontFamily: "inherit" })),
      ],
    })),
  };
};

/* Points all along bars, so close that the nearest one lies in the bar below the pointer. */
const along = (boxes, scale) => boxes.flatMap((b) => {
  const n = Math.max(1, Math.ceil((b.x2 - b.x1) * scale / 12));
  return d3.range(n).map((i) => ({ ...b, x: b.x1 + (b.x2 - b.x1) * (i + .5) / n }));
});

/* Where the time went. */
const split = (rows) => {
  const layers = [...new Set(rows.flatMap((row) => Object.keys(row.parts).filter((l) => row.parts[l] > 0)))];
  const order = results[0].runs[0].wordline.machine.layers.flatMap((t) => Object.keys(t.mean_by_layer_ns));
  layers.sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const boxes = rows.flatMap((row) => {
    let x = 0;
    return layers.filter((l) => row.parts[l] > 0).map((layer) => {
      const share = row.parts[layer] / row.total;
      return { row: row.name, layer, x1: x, x2: (x += share), ns: row.parts[layer], share };
    });
  });
  const beside = 12 + longest(rows.map((r) => r.name));
  return {
    legend: layers.map((l) => ({ label: l, colour: cssOf("l", l), box: true })),
    alt: `Share of latency by layer: ${rows.map((r) => r.name).join(", ")}`,
    csv: boxes.map((b) => ({ row: b.row, layer: b.layer, ns: b.ns, share: b.share })),
    plot: (width) => {
      // Names that leave the bars too little room stand above them.
      const above = beside > Math.min(360, .4 * width), left = above ? 14 : beside;
      const [high, room] = above ? [45, 18] : [27, 0];
      return Plot.plot({
        ...base(width, {}), marginLeft: left, marginRight: 84, marginTop: 8,
        height: 42 + high * rows.length,
        x: { domain: [0, 1], percent: false, ticks: [0, .25, .5, .75, 1], tickFormat: (x) => `${x * 100} %`, label: "share of the latency", labelAnchor: "center", labelArrow: "none" },
        y: { type: "band", domain: rows.map((r) => r.name), label: null, tickSize: 0, padding: above ? .12 : .22, axis: above ? null : "left" },
        marks: [
          Plot.barX(boxes, { x1: "x1", x2: "x2", y: "row", fill: (b) => cssOf("l", b.layer), insetRight: .6, insetTop: room }),
          ...(above ? [Plot.text(rows, { x: 0, y: "name", text: "name", textAnchor: "start", dy: -11, fill: v("ink") })] : []),
          Plot.text(rows, { x: 1, y: "name", text: (r) => time(r.total), textAnchor: "start", dx: 8, dy: room / 2, fill: v("ink") }),
          Plot.tip(along(boxes, width - left - 84), Plot.pointer({ x: "x", y: "row", dy: room / 2, maxRadius: 16, fontFamily: "inherit",
            title: (b) => `${b.row}\n${b.layer}  ${time(b.ns)}, ${percent(b.share)}` })),
        ],
      });
    },
  };
};
const atOf = (table) => [
  { at: "mean", total: d3.sum(Object.values(table.mean_by_layer_ns)), parts: table.mean_by_layer_ns },
  ...table.at.map((row) => ({ at: `${row.percentile} %`, total: row.latency_ns, parts: row.by_layer_ns })),
];

/* The charts by name. */
const charts = {
  tail: () => isOne
    ? tail(curves((d) => d.of === "all"), (c) => c.d.ddir, (c) => colourOf(c.d))
    : null,
  "tail-of": (args) => tail(curves((d) => d.of === args.of && d.ddir === args.ddir),
    (c) => c.d.name, (c, k) => seriesColour(k)),
  "tail-compared": (args) => tail(curves((d) => d.of === "all" && d.ddir === args.ddir), (c) => named(c.r), (c) => seriesColour(c.i)),
  "tail-by-seed": (args) => {
    const list = results[0].runs.map((run, i) => ({
      d: run.wordline.latency.find((d) => d.of === "all" && d.ddir === args.ddir), i, seed: run.wordline.provenance.seed,
    })).filter((c) => c.d?.N > 0);
    return tail(list, (c) => `seed ${c.seed}`, (c) => seriesColour(c.i));
  },
  layers: (args) => split(machine(pick(args)).layers.filter((t) => t.ddir === args.ddir).flatMap((t) => atOf(t).map((r) => ({ ...r, name: r.at })))),
  "layers-compared": (args) => split(results.flatMap((r) => machine(r.runs[0]).layers.filter((t) => t.ddir === args.ddir)
    .flatMap((t) => atOf(t).filter((row) => ["mean", "99.9 %"].includes(row.at)).map((row) => ({ ...row, name: `${named(r)}, ${row.at}` })))))
  ,
  rate: (args) => {
    const i = intervalsOf(pick(args));
    return lines(i.end_ns, i.latency.map((l) => ({
      label: `${l.ddir}s`, csv: `${l.ddir}s_per_s`, colour: v(l.ddir), values: rates(i, l),
    })), { format: count, label: "I/Os a second" });
  },
  percentiles: (args) => {
    const i = intervalsOf(pick(args)), l = i.latency.find((l) => l.ddir === args.ddir);
    return lines(i.end_ns, PERCENTILES.filter(([key]) => l[key].some((x) => x != null)).map(([key, label, dash, width]) => ({
      label, csv: key, colour: v(args.ddir), dash, width, values: l[key],
    })), { format: (x) => time(x), label: `latency of ${args.ddir}s`, log: true });
  },
  "write-amplification": (args) => {
    const rows = machine(pick(args)).write_amplification.over_time;
    const of = (key) => rows.map((r) => (r.user_sectors > 0 ? r[key] / r.user_sectors : null));
    return stacks(rows.map((r) => r.end_ns), [
      { label: "users' data", csv: "user", colour: v("c-user-program"), values: of("user_sectors") },
      { label: "collector", csv: "gc", colour: v("c-gc-program"), values: of("gc_sectors") },
      ...(rows.some((r) => r.folded_sectors > 0) ? [{ label: "folded", csv: "folded", colour: v("c-gc-read"), values: of("folded_sectors") }] : []),
      ...(rows.some((r) => r.map_sectors > 0) ? [{ label: "pages of the map", csv: "map", colour: v("c-rebuild-read"), values: of("map_sectors") }] : []),
      ...(rows.some((r) => r.resubmitted_sectors > 0) ? [{ label: "written again", csv: "resubmitted", colour: v("c-erase"), values: of("resubmitted_sectors") }] : []),
      ...(rows.some((r) => r.parity_sectors > 0) ? [{ label: "parity", csv: "parity", colour: v("c-parity-program"), values: of("parity_sectors") }] : []),
      { label: "padding", csv: "padding", colour: v("c-padding"), values: of("padding_sectors") },
      { label: "metadata", csv: "metadata", colour: v("c-meta-program"), values: of("metadata_sectors") },
    ], { format: (x) => digits(x, 3), label: "sectors programmed for each that users wrote" });
  },
  "free-lines": (args) => {
    const i = intervalsOf(pick(args)), f = i.free_lines;
    return lines(i.end_ns, [{ label: "free lines", csv: "free_lines", colour: v("s2"), values: f.lines }], {
      format: (x) => digits(x, 3), label: "lines", rules: [
        { y: f.collecting_below, label: `collecting below ${digits(f.collecting_below)}`, colour: v("muted"), dash: "5 4" },
        { y: f.writers_wait_below, label: `writers wait below ${digits(f.writers_wait_below)}`, colour: v("warn"), dash: "2 3" },
      ],
    });
  },
  blocked: (args) => {
    const i = intervalsOf(pick(args));
    const share = (list) => list.map((n, k) => (i.flash_reads[k] > 0 ? n / i.flash_reads[k] : 0));
    const all = Object.entries(i.reads_blocked).map(([name, list]) => ({
      label: words(name), csv: name, colour: cssOf("c", name), values: share(list),
    }));
    return stacks(i.end_ns, all.filter((x) => x.csv !== "transfer"), { format: percent, label: "share of reads from flash",
      over: all.filter((x) => x.csv === "transfer").map((x) => ({ ...x, label: "the channel, beside that" })) });
  },
  cpu: (args) => {
    const rows = machine(pick(args)).host.over_time, ends = rows.map((r) => r.end_ns), seconds = lengths(ends);
    const of = (key) => rows.map((r, k) => r[key] / 1e9 / seconds[k]);
    const cores = machine(pick(args)).cores.length;
    return stacks(ends, [["user", "user_ns"], ["system", "system_ns"], ["interrupt", "interrupt_ns"]].map(([label, key]) => ({
      label, csv: key.replace("_ns", "_cores"), colour: v(`u-${label}`), values: of(key),
    })), { format: (x) => digits(x, 3), label: `busy cores, of ${cores}` });
  },
  "cpu-owners": (args) => {
    const rows = machine(pick(args)).host.over_time, ends = rows.map((r) => r.end_ns), seconds = lengths(ends);
    const cores = machine(pick(args)).cores.length;
    return stacks(ends, Object.keys(rows[0].cpu).map((o, k) => ({
      label: ownerOf(o), csv: o.replace(/_ns$/, "_cores"), colour: seriesColour(k), values: rows.map((r, i) => r.cpu[o] / 1e9 / seconds[i]),
    })), { format: (x) => digits(x, 3), label: `busy cores, of ${cores}` });
  },
  cores: (args) => cores(machine(pick(args)).host.over_time),
  memory: (args) => {
    const rows = machine(pick(args)).host.over_time;
    const owners = [...new Set(rows.flatMap((r) => Object.keys(r.memory)))];
    return stacks(rows.map((r) => r.end_ns), owners.map((o, k) => ({
      label: ownerOf(o), csv: o, colour: seriesColour(k), values: rows.map((r) => r.memory[o] ?? 0),
    })), { format: size, label: "host memory" });
  },
  power: (args) => {
    const rows = machine(pick(args)).energy_over_time, ends = rows.map((r) => r.end_ns), seconds = lengths(ends);
    const states = Object.keys(rows[0]).filter((k) => k.endsWith("_j"));
    return stacks(ends, states.map((s, k) => ({
      label: s.replace(/_j$/, ""), csv: s.replace(/_j$/, "_w"), colour: [v("c-padding"), v("l-ftl"), v("read"), v("write"), v("c-erase")][k] ?? seriesColour(k),
      values: rows.map((r, i) => r[s] / seconds[i]),
    })), { format: (x) => `${digits(x, 3)} W`, label: "power of the drive" });
  },
  heat: (args) => heat(pick(args), args.ddir),
  "lun-busy": (args, choice) => {
    const flash = machine(pick(args)).flash[args.drive ?? 0], by = flash.busy_by;
    const sum = d3.range(flash.luns).map((lun) => d3.sum(Object.values(by), (list) => list[lun]));
    const values = choice ? by[choice] : sum;
    return { ...grid(flash, values, { format: percent, what: choice ? `busy with ${words(choice)}` : "busy", top: choice ? undefined : 1 }),
      choices: [["", "everything"], ...Object.keys(by).map((name) => [name, words(name)])] };
  },
  "lun-waits": (args, choice) => {
    const flash = machine(pick(args)).flash[args.drive ?? 0], by = flash.read_wait_ns_by;
    const sum = d3.range(flash.luns).map((lun) => d3.sum(Object.values(by), (list) => list[lun]));
    const values = choice ? by[choice] : sum;
    return { ...grid(flash, values, { format: (ns, most) => timeUpTo(most)(ns), what: choice ? `waits for ${words(choice)}` : "waits" }),
      choices: [["", "everything"], ...Object.keys(by).map((name) => [name, words(name)])] };
  },
  slowest: (args) => {
    const list = pick(args).wordline.slowest;
    const name = (l, i) => `${i + 1}. ${l.ddir}, ${l.job ?? `thread ${l.thread}`}`;
    const boxes = list.flatMap((l, i) => {
      let begin = 0;
      const steps = l.steps.map((s) => {
        const box = { row: name(l, i), x1: begin, x2: s.end_ns, layer: s.layer, why: s.why, place: s.place };
        begin = s.end_ns;
        return box;
      });
      if (begin < l.latency_ns) steps.push({ row: name(l, i), x1: begin, x2: l.latency_ns, layer: "several", why: `${l.further_steps} further steps`, place: "" });
      return steps;
    }).filter((b) => b.x2 > b.x1);
    const layers = [...new Set(boxes.map((b) => b.layer))];
    const to = d3.max(list, (l) => l.latency_ns);
    const colour = (l) => (l === "several" ? v("faint") : cssOf("l", l));
    return {
      legend: layers.map((l) => ({ label: l, colour: colour(l), box: true })),
      alt: "The slowest I/Os, step by step",
      csv: boxes.map((b) => ({ io: b.row, layer: b.layer, why: b.why, place: b.place, from_ns: b.x1, to_ns: b.x2 })),
      plot: (width) => {
        const left = Math.min(190, 12 + longest(list.map(name)));
        const inner = width - left - 84;
        const fits = boxes.map((b) => ({ ...b, text: `${b.why}${b.place ? `, ${b.place}` : ""}` }))
          .filter((b) => (b.x2 - b.x1) / to * inner > 6.1 * b.text.length + 8);
        return Plot.plot({
          ...base(width, {}), marginLeft: left, marginRight: 84, marginTop: 8, height: 42 + 27 * list.length,
          x: { domain: [0, to], tickFormat: (x) => time(x, 3), ticks: Math.max(1, Math.min(8, Math.floor(inner / 60))), label: "since the application's call", labelAnchor: "center", labelArrow: "none", grid: true },
          y: { type: "band", domain: list.map(name), label: null, tickSize: 0, padding: .2, tickFormat: (text) => clipped(text, left - 12) },
          marks: [
            Plot.barX(boxes, { x1: "x1", x2: "x2", y: "row", fill: (b) => colour(b.layer) }),
            Plot.text(fits, { x: (b) => (b.x1 + b.x2) / 2, y: "row", text: "text", fill: (b) => `var(--t-${slug(b.layer)}, ${v("on-fill")})`, fontSize: 11 }),
            Plot.text(list, { x: "latency_ns", y: (l, i) => name(l, i), text: (l) => time(l.latency_ns), textAnchor: "start", dx: 6, fill: v("ink") }),
            Plot.tip(along(boxes, inner / to), Plot.pointer({ x: "x", y: "row", maxRadius: 16, fontFamily: "inherit",
              title: (b) => `${b.row}\n${b.layer}, ${b.why}${b.place ? `, ${b.place}` : ""}\n${time(b.x2 - b.x1)}, from ${time(b.x1)} on` })),
          ],
        });
      },
    };
  },
  erases: (args) => {
    const flash = machine(pick(args)).flash[args.drive ?? 0], rows = flash.blocks_by_erases;
    const step = rows.length > 1 ? rows[1][0] - rows[0][0] : 1;
    const bars = rows.map(([from, blocks]) => ({ from, to: from + step - 1, blocks }));
    return {
      legend: [],
      alt: "Blocks by how often they were erased",
      csv: bars.map((b) => ({ erases_from: b.from, erases_to: b.to, blocks: b.blocks })),
      plot: (width) => Plot.plot(base(Math.min(width, 120 + 64 * bars.length), {
        height: 180, x: { type: "band", domain: bars.map((b) => b.from), label: "erases of a block", labelAnchor: "center", labelArrow: "none", tickSize: 0,
          ticks: bars.map((b) => b.from).filter((_, i) => i % Math.ceil(bars.length / 16) === 0), padding: .15 },
        y: linear(d3.max(bars, (b) => b.blocks), "blocks", count).scale,
        marks: [...linear(d3.max(bars, (b) => b.blocks), "blocks", count).marks, Plot.barY(bars, { x: "from", y: "blocks", fill: v("c-erase") }), Plot.ruleY([0]),
          Plot.tip(bars, Plot.pointerX({ x: "from", y: "blocks", fontFamily: "inherit",
            title: (b) => `${b.from === b.to ? b.from : `${b.from} to ${b.to}`} erases\n${b.blocks.toLocaleString("en-US")} blocks` }))],
      })),
    };
  },
};

/* Over time, several results. */
const overlay = (values, options) => {
  const to = d3.max(results, (r) => intervalsOf(r.runs[0]).end_ns.at(-1)) / 1e9;
  const series = results.map((r, i) => ({ label: named(r), colour: seriesColour(i), ...values(r.runs[0]) })).filter((s) => s.ends);
  const points = series.map((s) => spans(s.ends).flatMap((p) => [{ t: p.t0, y: s.values[p.i] }, { t: p.t1, y: s.values[p.i] }])
    .map((p) => (p.y > 0 || !options.log ? p : { ...p, y: NaN })));
  const all = points.flat().map((p) => p.y).filter((y) => y != null && !Number.isNaN(y));
  const y = options.log ? timeAxis(logDomain(all), options.label) : linear(d3.max(all) ?? 1, options.label, options.format);
  const longest = series.reduce((a, b) => (b.ends.length > (a?.ends.length ?? 0) ? b : a), null);
  const rows = !longest ? [] : spans(longest.ends).map((p) => {
    const mid = (p.t0 + p.t1) / 2;
    const value = (s) => s.values[s.ends.findIndex((end) => end / 1e9 >= mid)];
    return { mid, title: [`at ${digits(mid, 4)} s`, ...series.map((s) => `${s.label}  ${value(s) == null ? "–" : options.format(value(s))}`)].join("\n") };
  });
  return {
    legend: series.map(({ label, colour }) => ({ label, colour })),
    alt: `${options.label} over time: ${series.map((s) => s.label).join(", ")}`,
    csv: series.flatMap((s) => spans(s.ends).map((p) => ({ result: s.label, from_s: p.t0, to_s: p.t1, value: s.values[p.i] }))),
    plot: (width) => Plot.plot(base(width, {
      ...PLACE, x: timeX(to, width), y: y.scale,
      marks: [...y.marks, ...series.map((s, k) => Plot.line(points[k], { x: "t", y: "y", stroke: s.colour, strokeWidth: 1.7 })), ...hover(rows)],
    })),
  };
};
charts["rate-compared"] = (args) => overlay((r) => {
  const i = intervalsOf(r), l = i.latency.find((l) => l.ddir === args.ddir);
  return l ? { ends: i.end_ns, values: rates(i, l) } : {};
}, { label: `${args.ddir}s a second`, format: count });
charts["percentile-compared"] = (args) => overlay((r) => {
  const i = intervalsOf(r), l = i.latency.find((l) => l.ddir === args.ddir);
  return l ? { ends: i.end_ns, values: l[args.key] } : {};
}, { label: `latency of ${args.ddir}s, ${args.percent} %`, format: (x) => time(x), log: true });
charts["write-amplification-compared"] = () => overlay((r) => {
  const rows = machine(r).write_amplification.over_time;
  const sum = (x) => x.user_sectors + x.gc_sectors + x.padding_sectors + x.metadata_sectors + (x.folded_sectors || 0) + (x.map_sectors || 0)
    + (x.resubmitted_sectors || 0) + (x.parity_sectors || 0);
  return rows.length ? { ends: rows.map((x) => x.end_ns), values: rows.map((x) => (x.user_sectors > 0 ? sum(x) / x.user_sectors : null)) } : {};
}, { label: "write amplification", format: (x) => digits(x, 3) });

/* A figure of a study: small multiples, a panel each for values of some axes. */
/* Signs of published numbers: in a legend, around 0, 0, and in a picture. */
const SIGNS = {
  point: "M0 -5.2l4.2 5.2l-4.2 5.2l-4.2 -5.2z", part: "M0 -5.2l4.2 5.2l-4.2 5.2l-4.2 -5.2z", mean: "M-4 -4h8v8h-8z",
  ratio: "M0 -5l5 9h-10z", below: "M-7 -3h14M0 -3v8m-3 -3l3 3l3 -3", above: "M-7 3h14M0 3v-8m-3 3l3 -3l3 3",
};
const SYMBOLS = { point: "diamond", part: "diamond", mean: "square", ratio: "triangle" };
/* Ticks that leave room for their words. */
const roomy = (ticks, name, place) => {
  let free = -Infinity;
  return new Set(ticks.filter((t) => {
    const half = name(t).length * 3.6;
    if (place(t) - half < free) return false;
    free = place(t) + half + 6;
    return true;
  }));
};
charts.study = (args) => {
  const f = data.figures[args.figure];
  const visible = ([x, y]) => (!f.log_x || x > 0) && (!f.log_y || y > 0);
  const boxes = f.drawn === "bar" || f.drawn === "stack";
  const dash = (i) => (i >= 8 ? "5 3" : undefined);
  /* On a bar of its own colour a sign is not seen. */
  const ink = (curve) => (curve == null || boxes ? v("ink") : seriesColour(curve));
  const nameX = (x) => (f.words.length ? f.words[x] ?? "" : digits(x, 4));
  const nameY = (y) => digits(y, 4);
  const bars = f.drawn === "bar" || f.drawn === "dot" ? f.curves.length : 1;
  const place = (x, curve) => (bars > 1 && curve != null ? x + (curve - (bars - 1) / 2) * .8 / bars : x);
  const half = Math.min(.36 / bars, .2);
  const foot = (p, curve, x) => d3.sum(p.series.filter((s) => f.drawn === "stack" && s.curve < curve), (s) => s.points.find((q) => q[0] === x)?.[1] ?? 0);
  const many = d3.max(f.panels.flatMap((p) => p.series), (s) => s.points.length) > 64;
  const shownX = (x, to) => (x === to ? nameX(x) : `${nameX(x)} to ${nameX(to)}`);
  const halfOf = (s, x) => (s.halves ?? []).find((h) => h.x === x)?.half;
  const spread = (s, x) => (halfOf(s, x) == null ? "" : ` ± ${digits(halfOf(s, x), 2)}`);
  const one = (p, width, height, margins) => {
    const points = p.series.map((s) => ({ ...s, points: s.points.filter(visible) }));
    const marks = p.marks.filter((m) => visible([m.x, m.y]));
    const [low, high] = p.range_y;
    const ticksY = f.log_y ? logTicks(low, high, height < 300 ? 6 : 9) : d3.ticks(low, high, height < 300 ? 4 : 5);
    const left = 18 + d3.max(ticksY, (t) => nameY(t).length) * 7;
    const inner = width - left - margins.right;
    const [from, to] = f.range_x;
    const across = f.log_x ? d3.scaleLog([from, to], [0, inner]) : d3.scaleLinear([from, to], [0, inner]);
    const ticksX = f.words.length ? d3.range(f.words.length) : f.ticks.length ? f.ticks
      : f.log_x ? logTicks(from, to, inner < 460 ? 5 : 9) : d3.ticks(from, to, inner < 460 ? 4 : 9);
    const slanted = margins.slanted;
    const named = slanted ? new Set(ticksX) : roomy(ticksX, nameX, across);
    const at = [...d3.rollup([
      ...points.flatMap((s) => s.points.map(([x, y]) => ({ x, text: `${f.curves[s.curve] || f.y}  ${nameY(y)}${spread(s, x)}` }))),
      ...marks.map((m) => ({ x: m.x, text: `published${m.curve == null ? "" : ` ${f.curves[m.curve]}`}  ${m.text}` })),
    ], (rows) => rows, (r) => r.x)].map(([x, rows]) => ({ x, title: [nameX(x), ...rows.map((r) => r.text)].join("\n") }));
    const rects = boxes ? points.flatMap((s) => s.points.map(([x, y]) => ({
      x1: place(x, s.curve) - half, x2: place(x, s.curve) + half, y1: foot(p, s.curve, x), y2: foot(p, s.curve, x) + y, fill: seriesColour(s.curve),
    }))) : [];
    /* A mark of one place is a short line there. */
    const wide = (m) => {
      const [begin, end] = [across(place(m.x, m.curve)), across(place(m.to, m.curve))];
      const middle = (begin + end) / 2, reach = Math.max(9, (end - begin) / 2);
      return { ...m, x1: Math.max(from, across.invert(middle - reach)), x2: Math.min(to, across.invert(middle + reach)), middle: across.invert(middle) };
    };
    /* The intervals of means, as far as the axis goes. */
    const intervals = points.flatMap((s) => (s.halves ?? []).map((h, i) => {
      const base = foot(p, s.curve, h.x) + h.y;
      return { x: s.places[i], y: h.y, at: h.x, y1: Math.max(low, base - h.half), y2: base + h.half, stroke: boxes ? v("ink") : seriesColour(s.curve) };
    })).filter((h) => visible([h.at, h.y]));
    const bounds = marks.filter((m) => m.how === "below" || m.how === "above").map(wide);
    const spans = marks.filter((m) => m.how === "mean" && m.x !== m.to).map(wide);
    const signs = marks.filter((m) => m.how !== "below" && m.how !== "above").map(wide);
    /* A label stays inside of its panel. */
    const label = (m) => {
      const reach = m.label.length * 3.1;
      return across.invert(reach * 2 > inner ? inner / 2 : Math.min(inner - reach, Math.max(reach, across(m.middle))));
    };
    return Plot.plot({
      width, height, marginLeft: left, marginRight: margins.right, marginTop: 26, marginBottom: margins.bottom,
      style: base(width).style,
      x: { type: f.log_x ? "log" : "linear", domain: [from, to], axis: null },
      y: { type: f.log_y ? "log" : "linear", domain: [low, high], axis: null, label: null },
      marks: [
        ...axisY(ticksY, nameY, f.y),
        Plot.axisX(ticksX, { text: (x) => (named.has(x) ? nameX(x) : ""), tickRotate: slanted ? -35 : 0, tickSize: 4, label: f.x, labelAnchor: "center", labelArrow: "none" }),
        ...(low < 0 || boxes ? [Plot.ruleY([Math.max(low, 0)], { stroke: v("muted"), strokeOpacity: .6 })] : []),
        Plot.rect(rects, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "fill" }),
        ...(f.drawn === "line" ? points.map((s) => Plot.line(s.points, { x: "0", y: "1", stroke: seriesColour(s.curve), strokeWidth: 2, strokeDasharray: dash(s.curve) })) : []),
        ...(boxes || many ? [] : points.map((s) => Plot.dot(s.points, { x: (q) => place(q[0], s.curve), y: "1", fill: seriesColour(s.curve), r: f.drawn === "dot" ? 4 : 3 }))),
        Plot.ruleX(intervals, { x: "x", y1: "y1", y2: "y2", stroke: "stroke", strokeWidth: 1.2, marker: "tick-x" }),
        ...spans.map((m) => Plot.ruleY([m], { x1: "x1", x2: "x2", y: "y", stroke: ink(m.curve), strokeWidth: 1.6, strokeDasharray: "6 3" })),
        ...bounds.flatMap((m) => [
          Plot.ruleY([m], { x1: "x1", x2: "x2", y: "y", stroke: ink(m.curve), strokeWidth: 1.6, strokeDasharray: "6 3" }),
          Plot.text([m], { x: "middle", y: "y", text: [m.how === "below" ? "↓" : "↑"], dy: m.how === "below" ? 7 : -7, fill: ink(m.curve), fontWeight: 700 }),
          Plot.text([m], { x: label(m), y: "y", text: "label", dy: m.how === "below" ? -7 : 9, fill: ink(m.curve), fontSize: 11, stroke: v("paper"), strokeWidth: 3 }),
        ]),
        ...signs.map((m) => Plot.dot([m], { x: "middle", y: "y", symbol: SYMBOLS[m.how], r: 5, fill: v("paper"), stroke: ink(m.curve), strokeWidth: 1.8 })),
        Plot.ruleX(at, Plot.pointerX({ x: "x", maxRadius: Infinity, stroke: v("muted") })),
        Plot.tip(at, Plot.pointerX({ x: "x", maxRadius: Infinity, frameAnchor: "top", title: "title", fontFamily: "inherit" })),
      ],
    });
  };
  return {
    legend: [...(f.curves.length > 1 ? f.curves.map((label, i) => ({ label, colour: seriesColour(i), dash: dash(i), box: boxes })) : []),
      ...f.ways.map(([how, label]) => ({ label, colour: v("ink"), mark: SIGNS[how] })),
      ...(f.interval ? [{ label: f.interval, colour: v("ink"), mark: "M-3 -5h6m-3 0v10m-3 0h6" }] : [])],
    alt: `${f.title}: ${[...f.panels.map((p) => p.name), ...f.curves].filter((name) => name).join(", ")}`,
    csv: f.panels.flatMap((p) => [
      ...p.series.flatMap((s) => s.points.map(([x, y]) => ({ panel: p.name, curve: f.curves[s.curve], whose: "here", x: nameX(x), value: y, ...(f.interval ? { half_width_95: halfOf(s, x) ?? "" } : {}) }))),
      ...p.marks.map((m) => ({ panel: p.name, curve: m.curve == null ? "" : f.curves[m.curve], whose: f.ways.find(([how]) => how === m.how)[1], x: shownX(m.x, m.to), value: m.y, ...(f.interval ? { half_width_95: "" } : {}) })),
    ]),
    plot: (width) => {
      const alone = f.panels.length === 1;
      const columns = alone ? 1 : Math.max(1, Math.min(f.columns, Math.floor(width / (f.words.length ? 300 : 210))));
      const wide = alone ? width : (width - (columns - 1) * 12) / columns;
      const longest = d3.max(f.words, (w) => w.length) ?? 0;
      const slanted = f.words.length > 0 && longest * 6.8 > (wide - 80) / f.words.length - 8;
      const margins = { right: alone ? 18 : 8, slanted, bottom: slanted ? Math.min(120, 44 + longest * 4.2) : 38 };
      if (alone) return one(f.panels[0], width, 322 + margins.bottom, margins);
      const high = 190 + margins.bottom, step = high + 26;
      const rows = Math.ceil(f.panels.length / columns);
      const NS = "http://www.w3.org/2000/svg";
      const svg = document.createElementNS(NS, "svg");
      for (const [k, value] of Object.entries({ width, height: rows * step, viewBox: `0 0 ${width} ${rows * step}`, "font-size": 12, fill: "currentColor" })) svg.setAttribute(k, value);
      f.panels.forEach((p, i) => {
        const [x, y] = [(i % columns) * (wide + 12), Math.floor(i / columns) * step];
        const name = document.createElementNS(NS, "text");
        for (const [k, value] of Object.entries({ x: x + 2, y: y + 16, "font-weight": 600 })) name.setAttribute(k, value);
        name.textContent = p.name;
        const plot = one(p, wide, high, margins);
        plot.setAttribute("x", x);
        plot.setAttribute("y", y + 22);
        // A sheet's rule for pictures would give it the height of the whole.
        Object.assign(plot.style, { width: `${wide}px`, height: `${high}px`, maxWidth: "none" });
        // Where nothing is painted a picture inside of another does not feel the pointer.
        const ground = document.createElementNS(NS, "rect");
        for (const [k, value] of Object.entries({ width: wide, height: high, fill: "none", "pointer-events": "all" })) ground.setAttribute(k, value);
        plot.prepend(ground);
        svg.append(name, plot);
      });
      return svg;
    },
  };
};

/* Drawing. */
const sample = (l) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", l.box ? 12 : 22);
  svg.setAttribute("height", 12);
  svg.innerHTML = l.mark ? `<path transform="translate(11 6)" d="${l.mark}" fill="none" stroke="${l.colour}" stroke-width="1.7"/>`
    : l.box ? `<rect y="1" width="11" height="11" rx="2" fill="${l.colour}"/>`
    : `<line x1="0" x2="22" y1="6.5" y2="6.5" stroke="${l.colour}" stroke-width="${l.width ?? 2.4}"${l.dash ? ` stroke-dasharray="${l.dash}"` : ""}/>`;
  return svg;
};
const widthOf = (figure) => Math.floor(figure.querySelector(".plot").clientWidth);
const draw = (figure, width = widthOf(figure)) => {
  const place = figure.querySelector(".plot");
  if (!width || figure.drawn === `${width} ${figure.choice ?? ""}`) return;
  const args = JSON.parse(figure.dataset.args || "{}");
  const chart = charts[figure.dataset.chart](args, figure.choice || undefined);
  figure.chart = chart;
  const svg = chart.plot(width);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", chart.alt);
  place.replaceChildren(svg);
  const legend = figure.querySelector(".legend");
  legend.replaceChildren(...(chart.legend.length > 1 || !isOne ? chart.legend : []).map((l) => $("li", {}, sample(l), l.label)));
  if (chart.choices && !figure.chooser) {
    const select = $("select", { "aria-label": "what is shown" }, ...chart.choices.map(([value, label]) => $("option", { value }, label)));
    select.addEventListener("change", () => { figure.choice = select.value; draw(figure); });
    figure.querySelector("h3").after(select);
    figure.chooser = select;
  }
  figure.drawn = `${width} ${figure.choice ?? ""}`;
};

/* Saving. */
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-family",
  "font-weight", "text-anchor", "font-variant-numeric", "display"];
const plainColour = (() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  return (colour) => {
    if (!colour || colour === "none" || !/[(]/.test(colour) || colour.startsWith("url")) return colour;
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return a === 255 ? `rgb(${r},${g},${b})` : a === 0 ? "none" : `rgba(${r},${g},${b},${(a / 255).toFixed(3)})`;
  };
})();
const settle = (from, to) => {
  const style = getComputedStyle(from);
  for (const name of STYLES) {
    const value = style.getPropertyValue(name);
    if (value) to.setAttribute(name, name === "fill" || name === "stroke" ? plainColour(value) : value);
  }
  to.removeAttribute("class");
  to.removeAttribute("style");
  [...from.children].forEach((child, i) => settle(child, to.children[i]));
};
const saved = (figure) => {
  const NS = "http://www.w3.org/2000/svg";
  const from = figure.querySelector(".plot svg");
  const inner = from.cloneNode(true);
  settle(from, inner);
  inner.querySelectorAll("style, [aria-label=tip]").forEach((e) => e.remove());
  const [width, height] = [Number(from.getAttribute("width")), Number(from.getAttribute("height"))];
  const css = getComputedStyle(document.body);
  const text = (x, y, content, more) => {
    const t = document.createElementNS(NS, "text");
    for (const [k, value] of Object.entries({ x, y, "font-family": "sans-serif", "font-size": 12, fill: plainColour(css.color), ...more })) t.setAttribute(k, value);
    t.textContent = content;
    return t;
  };
  const group = document.createElementNS(NS, "g");
  group.append(text(8, 20, figure.querySelector("h3").textContent, { "font-size": 15, "font-weight": 600 }));
  let [x, y] = [8, 42];
  for (const li of figure.querySelectorAll(".legend li")) {
    const long = li.textContent.length * 6.6 + 44;
    if (x + long > width && x > 8) [x, y] = [8, y + 18];
    const key = li.querySelector("svg").cloneNode(true);
    settle(li.querySelector("svg"), key);
    key.setAttribute("x", x);
    key.setAttribute("y", y - 10);
    group.append(key, text(x + Number(key.getAttribute("width")) + 6, y, li.textContent));
    x += long;
  }
  const top = figure.querySelector(".legend li") ? y + 12 : 30;
  const svg = document.createElementNS(NS, "svg");
  for (const [k, value] of Object.entries({ xmlns: NS, width, height: height + top, viewBox: `0 0 ${width} ${height + top}` })) svg.setAttribute(k, value);
  const ground = document.createElementNS(NS, "rect");
  for (const [k, value] of Object.entries({ width: "100%", height: "100%", fill: plainColour(css.backgroundColor) })) ground.setAttribute(k, value);
  inner.setAttribute("y", top);
  svg.append(ground, group, inner);
  return { text: new XMLSerializer().serializeToString(svg), width, height: height + top };
};
const csv = (rows) => {
  const cell = (x) => (x == null ? "" : /[",\n]/.test(x) ? `"${String(x).replaceAll('"', '""')}"` : String(x));
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((n) => row[n]))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
};
const download = (name, blob) => {
  const a = $("a", { href: URL.createObjectURL(blob), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
};
const save = {
  SVG: (figure, name) => download(`${name}.svg`, new Blob([saved(figure).text], { type: "image/svg+xml" })),
  PNG: (figure, name) => {
    const { text, width, height } = saved(figure), image = new Image();
    image.onload = () => {
      const canvas = $("canvas", { width: width * 2, height: height * 2 });
      canvas.getContext("2d").drawImage(image, 0, 0, width * 2, height * 2);
      canvas.toBlob((blob) => download(`${name}.png`, blob));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  },
  CSV: (figure, name) => download(`${name}.csv`, new Blob([csv(figure.chart.csv)], { type: "text/csv" })),
};

const figures = [...document.querySelectorAll("figure[data-chart]")];
for (const figure of figures) {
  const buttons = Object.keys(save).map((kind) => {
    const button = $("button", { type: "button", title: `save as ${kind}` }, kind);
    button.addEventListener("click", () => save[kind](figure, figure.id || figure.dataset.chart));
    return button;
  });
  figure.querySelector(".head").append($("span", { class: "save" }, ...buttons));
}
/* All widths before the first picture: each would be measured anew after one. */
const drawAll = () => {
  const widths = figures.map(widthOf);
  figures.forEach((figure, i) => draw(figure, widths[i]));
};
drawAll();
let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 120); });
const theme = document.getElementById("theme");
/* Paper has nothing to unfold. */
const folded = [...document.querySelectorAll("#run details")];
addEventListener("beforeprint", () => folded.forEach((d) => { d.was = d.open; d.open = true; }));
addEventListener("afterprint", () => folded.forEach((d) => { d.open = d.was; }));
theme.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
window.wordline = { data, saved, csv, figures };
})();
