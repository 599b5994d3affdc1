"""A point of a sweep, from its request to its row; and what runs many of them at once."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _build, _wordline, _worker
from ._arguments import checked, native_number
from .errors import Error, InputError, MissingPackage, SweepError, VersionError, native
from .result import METRICS

Row = dict[str, Any]
Measure = Callable[..., Mapping[str, Any]]

_COLUMNS = frozenset({"index", "key", "error", "wall_s", "warned", "ended", *METRICS})


def is_taken(name: str) -> bool:
    """Whether a row has a column of this name by itself, so that neither a point nor a measure can have it."""
    return name in _COLUMNS or name.startswith("op_")


@dataclass(frozen=True)
class Point:
    """What is to run."""

    index: int
    key: str
    request: str
    # Points that may begin with the same aged drive.
    group: str
    # Columns that the row has of the point itself.
    names: tuple[str, ...] = ()


def packed(measure: Measure | None) -> bytes | None:
    """A function in a form that other processes can take."""
    if measure is None:
        return None
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]

        data: bytes = cloudpickle.dumps(measure)
        return data
    except ImportError:
        pass
    if getattr(measure, "__module__", None) == "__main__" or "<" in getattr(
        measure, "__qualname__", "<"
    ):
        raise MissingPackage(
            "measure: other processes cannot import a function of a script or notebook: put it into a module, or "
            "pip install cloudpickle"
        )
    return pickle.dumps(measure)


def unpacked(data: bytes | None) -> Measure | None:
    """The function again."""
    measure: Measure | None = None if data is None else pickle.loads(data)
    return measure


def run_point(point: Point, measure: Measure | None) -> Row:
    """A point's row. What goes wrong with it is in the row, and others go on."""
    from ._run import execute

    begun = time.perf_counter()
    row: Row = {"index": point.index, "key": point.key, "error": None}
    try:
        request = json.loads(point.request)
        if "study" in request:
            row["result"] = _wordline.study_point(request["study"])
            return row
        result = execute(request, False)
        if result.interrupted:
            raise KeyboardInterrupt
        row.update(result.metrics())
        row["warned"] = "\n".join(result.warnings) or None
        if measure is not None:
            # Of numpy's numbers Python's own, which a row that was kept has too.
            more = {name: native_number(value) for name, value in dict(measure(result)).items()}
            taken = sorted(name for name in more if is_taken(name) or name in point.names)
            if taken:
                raise InputError(f"measure: {taken[0]} is a column of each row already: give it another name")
            row.update(more)
    except Error as error:
        row["error"] = str(error)
    except (_wordline.InputError, _wordline.RunError) as error:
        row["error"] = str(native(error))
    except Exception as error:
        row["error"] = f"measure: {type(error).__name__}: {error}"
    row["wall_s"] = time.perf_counter() - begun
    return row


def run_batch(build: str, points: Sequence[Point], measure: bytes | None) -> list[Row]:
    """Rows of several points, in a process of a cluster."""
    here = _build.identity()
    if build != here:
        raise VersionError(
            f"this worker has build {here} of wordline and the client build {build}: install the same on both"
        )
    function = unpacked(measure)
    return [run_point(point, function) for point in points]


def failed(point: Point, why: str) -> Row:
    """The row of a point that came to no end."""
    return {"index": point.index, "key": point.key, "error": why, "wall_s": None}


def batches(points: Sequence[Point], workers: int) -> list[list[Point]]:
    """Points in order of their drives, in lots that keep all workers busy to the end."""
    ordered = sorted(points, key=lambda point: (point.group, point.index))
    most = max(1, min(32, len(ordered) // (workers * 8)))
    lots: list[list[Point]] = []
    for point in ordered:
        if lots and len(lots[-1]) < most and lots[-1][-1].group == point.group:
            lots[-1].append(point)
        else:
            lots.append([point])
    return lots


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Inline:
    """One after the other, here."""

    workers = 1

    def run(self, points: Sequence[Point], measure: Measure | None) -> Iterator[Row]:
        for point in sorted(points, key=lambda point: (point.group, point.index)):
            yield run_point(point, measure)


class Processes:
    """Processes of this machine. One that dies costs the point that it was at, and that only if it dies of it twice."""

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or cores()

    def run(self, points: Sequence[Point], measure: Measure | None) -> Iterator[Row]:
        function = packed(measure)
        todo: queue.SimpleQueue[list[Point]] = queue.SimpleQueue()
        for lot in batches(points, self.workers):
            todo.put(lot)
        done: queue.SimpleQueue[Row | BaseException] = queue.SimpleQueue()
        ends = threading.Event()
        count = min(self.workers, len(points))
        children = [_Child(todo, done, function, ends) for _ in range(count)]
        for child in children:
            child.start()
        try:
            for _ in range(len(points)):
                row = done.get()
                if isinstance(row, BaseException):
                    raise row
                yield row
        finally:
            ends.set()
            for child in children:
                child.end()
            for child in children:
                child.join()


# For glibc in a process that runs one point after the other, each on a thread of its own: one heap that keeps what a point
# has freed for the next one. Otherwise the system takes a drive's memory back and hands out, page by page, another.
_KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
}


class _Child(threading.Thread):
    """Feeds a process, and starts another when it dies."""

    def __init__(
        self,
        todo: queue.SimpleQueue[list[Point]],
        done: queue.SimpleQueue[Row | BaseException],
        measure: bytes | None,
        ends: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self.todo, self.done, self.measure, self.ends = todo, done, measure, ends
        self.process: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()

    def _start(self) -> subprocess.Popen[bytes] | None:
        path = os.pathsep.join(p for p in sys.path if p)
        with self.lock:
            if self.ends.is_set():
                return None
            # A session of its own: Ctrl-C on the terminal is for the sweep, which ends its processes.
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from wordline._worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**_KEEP_MEMORY, **os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
            return self.process

    def end(self) -> None:
        """Ends the process, whatever it is at."""
        with self.lock:
            if self.process is not None:
                self.process.kill()

    def run(self) -> None:
        try:
            self._feed()
        except BaseException as error:
            self.done.put(error)
        finally:
            self._close()

    def _close(self) -> None:
        with self.lock:
            process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except OSError:
                        pass

    def _feed(self) -> None:
        died_of: set[int] = set()
        while not self.ends.is_set():
            try:
                lot = self.todo.get_nowait()
            except queue.Empty:
                return
            left = list(lot)
            while left and not self.ends.is_set():
                process = self.process or self._start()
                if process is None:
                    return
                assert process.stdin is not None and process.stdout is not None
                try:
                    _worker.send(process.stdin, {"points": left, "measure": self.measure})
                    while left:
                        row = _worker.receive(process.stdout)
                        left.pop(0)
                        self.done.put(row)
                except (EOFError, OSError):
                    status = process.wait()
                    self._close()
                    point = left[0]
                    if point.index in died_of:
                        left.pop(0)
                        self.done.put(failed(point, _death(status)))
                    died_of.add(point.index)


def _death(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}, twice: run it with executor='inline' to see why"
    name = signal.Signals(-status).name
    remedy = ": memory may be short: use fewer workers" if -status == signal.SIGKILL else ""
    return f"its process died of {name}, twice{remedy}"


class Futures:
    """An executor of concurrent.futures."""

    def __init__(self, executor: Any, workers: int | None) -> None:
        self.executor = executor
        self.workers = workers or getattr(executor, "_max_workers", None) or cores()

    def run(self, points: Sequence[Point], measure: Measure | None) -> Iterator[Row]:
        from concurrent.futures import as_completed

        function = packed(measure)
        lots = {
            self.executor.submit(run_batch, _build.identity(), lot, function): lot
            for lot in batches(points, self.workers)
        }
        try:
            for future in as_completed(lots):
                yield from _rows(future, lots[future])
        finally:
            for future in lots:
                future.cancel()


def _rows(future: Any, lot: Sequence[Point]) -> list[Row]:
    try:
        rows: list[Row] = future.result()
        return rows
    except Error:
        raise
    except Exception as error:
        return [failed(point, f"{type(error).__name__}: {error}") for point in lot]


def _identity() -> str:
    from wordline import _build

    return _build.identity()


class Dask:
    """A cluster of Dask distributed."""

    # Lots on their way, for each thread of the cluster: enough that none waits for the client.
    AHEAD = 3

    def __init__(self, client: Any) -> None:
        self.client = client
        self.workers = max(1, sum(client.nthreads().values()))
        self._check_builds()

    def _check_builds(self) -> None:
        here = _build.identity()
        try:
            builds: dict[str, str] = self.client.run(_identity)
        except (ImportError, AttributeError) as error:
            raise VersionError(
                f"a worker of the cluster cannot import this package ({error}): install wordline {_build.named(here)} "
                "there"
            ) from None
        other = {name: build for name, build in builds.items() if build != here}
        if other:
            name, build = next(iter(other.items()))
            raise VersionError(
                f"{len(other)} of {len(builds)} workers have another build of wordline, {name} for one: {build}, this "
                f"is {_build.named(here)}: install the same on all"
            )

    def _submit(self, lot: Sequence[Point], measure: Any) -> Any:
        return self.client.submit(
            run_batch, _build.identity(), list(lot), measure, pure=False, retries=2
        )

    def run(self, points: Sequence[Point], measure: Measure | None) -> Iterator[Row]:
        from distributed import KilledWorker, as_completed

        function = packed(measure)
        lots = iter(batches(points, self.workers))
        under_way: dict[Any, list[Point]] = {}
        waiting = as_completed()

        def more(lot: list[Point]) -> None:
            future = self._submit(lot, function)
            under_way[future.key] = lot
            waiting.add(future)

        def fill() -> None:
            while len(under_way) < self.AHEAD * self.workers + 1:
                lot = next(lots, None)
                if lot is None:
                    return
                more(lot)

        # A worker that dies takes with it what waited there: which point it was shows when each goes alone.
        suspects: list[Point] = []
        alone: Point | None = None
        try:
            while True:
                if not under_way:
                    fill()
                if not under_way:
                    if not suspects:
                        return
                    alone = suspects.pop(0)
                    more([alone])
                future = next(waiting)
                lot = under_way.pop(future.key)
                try:
                    rows = future.result()
                except KilledWorker:
                    if lot[0] is alone:
                        yield failed(alone, "workers that ran it died: memory may be short there")
                    else:
                        suspects += lot
                        fill()
                    continue
                except Error:
                    raise
                except Exception as error:
                    rows = [failed(point, f"{type(error).__name__}: {error}") for point in lot]
                finally:
                    future.release()
                fill()
                yield from rows
        finally:
            waiting.clear()
            for key in list(under_way):
                under_way.pop(key)


def pool(executor: Any, workers: int | None) -> Any:
    """What runs points: processes, this process, an executor, or a cluster."""
    workers = checked({"workers": workers})["workers"]
    if executor is None or executor == "processes":
        return Processes(workers)
    if executor == "inline":
        return Inline()
    module = type(executor).__module__.split(".")[0]
    if module == "distributed":
        return Dask(executor)
    if hasattr(executor, "submit"):
        return Futures(executor, workers)
    raise InputError(
        f"executor {executor!r}: use 'processes', 'inline', an executor of concurrent.futures or a Client of "
        "dask.distributed"
    )


__all__ = ["Point", "SweepError", "packed", "pool"]
