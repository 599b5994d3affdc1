"""From arguments to a run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from . import _wordline
from ._arguments import a, checked, native_number, whole
from ._progress import Progress, watch
from .device import Device, Path, Setting, overrides
from .errors import InputError, RunError, native
from .result import Result

Option = Union[str, int, float, bool, None]


class Job(Mapping[str, Option]):
    """A job of fio by its name and options, for a list of several."""

    def __init__(self, name: str, /, **options: Option) -> None:
        self._options: dict[str, Option] = {"name": name, **options}

    def __getitem__(self, key: str) -> Option:
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"Job({', '.join(f'{k}={v!r}' for k, v in self._options.items())})"


job = Job

Jobs = Union[str, "os.PathLike[str]", Mapping[str, Option], Sequence[Mapping[str, Option]]]


def _words(options: Mapping[str, Option], name: str) -> list[str]:
    """A job in the words of fio's command line."""
    options = {"name": options.get("name") or name, **options}
    words = []
    for key, value in options.items():
        if value is not None:
            words.append(f"--{key}={_text(f'job option {key}', value)}")
    return words


def _text(what: str, value: object) -> str:
    """A value as fio's text has it."""
    value = native_number(value)
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{what}: {a(value)}: give a string, a number or a bool")
    return str(int(value) if isinstance(value, bool) else whole(value))


def _is_text(job: str) -> bool:
    return "\n" in job or job.lstrip().startswith("[")


def jobs_request(job: Jobs | None, options: Mapping[str, Option]) -> dict[str, Any]:
    """Jobs as text, as a file or as options, as the native module takes them."""
    setting = next((key for key in options if "." in key), None)
    if setting is not None:
        raise InputError(f"{setting}: a setting of the machine, not an option of a job: give it in set={{'{setting}': ...}}")
    if job is None:
        return {"fio": _words(options, "job")} if options else {}
    if isinstance(job, Mapping):
        job = [job]
    if not isinstance(job, (str, os.PathLike)):
        several = [one for one in job if isinstance(one, Mapping)] if isinstance(job, Sequence) else []
        if not isinstance(job, Sequence) or len(several) < len(job):
            raise InputError(
                f"job: {a(job)}: give fio's text, the path of a job file, a wordline.Job or a list of them"
            )
        if options:
            first = next(iter(options))
            raise InputError(f"{first}: options of a job go into the Job of the list")
        return {"fio": [word for i, one in enumerate(several) for word in _words(one, f"job{i}")]}
    if options:
        first = next(iter(options))
        raise InputError(
            f"{first}: the job file has its own options: write it there, as {first}=${{{first}}} with "
            f"variables={{'{first}': ...}} if it changes"
        )
    if isinstance(job, str) and _is_text(job):
        return {"files": ["-"], "text": job}
    path = os.fspath(job)
    if path == "-":
        raise InputError("job: standard input is not read: give the text itself")
    return {"files": [path]}


def _plain(words: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in words.items() if value is not None}


def machine_request(
    device: str | os.PathLike[str] | Device | Sequence[str] | None,
    set: Mapping[str, Setting] | None,
    **others: Any,
) -> dict[str, Any]:
    """The machine, as the native module takes it."""
    words: dict[str, Any] = {}
    if isinstance(device, Device):
        words = device._words()
    elif isinstance(device, (str, os.PathLike)):
        words = {"device": os.fspath(device)}
    elif device is not None:
        if not isinstance(device, Sequence) or isinstance(device, bytes) or not device:
            raise InputError(
                f"device: {a(device)}: give the name of a profile, a TOML file, a wordline.Device or a list of names"
            )
        if not all(isinstance(one, str) for one in device):
            raise InputError("device: of several drives give the names, and settings of all in set")
        words = {"device": ",".join(device)}
    words.update(_plain(checked(others)))
    words["set"] = words.get("set", []) + overrides(set)
    return words


def execute(request: Mapping[str, Any], progress: bool | Progress | None) -> Result:
    """Runs what a request says. A failed run is an error that has its result."""
    if not (progress is None or isinstance(progress, bool) or hasattr(progress, "close") and callable(progress)):
        raise InputError(f"progress: {a(progress)}: give True, False, or what is called and closed")
    # Several threads would draw into one line.
    here = progress is not None or threading.current_thread() is threading.main_thread()
    shown = watch(progress if here else False)
    text = json.dumps(request)
    try:
        outcome = _wordline.run(text, shown)
    except (_wordline.InputError, _wordline.RunError) as error:
        raise native(error, request) from None
    finally:
        shown.close()
    result = Result(outcome)
    if result.failure is not None and not result.interrupted:
        raise RunError(result.failure, result)
    return result


def run_request(
    job: Jobs | None = None,
    *,
    device: str | os.PathLike[str] | Device | Sequence[str] | None = None,
    ftl: str | None = None,
    stack: str | None = None,
    testbed: str | None = None,
    media: str | None = None,
    fs: str | None = None,
    system: str | None = None,
    drives: int | None = None,
    array: str | None = None,
    topology: Path | None = None,
    set: Mapping[str, Setting] | None = None,
    scale: str | None = None,
    app: str | None = None,
    with_: Sequence[str] = (),
    seed: int = 1,
    precondition: str = "auto",
    load_state: Path | None = None,
    save_state: Path | None = None,
    limit: str | None = None,
    align: str = "error",
    integrity: bool = True,
    shuffle_ties: int | None = None,
    slowest: int = 20,
    over_time: bool = True,
    timeline: int | None = None,
    sections: Sequence[str] = (),
    strict: bool = False,
    variables: Mapping[str, object] | None = None,
    share: bool = False,
    cache: bool = True,
    **options: Option,
) -> dict[str, Any]:
    """The arguments of :func:`run`, as the native module takes them."""
    work = jobs_request(job, options)
    if not work and app is None and not with_:
        raise InputError(
            "job: no job: give fio's text, the path of a job file, or options, as in "
            "wordline.run(rw='randread', bs='4k', iodepth=8, number_ios=1000)"
        )
    found = checked({"sections": sections, "strict": strict, "with": None, "app": app, "variables": variables})
    work.update(_plain({**found, "with": checked({"with_": with_})["with_"]}))
    variables = found["variables"] or {}
    work["variables"] = {name: _text(f"variables {name}", value) for name, value in variables.items()}
    if load_state is not None and precondition != "auto":
        raise InputError("load_state: the state is as it was kept: leave out precondition")
    return {
        "machine": machine_request(
            device,
            set,
            ftl=ftl,
            stack=stack,
            testbed=testbed,
            media=media,
            fs=fs,
            system=system,
            drives=drives,
            array=array,
            topology=topology,
            scale=scale,
        ),
        "run": _settings(
            seed=seed,
            precondition=precondition,
            load_state=load_state,
            save_state=save_state,
            limit=limit,
            align=align,
            integrity=integrity,
            shuffle_ties=shuffle_ties,
            slowest=slowest,
            over_time=over_time,
            timeline=timeline,
            share=share,
            cache=cache,
        ),
        "work": {"jobs": work},
    }


def _settings(**settings: Any) -> dict[str, Any]:
    settings = checked(settings)
    # What is left out is so below.
    settings["cache"] = None if settings["cache"] else False
    return _plain(settings)


def run(
    job: Jobs | None = None,
    *,
    device: str | os.PathLike[str] | Device | Sequence[str] | None = None,
    ftl: str | None = None,
    stack: str | None = None,
    testbed: str | None = None,
    media: str | None = None,
    fs: str | None = None,
    system: str | None = None,
    drives: int | None = None,
    array: str | None = None,
    topology: Path | None = None,
    set: Mapping[str, Setting] | None = None,
    scale: str | None = None,
    app: str | None = None,
    with_: Sequence[str] = (),
    seed: int = 1,
    precondition: str = "auto",
    load_state: Path | None = None,
    save_state: Path | None = None,
    limit: str | None = None,
    align: str = "error",
    integrity: bool = True,
    shuffle_ties: int | None = None,
    slowest: int = 20,
    over_time: bool = True,
    timeline: int | None = None,
    sections: Sequence[str] = (),
    strict: bool = False,
    variables: Mapping[str, object] | None = None,
    share: bool = False,
    cache: bool = True,
    progress: bool | Progress | None = None,
    **options: Option,
) -> Result:
    """Runs jobs, or a program, on a modelled machine.

    ``job`` is fio's text, the path of a job file, or a list of :class:`Job`; one job may also be given by its
    options: ``run(rw="randread", bs="4k", number_ios=1000)``. Values of ``${NAME}`` in a job's text come from
    ``variables``, then from the environment.

    The machine is that of ``wordline run``, by options of the same names: ``device`` (a profile's name, a TOML
    file, a :class:`Device`, or several names), ``ftl``, ``stack``, ``testbed``, ``media``, ``fs``, ``system``,
    ``drives`` and ``array``, ``topology``, ``scale``; ``set`` overrides any value of a profile:
    ``set={"nand.t_read": "3us"}``. ``app`` and ``with_`` name programs.

    ``precondition`` is auto, none, fill, steady, random or paced; ``save_state`` keeps the drive's state in a file,
    ``load_state`` starts from one. With ``share`` the aged drive stays in memory for the next run that ages one
    alike; with ``cache`` it is kept on disk for later runs, which take it from there (``wordline cache``). ``limit``
    ends the run after that much simulated time (``"5s"``).

    Of the run are kept: the ``slowest`` I/Os of each direction, latency by interval (``over_time``), the first ``timeline`` slices of
    a timeline. Files that jobs ask for (``write_lat_log``) are in ``Result.logs``; ``Result.write_logs`` writes them.

    An interrupt (Ctrl-C, a notebook's stop) ends the run in good order, and its result so far is returned, with
    ``interrupted`` true; if a job had failed by then, ``warnings`` tells. A run that failed raises :class:`RunError`, which has
    the result.
    """
    request = run_request(
        job,
        device=device,
        ftl=ftl,
        stack=stack,
        testbed=testbed,
        media=media,
        fs=fs,
        system=system,
        drives=drives,
        array=array,
        topology=topology,
        set=set,
        scale=scale,
        app=app,
        with_=with_,
        seed=seed,
        precondition=precondition,
        load_state=load_state,
        save_state=save_state,
        limit=limit,
        align=align,
        integrity=integrity,
        shuffle_ties=shuffle_ties,
        slowest=slowest,
        over_time=over_time,
        timeline=timeline,
        sections=sections,
        strict=strict,
        variables=variables,
        share=share,
        cache=cache,
        **options,
    )
    return execute(request, progress)


def replay_request(
    trace: Path | Sequence[Path],
    *,
    format: str | None = None,
    columns: str | None = None,
    rwmixread: int | None = None,
    bs: str | None = None,
    address_unit: str | None = None,
    time_unit: str | None = None,
    action: str | None = None,
    time_scale: float | str | None = None,
    closed_loop: int | None = None,
    volume: str | None = None,
    wrap: bool = False,
    skip_beyond: bool = False,
    device: str | os.PathLike[str] | Device | Sequence[str] | None = None,
    ftl: str | None = None,
    stack: str | None = None,
    testbed: str | None = None,
    media: str | None = None,
    system: str | None = None,
    drives: int | None = None,
    array: str | None = None,
    topology: Path | None = None,
    set: Mapping[str, Setting] | None = None,
    scale: str | None = None,
    seed: int = 1,
    precondition: str = "auto",
    load_state: Path | None = None,
    save_state: Path | None = None,
    limit: str | None = None,
    align: str = "error",
    integrity: bool = True,
    shuffle_ties: int | None = None,
    slowest: int = 20,
    over_time: bool = True,
    timeline: int | None = None,
    share: bool = False,
    cache: bool = True,
) -> dict[str, Any]:
    """The arguments of :func:`replay`, as the native module takes them."""
    files = [trace] if isinstance(trace, (str, os.PathLike)) else trace
    if not isinstance(files, Sequence) or not all(isinstance(file, (str, os.PathLike)) for file in files):
        raise InputError(f"trace: {a(trace)}: give the path of a file, or a list of them")
    words = [os.fspath(file) for file in files]
    if not words:
        raise InputError("trace: no file is named")
    if "-" in words:
        raise InputError("trace: standard input is not read: name a file")
    if time_scale is not None and closed_loop is not None:
        raise InputError("time_scale: a closed loop has no times: leave out one of the two")
    if wrap and skip_beyond:
        raise InputError("skip_beyond: with wrap no request is beyond the drive: leave out one of the two")
    if format is not None and columns is not None:
        raise InputError("columns: they are a format of their own: leave out format")
    if load_state is not None and precondition != "auto":
        raise InputError("load_state: the state is as it was kept: leave out precondition")
    if time_scale is not None and not isinstance(native_number(time_scale), (str, int, float)):
        raise InputError(f"time_scale: {a(time_scale)}: give a number, as in time_scale=0.5")
    work = {
        "files": words,
        "format": format,
        "columns": columns,
        "rwmixread": rwmixread,
        "bs": bs,
        "address_unit": address_unit,
        "time_unit": time_unit,
        "action": action,
        "time_scale": None if time_scale is None else str(time_scale),
        "closed_loop": closed_loop,
        "volume": volume,
        "wrap": wrap,
        "skip_beyond": skip_beyond,
    }
    return {
        "machine": machine_request(
            device,
            set,
            ftl=ftl,
            stack=stack,
            testbed=testbed,
            media=media,
            system=system,
            drives=drives,
            array=array,
            topology=topology,
            scale=scale,
        ),
        "run": _settings(
            seed=seed,
            precondition=precondition,
            load_state=load_state,
            save_state=save_state,
            limit=limit,
            align=align,
            integrity=integrity,
            shuffle_ties=shuffle_ties,
            slowest=slowest,
            over_time=over_time,
            timeline=timeline,
            share=share,
            cache=cache,
        ),
        "work": {"replay": _plain(checked(work))},
    }


def replay(
    trace: Path | Sequence[Path],
    *,
    format: str | None = None,
    columns: str | None = None,
    rwmixread: int | None = None,
    bs: str | None = None,
    address_unit: str | None = None,
    time_unit: str | None = None,
    action: str | None = None,
    time_scale: float | str | None = None,
    closed_loop: int | None = None,
    volume: str | None = None,
    wrap: bool = False,
    skip_beyond: bool = False,
    device: str | os.PathLike[str] | Device | Sequence[str] | None = None,
    ftl: str | None = None,
    stack: str | None = None,
    testbed: str | None = None,
    media: str | None = None,
    system: str | None = None,
    drives: int | None = None,
    array: str | None = None,
    topology: Path | None = None,
    set: Mapping[str, Setting] | None = None,
    scale: str | None = None,
    seed: int = 1,
    precondition: str = "auto",
    load_state: Path | None = None,
    save_state: Path | None = None,
    limit: str | None = None,
    align: str = "error",
    integrity: bool = True,
    shuffle_ties: int | None = None,
    slowest: int = 20,
    over_time: bool = True,
    timeline: int | None = None,
    share: bool = False,
    cache: bool = True,
    progress: bool | Progress | None = None,
) -> Result:
    """Replays a block trace by its times, or with ``closed_loop`` requests in flight as fast as that allows.

    ``trace`` is a file, plain or compressed, or the per-processor files of one blktrace. Its format is told from
    its first bytes unless ``format`` or ``columns`` says it. The other arguments are those of ``wordline replay``
    and of :func:`run`.
    """
    request = replay_request(
        trace,
        format=format,
        columns=columns,
        rwmixread=rwmixread,
        bs=bs,
        address_unit=address_unit,
        time_unit=time_unit,
        action=action,
        time_scale=time_scale,
        closed_loop=closed_loop,
        volume=volume,
        wrap=wrap,
        skip_beyond=skip_beyond,
        device=device,
        ftl=ftl,
        stack=stack,
        testbed=testbed,
        media=media,
        system=system,
        drives=drives,
        array=array,
        topology=topology,
        set=set,
        scale=scale,
        seed=seed,
        precondition=precondition,
        load_state=load_state,
        save_state=save_state,
        limit=limit,
        align=align,
        integrity=integrity,
        shuffle_ties=shuffle_ties,
        slowest=slowest,
        over_time=over_time,
        timeline=timeline,
        share=share,
        cache=cache,
    )
    return execute(request, progress)
