"""Many runs: grids and lists of points, on this machine or a cluster, kept as Parquet."""

from __future__ import annotations

import hashlib
import html
import inspect
import io
import itertools
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _build, _points, _wordline
from ._arguments import a, native_number, table
from ._html import told
from ._points import Measure, Point, Row
from ._progress import Line
from ._run import replay_request, run_request
from .device import Device
from .errors import FormatError, InputError, SweepError, native, nearest, need, read_text
from .result import write_whole

if TYPE_CHECKING:
    import pandas
    import polars

_FORMAT, _FORMAT_VERSION = "wordline sweep", 2
#: Seconds after which rows are written at the latest.
FLUSH_S = 10.0
_ARGUMENTS = frozenset(
    name
    for function in (run_request, replay_request)
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD
)


def grid(axes: Mapping[str, Iterable[Any]] | None = None, /, **more: Iterable[Any]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the last axis fastest.

    >>> grid(ftl=["pblk", "rail"], iodepth=[1, 8])[1]
    {'ftl': 'pblk', 'iodepth': 8}
    """
    all_axes = {**(axes or {}), **more}
    for name, values in all_axes.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise InputError(f"axis {name}: {values!r} is no list of values: write [{values!r}]")
    columns = [list(values) for values in all_axes.values()]
    for name, column in zip(all_axes, columns):
        if not column:
            raise InputError(f"axis {name}: no value: leave it out or give one")
    return [dict(zip(all_axes, values)) for values in itertools.product(*columns)]


def arguments(point: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """A point's arguments of :func:`wordline.run`, laid over what all have in common.

    A key with a dot is a setting (``ftl.over_provisioning``). Another that is no argument of ``run`` is a variable of the
    job's text, or an option of the job where there is no text.
    """
    found = dict(common)
    settings = table("set", found.get("set"))
    variables = table("variables", found.get("variables"))
    texts = isinstance(point.get("job", found.get("job")), (str, os.PathLike))
    for key, value in point.items():
        if key == "set":
            settings.update(table(key, value))
        elif key == "variables":
            variables.update(table(key, value))
        elif key in _ARGUMENTS:
            found[key] = value
        elif "." in key:
            settings[key] = value
        elif texts:
            variables[key] = value
        else:
            found[key] = value
    if settings:
        found["set"] = settings
    if variables:
        found["variables"] = variables
    return found


def _shipped(found: dict[str, Any]) -> dict[str, Any]:
    """With the text of a job file: other machines may not have the file."""
    job = found.get("job")
    path = isinstance(job, os.PathLike) or (
        isinstance(job, str) and "\n" not in job and not job.lstrip().startswith("[")
    )
    if path:
        try:
            return {**found, "job": read_text(job).rstrip("\n") + "\n"}
        except InputError as error:
            raise InputError(f"job: {error}") from None
    return found


def _meaning(request: str, found: Mapping[str, Any]) -> str:
    """What a request stands for here: the profiles, programs, included jobs and environment that it names, and what is in
    the traces and states that it reads. Another meaning is another point."""
    try:
        text, files = _wordline.meaning(request)
    except _wordline.InputError:
        # It is refused, or its files are a cluster's.
        text, files = "", []
    digest = hashlib.sha256(text.encode())
    trace = found.get("trace")
    files += [found.get("load_state")]
    files += [trace] if trace is None or isinstance(trace, (str, os.PathLike)) else list(trace)
    for name in files:
        if isinstance(name, (str, os.PathLike)) and os.path.isfile(name):
            with open(name, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _point(index: int, point: Mapping[str, Any], common: Mapping[str, Any], measure: str, kept: bool) -> Point:
    taken = sorted(filter(_points.is_taken, point))
    if taken:
        raise InputError(
            f"point {index}: {taken[0]} is a column of each row, with a number of its run: give the axis another name"
        )
    found = _shipped(arguments(point, common))
    # A copy of a drive that is filled at most costs what another one does.
    aged = found.get("precondition") in ("steady", "random", "paced")
    defaults = {"slowest": 0, "over_time": False, "share": aged}
    try:
        if "trace" in found:
            known = inspect.signature(replay_request).parameters
            other = next((name for name in found if name not in known), None)
            if other is not None:
                raise InputError(f"{other}: no argument of wordline.replay{nearest(other, known)}")
            request = replay_request(**{**defaults, **found})
        else:
            request = run_request(**{**defaults, **found})
    except (InputError, TypeError) as error:
        raise InputError(f"point {index} {_words(point)}: {error}") from None
    text = json.dumps(request, sort_keys=True)
    meaning = _meaning(text, found) if kept else ""
    key = hashlib.sha256(f"{_build.identity()}\n{measure}\n{meaning}\n{text}".encode())
    run = request["run"]
    drive = [request["machine"], run.get("precondition"), run.get("seed"), run.get("integrity")]
    if run.get("precondition") in ("steady", "random"):
        drive.append(request["work"])
    group = hashlib.sha256(json.dumps(drive, sort_keys=True).encode())
    return Point(index, key.hexdigest()[:24], text, group.hexdigest()[:16], tuple(point))


def _words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in point.items())


def _plain(value: Any) -> Any:
    """A point's value as a table can have it."""
    value = native_number(value)
    if isinstance(value, Device):
        return value.name
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


class _Store:
    """A folder with what is done: parts in Parquet, and a manifest that lists them. Each file is whole."""

    def __init__(self, folder: str, points: int, measure: str) -> None:
        self.polars: Any = need("polars", "sweep", "a sweep that is kept")
        self.folder = folder
        try:
            os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
            self.lock = self._locked()
        except OSError as error:
            raise OSError(
                error.errno, f"cannot write {folder}: {error.strerror}: name another folder"
            ) from None
        self.manifest: dict[str, Any] = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "wordline": _wordline.VERSION,
            "build": _build.identity(),
            "measure": measure,
            "parts": [],
        }
        self.rows: dict[str, Row] = {}
        self.damaged: list[str] = []
        try:
            self._read()
        except BaseException:
            # Who has the error has this, and would keep others out.
            self.close()
            raise
        self.manifest["points"] = points

    def _locked(self) -> Any:
        import fcntl

        lock = open(os.path.join(self.folder, ".lock"), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SweepError(
                f"{self.folder}: another sweep writes there: wait for it, or name another folder"
            ) from None
        return lock

    def _path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def _read(self) -> None:
        try:
            with open(self._path("manifest.json"), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return
        except ValueError:
            raise FormatError(
                f"{self._path('manifest.json')}: not the manifest of a sweep: remove it or name another folder"
            ) from None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise FormatError(
                f"{self._path('manifest.json')}: not the manifest of a sweep: name another folder"
            )
        if found.get("format_version") != _FORMAT_VERSION:
            raise FormatError(
                f"{self.folder}: made by wordline {found.get('wordline')} in format {found.get('format_version')}, "
                f"this is {_wordline.VERSION} with {_FORMAT_VERSION}: name another folder, or go on with that version"
            )
        if found.get("build") != _build.identity():
            raise FormatError(
                f"{self.folder}: made by build {found.get('build')} of wordline {found.get('wordline')}, whose rows "
                f"may be others; this is {_build.named(_build.identity())}: name another folder, or go on with that "
                "build"
            )
        parts = found.get("parts")
        if not isinstance(parts, list) or not all(isinstance(p, dict) and {"file", "sha256"} <= set(p) for p in parts):
            raise FormatError(
                f"{self._path('manifest.json')}: not the manifest of a sweep: its parts are not listed: remove it or name "
                "another folder"
            )
        for part in parts:
            try:
                with open(self._path("parts", part["file"]), "rb") as file:
                    data = file.read()
            except OSError:
                data = b""
            if hashlib.sha256(data).hexdigest() != part["sha256"]:
                self.damaged.append(part["file"])
                continue
            self.manifest["parts"].append(part)
            for row in self.polars.read_parquet(io.BytesIO(data)).to_dicts():
                self.rows[row["key"]] = row

    def add(self, rows: Sequence[Row]) -> None:
        """One more part."""
        number = max((int(part["file"][5:-8]) for part in self.manifest["parts"]), default=0) + 1
        data = self._parquet(rows)
        file = f"part-{number:06}.parquet"
        write_whole(self._path("parts", file), lambda to: to.write(data))
        about = {"file": file, "rows": len(rows), "sha256": hashlib.sha256(data).hexdigest()}
        self.manifest["parts"].append(about)
        self._write_manifest()

    def _parquet(self, rows: Sequence[Row]) -> bytes:
        data = io.BytesIO()
        try:
            frame = self.polars.DataFrame(list(rows), infer_schema_length=None, strict=False)
            frame.write_parquet(data)
        except (self.polars.exceptions.PolarsError, TypeError) as error:
            raise SweepError(
                f"measure: a table cannot have its values ({error}): let each of its columns be numbers or text"
            ) from error
        return data.getvalue()

    def _write_manifest(self) -> None:
        text = json.dumps(self.manifest, indent=1) + "\n"
        write_whole(self._path("manifest.json"), lambda to: to.write(text.encode()))

    def finish(self, rows: Sequence[Row], complete: bool) -> None:
        """The table of all, and the manifest's last word."""
        if rows:
            data = self._parquet(rows)
            write_whole(self._path("results.parquet"), lambda to: to.write(data))
        wrong = [{"index": row["index"], "error": row["error"]} for row in rows if row["error"]]
        self.manifest["done"], self.manifest["failed"] = len(rows) - len(wrong), len(wrong)
        # The others are in the table.
        self.manifest["first_failed"] = wrong[:100]
        self.manifest["complete"] = complete
        self._write_manifest()

    def close(self) -> None:
        self.lock.close()


class Sweep(Sequence[Row]):
    """A row for each point that came to an end: its own values, the numbers of its run, and what went wrong."""

    def __init__(self, rows: Sequence[Row], points: int, interrupted: bool, folder: str | None) -> None:
        self._rows = list(rows)
        self.points = points
        self.interrupted = interrupted
        self.folder = folder

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def failures(self) -> dict[int, str]:
        """Why points failed, by their number."""
        return {row["index"]: row["error"] for row in self._rows if row["error"]}

    @property
    def good(self) -> list[Row]:
        """Rows of the points that did not."""
        return [row for row in self._rows if not row["error"]]

    def column(self, name: str) -> list[Any]:
        """A number of every point that did not fail."""
        if self._rows and all(name not in row for row in self._rows):
            known = ", ".join(self._columns())
            raise InputError(f"column '{name}': there are {known}")
        return [row.get(name) for row in self.good]

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self._rows for key in row))

    def to_polars(self) -> polars.DataFrame:
        """All rows, as polars has them."""
        module: Any = need("polars", "polars", "to_polars()")
        frame: polars.DataFrame = module.DataFrame(
            self._rows, infer_schema_length=None, strict=False
        )
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """All rows, as pandas has them."""
        module: Any = need("pandas", "pandas", "to_pandas()")
        frame: pandas.DataFrame = module.DataFrame(self._rows)
        return frame

    def __repr__(self) -> str:
        failures = f", {len(self.failures)} failed" if self.failures else ""
        warned = sum(bool(row.get("warned")) for row in self._rows)
        state = f", {warned} with warnings (column warned)" if warned else ""
        state += ", interrupted" if self.interrupted else ""
        return f"Sweep({len(self)} of {self.points} point{'' if self.points == 1 else 's'}{failures}{state})"

    def _repr_html_(self) -> str:
        hidden = {"key", "wall_s", "warned"}
        names = [
            name
            for name in self._columns()
            if name not in hidden and any(row.get(name) is not None for row in self._rows)
        ]

        def cell(name: str, value: Any) -> str:
            return f"<td style='text-align:right'>{html.escape(told(name, value))}</td>"

        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(cell(name, row.get(name)) for name in names)}</tr>" for row in self._rows[:50]
        )
        more = f"<p>{len(self) - 50} further rows</p>" if len(self) > 50 else ""
        return f"<p>{html.escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>{more}"


class _Shown:
    """A line about a sweep."""

    def __init__(self, progress: bool | None, points: int, done: int) -> None:
        self.line = Line(progress)
        self.points, self.first = points, done

    def draw(self, done: int, failed: int) -> None:
        rate = (done - self.first) / max(time.monotonic() - self.line.begun, 1e-9)
        left = f", {(self.points - done) / rate:.0f} s to go" if rate > 0 else ""
        wrong = f", {failed} failed" if failed else ""
        self.line.draw(f"{done:,} of {self.points:,} points{wrong}, {rate:.1f} a second{left}")

    def close(self) -> None:
        self.line.close()


def sweep(
    points: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    executor: Any = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    measure: Measure | None = None,
    retry_failed: bool = True,
    flush_s: float = FLUSH_S,
    progress: bool | None = None,
    **common: Any,
) -> Sweep:
    """Runs many points, each a call of :func:`wordline.run`, or of :func:`wordline.replay` where it has a ``trace``, with
    its own arguments laid over those all share.

    ``points`` is a mapping of axes to values (see :func:`grid`) or a list of mappings. A key with a dot is a setting
    of the machine; another that is no argument of ``run`` is a variable ``${key}`` of the job's text, or an option of
    the job where it is given by options. A row has the numbers of ``Result.metrics`` and what ``measure(result)``
    returns.

    ``executor`` is ``"processes"`` (the default, ``workers`` of them), ``"inline"``, an executor of
    ``concurrent.futures``, or a ``Client`` of Dask distributed. Points that begin with the same aged drive run one
    after the other in a process that keeps it.

    With ``out`` rows are kept in that folder as they come, at least every ``flush_s`` seconds: parts in Parquet and
    a manifest, each file whole at any time; at the end all of them are in ``results.parquet``. The same call goes on
    where an earlier one was stopped, by whatever means. A point that fails is a row with its reason in ``error``;
    the next call tries it again unless ``retry_failed`` is false. Where all points are refused for one and the same
    reason, as a setting that there is none of, the sweep raises that before anything runs. Ctrl-C ends a sweep with the
    rows so far.
    """
    return swept(
        points,
        executor=executor,
        workers=workers,
        out=out,
        measure=measure,
        retry_failed=retry_failed,
        flush_s=flush_s,
        progress=progress,
        refuse=True,
        **common,
    )


def swept(
    points: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    executor: Any,
    workers: int | None,
    out: str | os.PathLike[str] | None,
    measure: Measure | None,
    retry_failed: bool,
    flush_s: float,
    progress: bool | None,
    refuse: bool,
    **common: Any,
) -> Sweep:
    """:func:`sweep`, which with ``refuse`` raises what is wrong with all points alike."""
    listed = grid(points) if isinstance(points, Mapping) else _listed(points)
    name = "" if measure is None else _source(measure)
    folder = None if out is None else os.fspath(out)
    todo = [_point(i, point, common, name, folder is not None) for i, point in enumerate(listed)]
    own = [{key: _plain(value) for key, value in point.items()} for point in listed]
    # One that was begun goes on with the rows that it has.
    if refuse and not (folder and os.path.exists(folder)):
        _refuse_all(todo, executor)
    store = None if folder is None else _Store(folder, len(todo), name)
    try:
        return _run(todo, own, store, folder, _Order(executor, workers, measure, retry_failed, flush_s), progress)
    finally:
        if store is not None:
            store.close()


def _listed(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Points as mappings of their own."""
    if isinstance(points, str) or not isinstance(points, Iterable):
        raise InputError(f"points: {a(points)}: give a mapping of axes, or a list of points as wordline.grid makes it")
    listed = list(points)
    for index, point in enumerate(listed):
        if not isinstance(point, Mapping):
            raise InputError(f"point {index}: {a(point)}: give a mapping, as in {{'iodepth': 8}}")
    return [dict(point) for point in listed]


def _refuse_all(points: Sequence[Point], executor: Any) -> None:
    """Raises why all of several points are refused, if it is one reason. Where one is not refused, each is a row."""
    reason: str | None = None
    for point in points if len(points) > 1 else ():
        request = json.loads(point.request)
        # A cluster may have files that are not here.
        if not (executor is None or isinstance(executor, str)) and _names_files(request):
            return
        try:
            _wordline.check(point.request)
            return
        except _wordline.InputError as error:
            found = str(native(error, request))
            if reason is not None and _unset(found) != _unset(reason):
                return
            reason = reason or found
    if reason is not None:
        raise InputError(f"each of the {len(points)} points: {reason}")


def _unset(reason: str) -> str:
    """A reason without the value of the setting that it is about, which is a point's own."""
    return re.sub(r"^set=\{('[^']*'): '[^']*'\}", r"\1", reason)


def _names_files(request: Any) -> bool:
    """Whether some text in a request may be the path of a file."""
    if isinstance(request, Mapping):
        return any(_names_files(value) for value in request.values())
    if isinstance(request, (list, tuple)):
        return any(_names_files(value) for value in request)
    return isinstance(request, str) and "\n" not in request and ("/" in request or request.endswith(".toml"))


class _Order:
    def __init__(
        self, executor: Any, workers: int | None, measure: Measure | None, retry: bool, flush_s: float
    ) -> None:
        if not isinstance(flush_s, (int, float)) or not flush_s > 0 or math.isinf(flush_s):
            raise InputError(f"flush_s {flush_s!r}: must be a time above 0")
        self.executor, self.workers, self.measure = executor, workers, measure
        self.retry, self.flush_s = retry, flush_s


def _source(measure: Measure) -> str:
    """What a measure is: another text is another measure."""
    try:
        return inspect.getsource(measure)
    except (OSError, TypeError):
        return getattr(measure, "__qualname__", repr(measure))


def _run(
    todo: Sequence[Point],
    own: Sequence[Row],
    store: _Store | None,
    folder: str | None,
    order: _Order,
    progress: bool | None,
) -> Sweep:
    rows: dict[int, Row] = {}
    for point in todo:
        row = None if store is None else store.rows.get(point.key)
        if row is not None and not (row["error"] and order.retry):
            # A column of a file has values of one kind: the point's own have theirs.
            rows[point.index] = {**row, **own[point.index], "index": point.index}
    left = [point for point in todo if point.index not in rows]
    wrong = sum(bool(row["error"]) for row in rows.values())
    shown = _Shown(progress, len(todo), len(rows))
    unwritten: list[Row] = []
    written, interrupted = time.monotonic(), False

    def flush() -> None:
        nonlocal written
        if store is not None and unwritten:
            store.add(unwritten)
            unwritten.clear()
        written = time.monotonic()

    try:
        if left:
            source = _points.pool(order.executor, order.workers).run(left, order.measure)
            try:
                for row in source:
                    row = {**own[row["index"]], **row}
                    rows[row["index"]] = row
                    unwritten.append(row)
                    wrong += bool(row["error"])
                    shown.draw(len(rows), wrong)
                    if time.monotonic() - written >= order.flush_s:
                        flush()
            except KeyboardInterrupt:
                interrupted = True
            finally:
                source.close()
                flush()
        done = [rows[index] for index in sorted(rows)]
        if store is not None:
            store.finish(done, len(done) == len(todo))
    except OSError as error:
        raise SweepError(f"{error}; the same call goes on with what is whole in {folder}") from error
    finally:
        shown.close()
    return Sweep(done, len(todo), interrupted, folder)
