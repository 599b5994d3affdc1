"""What came of a run."""

from __future__ import annotations

import html
import io
import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _wordline
from ._arguments import native_number, whole_number
from .distribution import Distribution, beyond, checked_percent, percentile_of_counts
from .errors import FormatError, InputError, in_python, need

if TYPE_CHECKING:
    import pandas
    import polars

    from .plot import Plots

DIRECTIONS = ("read", "write", "trim")
# Those whose latency is told: syncs have no bytes.
TIMED = (*DIRECTIONS, "sync")
# Of metrics() and summary(), in per cent.
_PERCENTS = (50, 99, 99.9, 99.99, 99.999)
_FORMATS = ("normal", "terse", "json", "json+")
# Of a saved result. A number for every change that older readers would misread, or that older files lack.
_FORMAT, _FORMAT_VERSION = "wordline result", 4
_MAX_MEMBER_BYTES = 4 << 30
# The lives of all I/Os that were kept, as a report has them.
_LIVES = "slowest.txt"


def _in_ns(name: str) -> str:
    return f"{name.replace(' ', '_')}_ns"


def _column(percent: float) -> str:
    return f"p{percent:g}_ns".replace(".", "_")


# The numbers that metrics() may have. Each direction that had I/Os has its own.
METRICS = (
    *(
        f"{direction}_{what}"
        for direction in DIRECTIONS
        for what in ("ios", "iops", "bytes_per_s", "mean_ns", *map(_column, _PERCENTS), "max_ns")
    ),
    "syncs",
    *(f"sync_{what}" for what in ("mean_ns", *map(_column, _PERCENTS), "max_ns")),
    "write_amplification",
    "simulated_s",
    "watts",
    "warnings",
)


class Series(Mapping[str, NDArray[Any]]):
    """Columns of equal length. Their names end in their units."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return list(self._columns)

    @property
    def rows(self) -> int:
        """The length of each."""
        return len(next(iter(self._columns.values()), np.empty(0)))

    def to_pandas(self) -> pandas.DataFrame:
        """The same as pandas has it."""
        module: Any = need("pandas", "pandas", "to_pandas()")
        # A row of a histogram is one value there.
        columns = {name: values if values.ndim == 1 else list(values) for name, values in self._columns.items()}
        frame: pandas.DataFrame = module.DataFrame(columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The same as polars has it."""
        module: Any = need("polars", "polars", "to_polars()")
        frame: polars.DataFrame = module.DataFrame(self._columns)
        return frame

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        body = ""
        for row in list(zip(*(values[:20] for values in self._columns.values()))):
            cells = "".join(f"<td style='text-align:right'>{_cell(v)}</td>" for v in row)
            body += f"<tr>{cells}</tr>"
        more = "" if self.rows <= 20 else f"<p>{self.rows - 20} further rows</p>"
        return f"<table><tr>{head}</tr>{body}</table>{more}"

    def __repr__(self) -> str:
        return f"Series({self.rows} rows: {', '.join(self._columns)})"


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:,.4g}" if abs(float(value)) < 1e4 else f"{value:,.0f}"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return html.escape(str(value))


@dataclass(frozen=True)
class Direction:
    """Reads, writes or trims, of a thread or of all. ``began_ns`` is when the first thread began with them, behind its
    ramp. ``runtime_ns`` is for how long threads did them: where several did at once, that time counts once."""

    name: str
    ios: int
    bytes: int
    began_ns: int
    runtime_ns: int
    latency: Distribution
    completion_latency: Distribution
    submission_latency: Distribution

    @property
    def iops(self) -> float:
        """I/Os a second."""
        return self.ios * 1e9 / self.runtime_ns if self.runtime_ns else 0.0

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bytes a second."""
        return self.bytes * 1e9 / self.runtime_ns if self.runtime_ns else 0.0

    def _with(self, other: Direction, runtime_ns: int) -> Direction:
        return Direction(
            self.name,
            self.ios + other.ios,
            self.bytes + other.bytes,
            min(self.began_ns, other.began_ns),
            runtime_ns,
            self.latency.merge(other.latency),
            self.completion_latency.merge(other.completion_latency),
            self.submission_latency.merge(other.submission_latency),
        )


@dataclass(frozen=True)
class Thread:
    """What a thread of a job did."""

    name: str
    number: int
    about: Mapping[str, Any]
    read: Direction | None
    write: Direction | None
    trim: Direction | None

    def direction(self, name: str) -> Direction | None:
        """One of them by its name."""
        return {"read": self.read, "write": self.write, "trim": self.trim}[_direction(name)]


# The share of a latency, in per cent, that a delay has at least to be told, as in the text report.
DELAY_AT_LEAST = 5.0


@dataclass(frozen=True)
class Breakdown:
    """Where the time of I/Os went, layer by layer: at the mean, and of the I/Os at percentiles.

    ``delays`` are what was in the way, each the layer and the reason: waits, and work that not every I/O has.
    ``by_delay_ns`` has a column for each; what is left of its layer in ``by_layer_ns`` is the layer's ordinary work."""

    direction: str
    layers: tuple[str, ...]
    rows: tuple[str, ...]
    latency_ns: NDArray[np.float64]
    by_layer_ns: NDArray[np.float64]
    delays: tuple[tuple[str, str], ...]
    by_delay_ns: NDArray[np.float64]

    @classmethod
    def _of(cls, table: Mapping[str, Any], layers: Sequence[str]) -> Breakdown:
        """From a result's table of a direction."""
        at = table["at"]
        splits = [table["mean_by_delay_ns"], *(row["by_delay_ns"] for row in at)]
        # The mean is over all I/Os, so that it has every reason, in order.
        found = dict.fromkeys((layer, why) for split in splits for layer in split for why in split[layer])
        delays = sorted(found, key=lambda delay: layers.index(delay[0]))
        return cls(
            table["ddir"],
            tuple(layers),
            ("mean", *(f"p{row['percentile']:g}" for row in at)),
            np.array([table["mean_ns"], *(row["latency_ns"] for row in at)], dtype=float),
            np.array([table["mean_by_layer_ns"], *(row["by_layer_ns"] for row in at)]),
            tuple(delays),
            np.array([[split.get(layer, {}).get(why, 0.0) for layer, why in delays] for split in splits]),
        )

    def delay_shares(self) -> NDArray[np.float64]:
        """The share of each delay in the latency of each row, in per cent."""
        latency = self.by_layer_ns.sum(axis=1)[:, None]
        shares: NDArray[np.float64] = 100 * self.by_delay_ns / np.where(latency > 0, latency, 1)
        return shares

    def told_delays(self, at_least: float = DELAY_AT_LEAST) -> list[int]:
        """Which of ``delays`` have ``at_least`` so many per cent of the latency of a row, and any time at all."""
        at_least = native_number(at_least)
        if isinstance(at_least, bool) or not isinstance(at_least, (int, float)) or not at_least >= 0:
            raise InputError(f"at_least {at_least!r}: a share in per cent, 0 or more")
        most = self.delay_shares().max(axis=0, initial=0)
        return [i for i in range(len(self.delays)) if most[i] > 0 and most[i] >= at_least]

    def series(self, at_least: float = DELAY_AT_LEAST) -> Series:
        """A row for the mean and each percentile, a column for each layer that had a part. Behind a layer's column are
        those of what was in the way in it, as far as a row has ``at_least`` so many per cent of its latency from it (0: all,
        ``float("inf")``: none). They are parts of the layer's: the layers alone sum to the latency."""
        columns: dict[str, NDArray[Any]] = {
            "at": np.array(self.rows),
            "latency_ns": self.latency_ns,
        }
        told = self.told_delays(at_least)
        for i, layer in enumerate(self.layers):
            if self.by_layer_ns[:, i].any():
                columns[_in_ns(layer)] = self.by_layer_ns[:, i]
            for d in told:
                if self.delays[d][0] == layer:
                    columns[_in_ns(" ".join(self.delays[d]))] = self.by_delay_ns[:, d]
        return Series(columns)

    def to_pandas(self, at_least: float = DELAY_AT_LEAST) -> pandas.DataFrame:
        """:meth:`series`, as pandas has it."""
        return self.series(at_least).to_pandas()

    def to_polars(self, at_least: float = DELAY_AT_LEAST) -> polars.DataFrame:
        """:meth:`series`, as polars has it."""
        return self.series(at_least).to_polars()

    def __repr__(self) -> str:
        shares = self.delay_shares()

        def part(row: int, i: int) -> str:
            of = [d for d, (layer, _) in enumerate(self.delays) if layer == self.layers[i]]
            of = sorted((d for d in of if shares[row, d] >= DELAY_AT_LEAST), key=lambda d: -shares[row, d])
            delays = ", ".join(f"{self.delays[d][1]} {shares[row, d]:.1f} %" for d in of)
            return f"{self.layers[i]} {self.by_layer_ns[row, i] / 1e3:.1f} us" + (f" ({delays})" if of else "")

        lines = [f"Breakdown of {self.direction}s, the three longest parts of each, and what was in the way:"]
        for row, name in enumerate(self.rows):
            split = self.by_layer_ns[row]
            longest = [int(i) for i in np.argsort(-split, kind="stable")[:3] if split[i] > 0]
            parts = ", ".join(part(row, i) for i in longest)
            lines.append(f"  {name}: {self.latency_ns[row] / 1e3:.1f} us: {parts}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._html import breakdown_html

        return breakdown_html(self)


@dataclass(frozen=True)
class Life:
    """An I/O from the application's call to its return."""

    direction: str
    thread: str
    offset_bytes: int
    size_bytes: int
    begin_ns: int
    end_ns: int
    spent_ns: Mapping[str, int]
    steps: tuple[Mapping[str, Any], ...]

    @property
    def latency_ns(self) -> int:
        """From the call to the return."""
        return self.end_ns - self.begin_ns

    def __repr__(self) -> str:
        longest = sorted(self.spent_ns.items(), key=lambda item: -item[1])[:3]
        spent = ", ".join(f"{layer} {ns / 1e3:.1f} us" for layer, ns in longest)
        return f"Life({self.direction} of {self.thread}, {self.latency_ns / 1e3:.1f} us: {spent})"

    def _repr_html_(self) -> str:
        from ._html import life_html

        return life_html(self)


class _Source(Protocol):
    def text(self, format: str, slowest: int) -> str: ...
    def document(self) -> str: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def over_time_csv(self) -> str: ...
    def write_timeline(self, path: str | os.PathLike[str]) -> None: ...
    def write_logs(self, folder: str | os.PathLike[str]) -> list[str]: ...


class _Saved:
    """A result that was read from a file."""

    def __init__(self, name: str, members: Mapping[str, bytes]) -> None:
        self._name = name
        self._members = members

    def __str__(self) -> str:
        return self._name

    def _member(self, name: str) -> bytes:
        try:
            return self._members[name]
        except KeyError:
            raise FormatError(f"{self._name}: no {name} in it: the file is not whole") from None

    def text(self, format: str, slowest: int) -> str:
        if format not in _FORMATS:
            raise ValueError(f"no format '{format}': use {', '.join(_FORMATS)}")
        text = self._member(f"report.{format}").decode()
        return text + self._lives(slowest) if format == "normal" and slowest > 0 else text

    def _lives(self, most: int) -> str:
        """What a report ends with: of each direction so many of the slowest."""
        if _LIVES not in self._members:
            raise InputError(f"{self._name}: it has no text of the slowest I/Os: see Result.slowest")
        paragraphs = self._members[_LIVES].decode().split("\n\n")
        ranks = [re.match(r"\n?#(\d+) ", paragraph) for paragraph in paragraphs]
        told = (text for rank, text in zip(ranks, paragraphs) if rank is None or int(rank[1]) <= most)
        return "\n\n".join(told).rstrip("\n") + "\n"

    def document(self) -> str:
        return self._member("document.json").decode()

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {}
        for name, data in self._members.items():
            if name.endswith(".npy"):
                arrays[name[: -len(".npy")]] = np.load(io.BytesIO(data), allow_pickle=False)
        return arrays

    def over_time_csv(self) -> str:
        return self._member("over_time.csv").decode()

    def write_timeline(self, path: str | os.PathLike[str]) -> None:
        raise InputError(f"{self._name}: a saved result has no timeline: write it before")

    def write_logs(self, folder: str | os.PathLike[str]) -> list[str]:
        raise InputError(f"{self._name}: a saved result has its logs as arrays: see Result.logs")


def _direction(name: str) -> str:
    if name not in DIRECTIONS:
        raise InputError(f"direction '{name}': use read, write or trim")
    return name


def _timed(name: str) -> str:
    if name not in TIMED:
        raise InputError(f"direction '{name}': use read, write, trim or sync")
    return name


# No latency is longer.
_ANY = 1 << 63
_EMPTY = {"count": 0, "min_ns": 0, "max_ns": 0, "mean_ns": 0.0, "stddev_ns": 0.0}


class Result:
    """What came of a run: numbers, tables, pictures, and the command line's own reports."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    # What was run.

    @cached_property
    def _document(self) -> dict[str, Any]:
        text = self._source.document()
        try:
            document: dict[str, Any] = json.loads(text)
        except ValueError:
            raise FormatError(
                f"{self._source}: document.json in it is damaged: take another copy, or repeat the run"
            ) from None
        return document

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = self._source.arrays()
        for values in arrays.values():
            values.flags.writeable = False
        return arrays

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What was run: version, profiles, workload, seed, overrides."""
        return dict(self._document["provenance"])

    def _in_python(self, message: str) -> str:
        """A message about the run in the words of this package."""
        jobs = [thread["name"] for thread in self._document["threads"]]
        return in_python(message, [*jobs, str(self._document["provenance"]["device"])])

    @property
    def label(self) -> str:
        """The run in a few words, for legends."""
        about = self._document["provenance"]
        overrides = "".join(f" {one}" for one in about["overrides"])
        return f"{about['device']} {about['ftl']}{overrides}"

    @property
    def ended(self) -> str:
        """``complete``, ``limit`` (its time was over), ``interrupted`` or ``failed``."""
        return str(self._document["ended"])

    @property
    def interrupted(self) -> bool:
        """The user stopped it: the numbers are of the part before that."""
        return bool(self.ended == "interrupted")

    @property
    def failure(self) -> str | None:
        """Why the numbers are not those of a whole run."""
        failure = self._document["failure"]
        return None if failure is None else self._in_python(str(failure))

    @property
    def prepared(self) -> str:
        """The state that the run found the drive in."""
        return str(self._document["prepared"])

    @property
    def warnings(self) -> list[str]:
        """What may mislead about the numbers, and remedies in the words of :func:`wordline.run`."""
        return [self._in_python(one) for one in self._document["warnings"]]

    @property
    def notes(self) -> list[str]:
        """Remarks: options without meaning, dropped lines of traces, and the like."""
        return [self._in_python(one) for one in self._document["notes"]]

    @property
    def machine(self) -> Mapping[str, Any]:
        """What the machine did meanwhile, whole."""
        return dict(self._document["machine"])

    @property
    def simulated_ns(self) -> int:
        """Simulated time of the run."""
        return int(self._document["machine"]["simulated_ns"])

    @property
    def counters(self) -> dict[str, int]:
        """Counters of FTL, device and host, by name."""
        return dict(self._document["machine"]["counters"])

    @property
    def write_amplification(self) -> float | None:
        """Sectors that flash programs for each that users wrote, of whatever cause and parity included: what wears it
        and takes its time. None if users wrote nothing. :attr:`write_amplification_by_cause` is its parts."""
        factor = self._document["machine"]["write_amplification"]["factor_with_parity"]
        return None if factor is None else float(factor)

    @property
    def write_amplification_by_cause(self) -> dict[str, float]:
        """What write amplification is the sum of: ``user`` (1), ``gc``, ``folded`` (of drives that moved data out of a
        buffer in SLC mode), ``map`` (of drives with a part of their map in memory), ``padding``, ``metadata``, ``resubmitted`` (after programs that failed) and ``parity``, each in sectors for each that users wrote."""
        of = self._document["machine"]["write_amplification"]
        users = of["user_sectors"]
        causes = ("user", "gc", "folded", "map", "padding", "metadata", "resubmitted", "parity")
        return {cause: of[f"{cause}_sectors"] / users for cause in causes if f"{cause}_sectors" in of} if users else {}

    @property
    def programs(self) -> list[dict[str, Any]]:
        """What programs did (``app``, ``with_``), as ``wordline.app`` of the JSON has it: of each ``name``, ``per_s``, and by
        operation the count, the rate and the latency."""
        return list(self._document["programs"])

    # Latency.

    def _distribution(self, key: str, exact: Mapping[str, float]) -> Distribution:
        counts = self._arrays.get(key)
        if counts is None:
            counts = np.zeros(len(_wordline.bucket_midpoints()), dtype=np.int64)
        return Distribution(counts, exact)

    @cached_property
    def threads(self) -> list[Thread]:
        """The threads of jobs, in order of start; a job's clones are threads of its name."""
        threads = []
        for t, about in enumerate(self._document["threads"]):
            directions: dict[str, Direction | None] = dict.fromkeys(DIRECTIONS)
            for name, of in about["directions"].items():
                key = f"threads/{t}/{name}"
                directions[name] = Direction(
                    name,
                    of["ios"],
                    of["bytes"],
                    of["began_ns"],
                    of["runtime_ns"],
                    self._distribution(f"{key}/lat", of["lat"]),
                    self._distribution(f"{key}/clat", of["clat"]),
                    self._distribution(f"{key}/slat", of["slat"]),
                )
            threads.append(Thread(about["name"], about["number"], about, **directions))
        return threads

    def _of(self, job: str) -> list[Thread]:
        threads = [thread for thread in self.threads if thread.name == job]
        if not threads:
            names = ", ".join(dict.fromkeys(thread.name for thread in self.threads))
            raise KeyError(f"no job '{job}': there are {names}")
        return threads

    def __getitem__(self, job: str) -> Thread:
        """The thread of a job that has one."""
        threads = self._of(job)
        if len(threads) > 1:
            raise InputError(
                f"job '{job}' has {len(threads)} threads: direction('read', job='{job}') is what they did together, and "
                "threads has each"
            )
        return threads[0]

    def direction(self, name: str, job: str | None = None) -> Direction | None:
        """All reads, writes or trims, of all jobs that are reported (`stats=0` is not) or of one."""
        _direction(name)
        chosen = [t for t in self.threads if t.about.get("reported", True)] if job is None else self._of(job)
        of = [thread.direction(name) for thread in chosen]
        each = [one for one in of if one is not None]
        ran = _wordline.covered([(one.began_ns, one.began_ns + one.runtime_ns) for one in each])
        return reduce(lambda total, one: total._with(one, ran), each) if each else None

    @cached_property
    def read(self) -> Direction | None:
        """All reads."""
        return self.direction("read")

    @cached_property
    def write(self) -> Direction | None:
        """All writes."""
        return self.direction("write")

    @cached_property
    def trim(self) -> Direction | None:
        """All trims."""
        return self.direction("trim")

    @cached_property
    def sync(self) -> Distribution | None:
        """Latency of all fsyncs and fdatasyncs of the jobs; None without one."""
        return self.latency("sync")

    def latency(self, name: str, job: str | None = None) -> Distribution | None:
        """Total latency of all reads, writes, trims or syncs, of all jobs or of one; None without one, and where jobs do not
        keep it (``disable_lat``, ``gtod_reduce``)."""
        if _timed(name) != "sync":
            of = self.direction(name, job)
            return None if of is None or of.latency.count == 0 else of.latency
        if job is not None:
            self._of(job)
        total: Distribution | None = None
        for t, about in enumerate(self._document["threads"]):
            chosen = about.get("reported", True) if job is None else job == about["name"]
            if about["sync"]["count"] > 0 and chosen:
                one = self._distribution(f"threads/{t}/sync/lat", about["sync"])
                total = one if total is None else total.merge(one)
        return total

    @property
    def directions(self) -> list[Direction]:
        """Those that had any I/O."""
        return [one for one in (self.read, self.write, self.trim) if one is not None]

    def _main(self, direction: str | None) -> str:
        """The direction meant where none is named: the first that had I/Os."""
        if direction is not None:
            return _timed(direction)
        if not self.directions:
            raise InputError("the run has no I/O: there is no latency to tell")
        return self.directions[0].name

    def percentiles(self, direction: str | None = None, job: str | None = None) -> Series:
        """Percentiles of total latency, as far as an I/O lies beyond them."""
        of = self.latency(self._main(direction), job)
        all_of_them = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999)
        told = [(p, None if of is None else of.percentile_or_none(p)) for p in all_of_them]
        there = [(p, ns) for p, ns in told if ns is not None]
        at = np.array([p for p, _ in there], dtype=float)
        return Series({"percentile": at, "latency_ns": np.array([ns for _, ns in there], dtype=np.int64)})

    def breakdown(self, direction: str | None = None) -> Breakdown:
        """Where the time of reads, writes, trims or syncs went, and what was in the way."""
        name = self._main(direction)
        for table in self._document["machine"]["layers"]:
            if table["ddir"] == name:
                return Breakdown._of(table, self._document["layers"])
        raise InputError(f"breakdown: the run has no {name}s")

    @cached_property
    def slowest(self) -> list[Life]:
        """The slowest reads that were kept, then the slowest writes, trims and syncs; of each the slowest first."""
        lives = []
        for life in self._document["slowest"]:
            lives.append(
                Life(
                    life["ddir"],
                    self._document["threads"][life["job"]]["name"],
                    life["offset_bytes"],
                    life["len_bytes"],
                    life["begin_ns"],
                    life["end_ns"],
                    life["spent_ns"],
                    tuple(life["steps"]),
                )
            )
        return lives

    # Over time.

    @property
    def interval_ns(self) -> int:
        """Length of the intervals of latency over time."""
        interval = self._document["over_time_interval_ns"]
        if interval is None:
            raise InputError("latency over time was not kept: run with over_time=True")
        return int(interval)

    def latency_counts(self, direction: str | None = None) -> NDArray[np.int64]:
        """I/Os by interval (rows) and bucket of latency (columns): a view."""
        name = self._main(direction)
        interval = self.interval_ns
        matrix = self._arrays.get(f"over_time/{name}")
        if matrix is None:
            raise InputError(f"latency over time: the run has no {name}s (intervals of {interval} ns)")
        return matrix

    def series(self, of: str = "read", percents: tuple[float, ...] = (50, 99, 99.9)) -> Series:
        """The run in intervals.

        ``read``, ``write``, ``trim``, ``sync``: I/Os a second, nan in a ramp, and percentiles of latency, nan where less
        than one of the interval's I/Os lies beyond. ``programs``: sectors programmed and why. ``host``: what cores did. ``energy``: joules by what they were for.
        """
        if of in TIMED:
            for percent in percents:
                checked_percent(percent)
            return self._latency_series(of, percents)
        if of == "programs":
            rows = self._document["machine"]["write_amplification"]["over_time"]
            causes = ("user", "gc", "padding", "metadata", "folded", "map", "resubmitted", "parity")
            return _pairs(rows, [f"{cause}_sectors" for cause in causes])
        if of == "energy":
            machine = self._document["machine"]
            names = [f"{name.replace(' ', '_')}_j" for name, _ in machine["energy_by_state_j"]]
            return _pairs(machine["energy_over_time"], names)
        if of == "host":
            return self._host_series()
        raise InputError(f"series '{of}': use read, write, trim, sync, programs, host or energy")

    def _latency_series(self, name: str, percents: tuple[float, ...]) -> Series:
        matrix, step = self.latency_counts(name), self.interval_ns
        of = self.latency(name)
        fastest, slowest = (0, _ANY) if of is None else (of.min_ns, of.max_ns)
        begin = np.arange(len(matrix), dtype=np.int64) * step
        end = np.minimum(begin + step, self.simulated_ns)
        ios = matrix.sum(axis=1)
        # What came back in a ramp is not counted.
        rows = self._document["machine"]["intervals"]["latency"]
        counted = end - begin
        for a, b in next((row.get("uncounted_ns", []) for row in rows if row["ddir"] == name), []):
            counted = counted - np.maximum(np.minimum(end, b) - np.maximum(begin, a), 0)
        columns: dict[str, NDArray[Any]] = {
            "begin_s": begin / 1e9,
            "end_s": end / 1e9,
            "ios": ios,
            "iops": np.where(counted > 0, ios / np.maximum(counted / 1e9, 1e-9), np.nan),
        }
        for percent in percents:
            # A percentile is the middle of a bucket, which may lie beyond the fastest or the slowest of all.
            values = [
                min(max(percentile_of_counts(row, percent), fastest), slowest) if beyond(int(n), percent) else np.nan
                for row, n in zip(matrix, ios)
            ]
            columns[_column(percent)] = np.array(values, dtype=float)
        return Series(columns)

    def _host_series(self) -> Series:
        host = self._document["machine"]["host"]
        names = (
            "user_ns system_ns interrupt_ns idle_ns looks interrupts context_switches loads stores"
        ).split()
        rows = [(row["end_ns"], row["totals"]) for row in (host or {}).get("over_time", [])]
        return _pairs(rows, names)

    @cached_property
    def logs(self) -> dict[str, Series]:
        """Logs that jobs asked for (``write_lat_log`` and its kind), by the names that fio's files have."""
        found: dict[str, dict[str, NDArray[Any]]] = {}
        for key, values in self._arrays.items():
            if key.startswith("logs/"):
                name, column = key[len("logs/") :].rsplit("/", 1)
                found.setdefault(name, {})[column] = values
        return {name: Series(columns) for name, columns in found.items()}

    def write_logs(self, folder: str | os.PathLike[str] = ".") -> list[str]:
        """Writes the logs that jobs asked for as fio's files; their paths."""
        return [os.fspath(path) for path in self._source.write_logs(os.fspath(folder))]

    def write_timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace for Perfetto, of a run with ``timeline``."""
        try:
            self._source.write_timeline(os.fspath(path))
        except ValueError as error:
            raise InputError(str(error)) from None

    # Tables.

    def summary(self) -> Series:
        """A row for each direction. A percentile that less than one I/O lies beyond is nan."""
        rows = self.directions
        columns: dict[str, NDArray[Any]] = {
            "direction": np.array([one.name for one in rows]),
            "ios": np.array([one.ios for one in rows]),
            "iops": np.array([one.iops for one in rows]),
            "bandwidth_bytes_per_s": np.array([one.bandwidth_bytes_per_s for one in rows]),
            "mean_ns": np.array([one.latency.mean_ns if one.latency.count else np.nan for one in rows]),
        }
        for p in _PERCENTS:
            told = [one.latency.percentile_or_none(p) for one in rows]
            columns[_column(p)] = np.array([np.nan if ns is None else ns for ns in told], dtype=float)
        columns["max_ns"] = np.array([one.latency.max_ns if one.latency.count else np.nan for one in rows])
        return Series(columns)

    def metrics(self) -> dict[str, float | str | None]:
        """The numbers of the run by names, for tables of many runs. A percentile that less than one I/O lies beyond is
        None: its place is the slowest I/O's. So is a latency that jobs do not keep. ``op_PROGRAM_OPERATION_...`` are operations of programs.
        ``write_amplification`` is with parity."""
        row: dict[str, float | str | None] = {}
        for one in self.directions:
            row[f"{one.name}_ios"] = one.ios
            row[f"{one.name}_iops"] = one.iops
            row[f"{one.name}_bytes_per_s"] = one.bandwidth_bytes_per_s
            row[f"{one.name}_mean_ns"] = one.latency.mean_ns if one.latency.count else None
            for p in _PERCENTS:
                row[f"{one.name}_{_column(p)}"] = one.latency.percentile_or_none(p)
            row[f"{one.name}_max_ns"] = one.latency.max_ns if one.latency.count else None
        if self.sync is not None:
            row["syncs"] = self.sync.count
            row["sync_mean_ns"] = self.sync.mean_ns
            for p in _PERCENTS:
                row[f"sync_{_column(p)}"] = self.sync.percentile_or_none(p)
            row["sync_max_ns"] = self.sync.max_ns
        for program in self.programs:
            for operation, of in program["operations"].items():
                name = re.sub(r"\W", "_", f"op_{program['name']}_{operation}")
                row[f"{name}_count"] = of["total"]
                row[f"{name}_per_s"] = of["per_s"]
                row[f"{name}_mean_ns"] = of["lat_ns"]["mean"]
                for p, ns in of["lat_ns"]["percentile"].items():
                    if float(p) in _PERCENTS:
                        row[f"{name}_{_column(float(p))}"] = ns if beyond(of["total"], float(p)) else None
                row[f"{name}_max_ns"] = of["lat_ns"]["max"]
        row["write_amplification"] = self.write_amplification
        row["simulated_s"] = self.simulated_ns / 1e9
        row["watts"] = self._document["machine"]["total_w"]
        row["ended"] = self.ended
        row["warnings"] = len(self.warnings)
        return row

    def _table(self, table: str) -> Series:
        if table == "summary":
            return self.summary()
        if table == "percentiles":
            return self.percentiles()
        if table == "breakdown":
            return self.breakdown().series()
        return self.series(table)

    def to_pandas(self, table: str = "summary") -> pandas.DataFrame:
        """A table: summary, percentiles, breakdown, or a kind of :meth:`series`."""
        return self._table(table).to_pandas()

    def to_polars(self, table: str = "summary") -> polars.DataFrame:
        """A table: summary, percentiles, breakdown, or a kind of :meth:`series`."""
        return self._table(table).to_polars()

    # Reports of the command line.

    def json(self, plus: bool = False) -> str:
        """fio's JSON, or JSON+, as ``wordline run`` writes it: byte by byte of a run with as many ``slowest`` (``--slowest``),
        which are in it."""
        return self._source.text("json+" if plus else "json", 0)

    def report(self, slowest: int = 0) -> str:
        """The report that ``wordline run`` prints, with the lives of so many of the slowest I/Os."""
        return self._source.text("normal", whole_number("slowest", slowest, "slowest"))

    def terse(self) -> str:
        """fio's terse output."""
        return self._source.text("terse", 0)

    def over_time_csv(self) -> str:
        """The machine in intervals, as ``wordline run --over-time`` writes it."""
        return self._source.over_time_csv()

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keeps all of it but a timeline in one file, which appears when it is complete."""
        path = os.fspath(path)
        head = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "wordline": self._document["provenance"]["version"],
        }
        members = self._members()

        def write(file: Any) -> None:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                # One date for all, so that equal results are equal files.
                def put(name: str, data: bytes) -> None:
                    about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                    about.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(about, data)

                put("format.json", json.dumps(head).encode())
                for name, data in members.items():
                    put(name, data)

        write_whole(path, write)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        """A result that :meth:`save` kept."""
        return load(path)

    def _members(self) -> dict[str, bytes]:
        """All that is kept of it, as files."""
        members = {"document.json": self._source.document().encode()}
        members["over_time.csv"] = self.over_time_csv().encode()
        for format in _FORMATS:
            members[f"report.{format}"] = self._source.text(format, 0).encode()
        try:
            whole = self._source.text("normal", max(len(self.slowest), 1))
            members[_LIVES] = whole.encode()[len(members["report.normal"]) :]
        except InputError:
            # It was read from a file without them.
            pass
        for name, values in self._arrays.items():
            data = io.BytesIO()
            np.save(data, values, allow_pickle=False)
            members[f"{name}.npy"] = data.getvalue()
        return members

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._members(),)

    # Pictures.

    @property
    def plot(self) -> Plots:
        """Pictures: ``plot.cdf()``, ``breakdown()``, ``over_time()``, ``heatmap()``, ``compare()``, by matplotlib or with
        ``backend="plotly"``."""
        from .plot import Plots

        return Plots(self)

    def __repr__(self) -> str:
        parts = []
        for one in self.directions:
            part = f"{one.name} {one.iops:,.0f} IOPS"
            if one.latency.count:
                part += f", p99 {one.latency.percentile_ns(99) / 1e3:,.0f} us"
            parts.append(part)
        state = "" if self.failure is None else f", {self.ended}"
        return f"Result({self.label}: {'; '.join(parts) or 'no I/O'}{state})"

    def _repr_html_(self) -> str:
        from ._html import result_html

        return result_html(self)


def _pairs(rows: Any, names: list[str]) -> Series:
    """Rows of the end of an interval and numbers within it."""
    values = np.array([row[1] for row in rows], dtype=float)
    columns: dict[str, NDArray[Any]] = {"end_s": np.array([row[0] for row in rows]) / 1e9}
    for i, name in enumerate(names):
        columns[name] = values[:, i] if len(rows) else np.empty(0)
    return Series(columns)


def _unpickled(members: dict[str, bytes]) -> Result:
    return Result(_Saved("a result that was sent", members))


def write_whole(path: str, write: Any) -> None:
    """Writes a file that appears under its name only when it is complete."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, unfinished = tempfile.mkstemp(prefix=".wordline-", dir=folder)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot write {path}: {error.strerror}: name another place"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, path)
    except BaseException as error:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        if isinstance(error, OSError):
            raise OSError(
                error.errno,
                f"cannot write {path}: {error.strerror}: free space there or name another place; "
                "nothing new was left there",
            ) from error
        raise


def load(path: str | os.PathLike[str]) -> Result:
    """A result that :meth:`Result.save` kept."""
    path = os.fspath(path)
    members = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for about in archive.infolist():
                if about.file_size > _MAX_MEMBER_BYTES:
                    raise FormatError(f"{path}: {about.filename} in it is too long: the file is damaged")
                members[about.filename] = archive.read(about)
        head = json.loads(members["format.json"])
        known = head["format"] == _FORMAT
    except FormatError:
        raise
    # A damaged byte may be one of the way that a member is packed or ciphered.
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, TypeError, RuntimeError):
        with open(path, "rb") as file:
            if file.read(64).lstrip().startswith(b"{"):
                raise FormatError(
                    f"{path}: JSON, as wordline run --output-format json writes it, and no result of Result.save: "
                    "read it with json.load, make a page of it with wordline report, or repeat the run by "
                    "wordline.run and keep that with Result.save"
                ) from None
        raise FormatError(
            f"{path}: not a result, or not a whole one: name a file that Result.save wrote"
        ) from None
    if not known:
        raise FormatError(f"{path}: not a result: name a file that Result.save wrote")
    if head.get("format_version") != _FORMAT_VERSION:
        raise FormatError(
            f"{path}: saved by wordline {head.get('wordline')} in format {head.get('format_version')}, this is "
            f"{_wordline.VERSION} with format {_FORMAT_VERSION}: run it again, or read it with that version"
        )
    return Result(_Saved(path, members))
