"""The best configuration that keeps what is asked of it: a search by Optuna, verified under other seeds."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._arguments import a, native_number, whole_number
from ._html import told
from ._points import Measure, Row, cores, is_taken
from ._progress import Line
from .errors import InputError, need, nearest
from .result import DIRECTIONS, METRICS
from .sweep import FLUSH_S, swept

if TYPE_CHECKING:
    from .plot import Backend, Picture

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "": 1.0}
_CONSTRAINT = re.compile(r"\s*([\w.]+)\s*(<=|>=|<|>)\s*([-+\d.eE]+)\s*(\w*)\s*")
_OBJECTIVE = re.compile(r"\s*(minimi[sz]e|maximi[sz]e)\s+([\w.]+)\s*")


@dataclass(frozen=True)
class Constraint:
    """A bound on a number of the run, or of the point: ``read_p99_99_ns <= 1ms``."""

    name: str
    below: bool
    bound: float
    text: str
    # The bound itself does not keep it.
    strict: bool = False

    @staticmethod
    def parse(text: str) -> Constraint:
        """From its words. A time may have its unit (ns, us, ms, s), a number k, M or G."""
        found = _CONSTRAINT.fullmatch(text)
        if found is None or found[4] not in _UNITS:
            raise InputError(
                f"constraint '{text}': write a number's name, <=, >=, < or >, and a bound, as in "
                "'read_p99_99_ns <= 1ms'"
            )
        name, sign, number, unit = found.groups()
        try:
            value = float(number)
        except ValueError:
            raise InputError(f"constraint '{text}': '{number}' is no number") from None
        if unit in ("ns", "us", "ms", "s"):
            # Names tell the unit that their numbers are in.
            if not name.endswith(("_ns", "_s")) or name.endswith("_per_s"):
                raise InputError(f"constraint '{text}': {name} is no time: leave out '{unit}'")
            value *= _UNITS[unit] / (1e9 if name.endswith("_s") else 1.0)
        else:
            value *= _UNITS[unit]
        return Constraint(name, sign.startswith("<"), value, " ".join(text.split()), "=" not in sign)

    def excess(self, row: Row) -> float:
        """How far a row is from keeping it, as a share of the bound; 0 or less keeps it."""
        value = _number(row, self.name, f"constraint '{self.text}'")
        distance = value - self.bound if self.below else self.bound - value
        if self.strict and distance == 0:
            return 1e-12
        return distance / max(abs(self.bound), 1e-12)


@dataclass(frozen=True)
class Objective:
    """A number to make as small or as large as may be."""

    name: str
    smallest: bool

    @staticmethod
    def parse(text: str) -> Objective:
        """From its words: ``minimize ftl.over_provisioning``."""
        found = _OBJECTIVE.fullmatch(text)
        if found is None:
            raise InputError(
                f"objective '{text}': write minimize or maximize and a number's name, as in 'minimize read_p99_9_ns'"
            )
        return Objective(found[2], found[1].startswith("min"))

    def value(self, row: Row) -> float:
        """Of a row."""
        return _number(row, self.name, f"objective '{self.name}'")

    def cost(self, row: Row) -> float:
        """The same, smaller is better."""
        return self.value(row) if self.smallest else -self.value(row)


# A percentile needs an I/O beyond it.
_COUNTS = {"read": "read_ios", "write": "write_ios", "trim": "trim_ios", "sync": "syncs"}
# What has operations.
_PROGRAMS = ("app", "with_")
_PERCENTILE = re.compile(r"(read|write|trim|sync|op_\w+?)_p(\d+(?:_\d+)?)_ns")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _lack(row: Row, names: Iterable[str]) -> str | None:
    """Why a run that came to its end cannot be judged: it lacks a number asked for."""
    name = next((name for name in names if not _is_number(row.get(name))), None)
    if name is None:
        return None
    found = _PERCENTILE.fullmatch(name)
    ios = found and row.get(_COUNTS.get(found[1], f"{found[1]}_count"))
    if found is not None and ios:
        at = float(found[2].replace("_", "."))
        return (
            f"{name}: of {ios:,} {found[1]}s none lies beyond {at:g} %: let the run have "
            f"{math.ceil(100 / (100 - at) - 1e-6):,}, or ask for a lower percentile"
        )
    kind = name.split("_")[0]
    if name.startswith("op_"):
        why = "the run has no such operation of a program"
    elif name == "write_amplification" and row.get("write_ios"):
        why = "nothing that the run wrote came to flash"
    elif kind in DIRECTIONS and name in METRICS:
        why = f"the run has no {kind}s"
    elif kind in ("sync", "syncs") and name in METRICS:
        why = "the run has no syncs"
    elif row.get(name) is None:
        why = "the run has none"
    else:
        why = f"it is {row[name]!r}"
    return f"no number {name}: {why}"


def _check_found(rows: Sequence[Row], space: Mapping[str, Any], tuned: Tuned) -> None:
    """Refuses numbers of a measure or of a program that none of the runs so far has."""
    for what, name in _asked(tuned) if rows else ():
        operation = name.startswith("op_")
        if name in METRICS or name in space or any(_may_be_number(row, name) for row in rows):
            continue
        if operation and not _all_ran(rows, space):
            continue
        given = next((row[name] for row in rows if row.get(name) is not None), None)
        if given is not None:
            raise InputError(f"{what}: {a(given)}, and no run has a number of that name: let measure return a number")
        found = [key for key in dict.fromkeys(key for row in rows for key in row) if _is_askable(rows, key)]
        if operation:
            found = [key for key in found if key.startswith("op_")]
        raise InputError(
            f"{what}: a run has no number {name}{nearest(name, found)}: it has {', '.join(found) or 'none of a program'}"
        )


def _is_askable(rows: Sequence[Row], name: str) -> bool:
    """Whether a search may ask for what rows have under this name: what they have of their own accord is no number of a
    run."""
    own = is_taken(name) and not name.startswith("op_")
    return name in METRICS or (not own and any(_may_be_number(row, name) for row in rows))


def _may_be_number(row: Row, name: str) -> bool:
    """Whether a row has a number, or would have it elsewhere in the space: a percentile of more operations, or what a
    measure found to be no number here."""
    value = row.get(name)
    return _is_number(value) or isinstance(value, float) or (value is None and name in row and name.startswith("op_"))


def _all_ran(rows: Sequence[Row], space: Mapping[str, Any]) -> bool:
    """Whether each choice of programs had a run: the others may have other operations."""
    chosen = [key for key in _PROGRAMS if isinstance(space.get(key), list)]
    return all({repr(row.get(key)) for row in rows} >= set(map(repr, space[key])) for key in chosen)


def _asked(tuned: Tuned) -> list[tuple[str, str]]:
    """What asks for a number, and the number's name."""
    asked = [(f"objective '{o.name}'", o.name) for o in tuned.objectives]
    return asked + [(f"constraint '{c.text}'", c.name) for c in tuned.constraints]


def _check_names(space: Mapping[str, Any], common: Mapping[str, Any], tuned: Tuned, measured: bool) -> None:
    """Refuses numbers that no run has, before the first one."""
    programs = any(key in space or common.get(key) for key in _PROGRAMS)
    for what, name in _asked(tuned):
        if name in space:
            values = space[name]
            if isinstance(values, list) and not all(map(_is_number, values)):
                raise InputError(f"{what}: the space's {name} has choices that are no numbers")
        elif name.startswith("op_"):
            if not programs:
                raise InputError(
                    f"{what}: {name} is of an operation of a program, and no run has a program: give app or with_, or "
                    "ask for another number"
                )
        elif name not in METRICS and (not measured or is_taken(name)):
            numbers = (*space, *METRICS)
            raise InputError(
                f"{what}: a run has no number {name}{nearest(name, numbers)}: it has {', '.join(numbers)}"
            )


def _number(row: Row, name: str, what: str) -> float:
    if not _is_number(row.get(name)):
        known = ", ".join(key for key, v in row.items() if _is_number(v))
        raise InputError(f"{what}: a run has no number {name}: it has {known}")
    return float(row[name])


def _texts(name: str, value: Any, example: str) -> list[str]:
    """One text, or several."""
    several = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for one in several:
        if not isinstance(one, str):
            raise InputError(f"{name}: {a(one)}: write text, as in '{example}'")
    return several


def _plain(values: Any) -> Any:
    """What a key of the space may be, with Python's own numbers."""
    if isinstance(values, Mapping):
        return {key: native_number(value) for key, value in values.items()}
    return type(values)(map(native_number, values)) if type(values) in (list, tuple) else values


def _dimension(name: str, values: Any) -> tuple[str, Any]:
    """A kind and what goes with it: choices, or a range of whole or other numbers."""
    if isinstance(values, range):
        if len(values) == 0 or values.step < 1:
            raise InputError(f"space {name}: {values!r} has no value: write range(low, high) with low below high")
        return "range", {"low": values[0], "high": values[-1], "step": values.step, "log": False}
    if isinstance(values, Mapping):
        unknown = set(values) - {"low", "high", "step", "log"}
        if unknown or not {"low", "high"} <= set(values):
            raise InputError(
                f"space {name}: {dict(values)!r}: a range has low and high, and may have step or log"
            )
        of = {"step": None, "log": False, **values}
    elif isinstance(values, tuple) and len(values) == 2:
        of = {"low": values[0], "high": values[1], "step": None, "log": False}
    elif isinstance(values, list) and values:
        return "choices", values
    else:
        raise InputError(f"space {name}: {values!r}: give a list of choices, or a pair (low, high) of a range")
    low, high, step, log = of["low"], of["high"], of["step"], of["log"]
    for number in (low, high):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            raise InputError(f"space {name}: {number!r} is no number")
    if low > high:
        raise InputError(f"space {name}: low {low} is above high {high}: exchange them")
    if log and (low <= 0 or step is not None):
        raise InputError(f"space {name}: a log range begins above 0 and has no step")
    if step is not None and not step > 0:
        raise InputError(f"space {name}: step {step} must be above 0")
    return "range", of


class Tuned:
    """What a search found."""

    def __init__(
        self,
        rows: Sequence[Row],
        names: Sequence[str],
        objectives: Sequence[Objective],
        constraints: Sequence[Constraint],
    ) -> None:
        self.names = list(names)
        self.objectives = list(objectives)
        self.constraints = list(constraints)
        # Points that were tried, each once, and why others failed.
        self.rows = [row for row in rows if not row["error"]]
        self.failures = [row for row in rows if row["error"]]
        # How often Optuna was asked for a point; one met again is the same point.
        self.trials = len(rows)
        # The answer: the point, and its runs under the seeds of the search and of the verification.
        self.best: dict[str, Any] | None = None
        self.best_row: Row | None = None
        # Point by point, in the order in which they were looked at: whether it held, and its runs.
        self.verified: list[tuple[dict[str, Any], bool, list[Row]]] = []
        self.interrupted = False
        # What may mislead about the answer.
        self.warnings: list[str] = []

    def point(self, row: Row) -> dict[str, Any]:
        """What was chosen in a row."""
        return {name: row[name] for name in self.names}

    def keeps(self, row: Row) -> bool:
        """Whether a row keeps every constraint."""
        return not row["error"] and all(c.excess(row) <= 0 for c in self.constraints)

    def rejected(self, row: Row) -> bool:
        """Whether a row's point was run under other seeds and missed a constraint under one of them."""
        point = self.point(row)
        return any(point == other and not held for other, held, _ in self.verified)

    @property
    def binding(self) -> Constraint | None:
        """The constraint that keeps one objective from being better: of the points that would be better than the best
        that keeps all, most miss it. Where no point keeps all, the one that most points miss."""
        if not self.constraints or not self.rows or len(self.objectives) > 1:
            return None
        cost = self.objectives[0].cost
        best = min((row for row in self.rows if self.keeps(row)), key=cost, default=None)
        better = self.rows if best is None else [row for row in self.rows if cost(row) < cost(best)]

        def missed(constraint: Constraint) -> tuple[int, float]:
            near = [constraint.excess(row) for row in ([] if best is None else [best])]
            return sum(constraint.excess(row) > 0 for row in better), max(near, default=0.0)

        return max(self.constraints, key=missed)

    def costs(self, row: Row) -> tuple[float, ...]:
        """What a row is compared by: its objectives, and with one of them how far it is from the constraint that
        binds."""
        costs = tuple(objective.cost(row) for objective in self.objectives)
        binding = self.binding
        return costs if binding is None else (*costs, binding.excess(row))

    @property
    def front(self) -> list[Row]:
        """Of the points that keep all constraints, under other seeds too where they were run under them, those that
        no other beats in all that they are compared by, the best first. With one objective and constraints it is the
        trade-off between the objective and the constraint that binds, and begins with the answer."""
        kept = [(row, self.costs(row)) for row in self.rows if self.keeps(row) and not self.rejected(row)]
        front = [(row, costs) for row, costs in kept if not any(_beats(other, costs) for _, other in kept)]
        return [row for row, _ in sorted(front, key=lambda pair: pair[1])]

    @property
    def nearest(self) -> Row | None:
        """The point that misses its constraints by least."""
        far = lambda row: max((c.excess(row) for c in self.constraints), default=0.0)  # noqa: E731
        return min(self.rows, key=far, default=None)

    def report(self) -> str:
        """In words, for a terminal."""
        points = len(self.rows) + len(self.failures)
        tried = f"{_many(self.trials, 'trial')} of {_many(points, 'point')}"
        if self.trials > points:
            tried += ": a point met again is not run again"
        lines = [tried + ("; then interrupted" if self.interrupted else "")]
        if self.failures:
            lines.append(f"{len(self.failures)} failed, the first: {self.failures[0]['error']}")
        binding = self.binding
        if binding is not None and any(binding.excess(row) > 0 for row in self.rows):
            lines.append(f"of the constraints {binding.text} binds: most points that would be better miss it")
        for row in self.front:
            lines.append("  " + self._told(row))
        for point, held, rows in self.verified:
            seeds = ", ".join(str(row.get("seed")) for row in rows)
            lines.append(f"under seeds {seeds}: {_words(point)} {'holds' if held else 'does not hold'}")
        lines += [f"warning: {warning}" for warning in self.warnings]
        if self.best is not None and self.best_row is not None:
            warned = str(self.best_row.get("warned") or "").splitlines()
            lines += [f"warning, of the answer's run: {warning}" for warning in warned]
            lines.append("answer: " + self._told(self.best_row))
        elif self.interrupted and any(self.keeps(row) for row in self.rows):
            lines.append("no answer: interrupted before the best were run under other seeds")
        else:
            nearest = self.nearest
            near = "" if nearest is None else (
                f"; nearest is {_words(self.point(nearest))}: {self._numbers(nearest)}"
            )
            lines.append(f"no answer: no point holds{near}: widen the space or loosen a constraint")
        return "\n".join(lines) + "\n"

    def _numbers(self, row: Row) -> str:
        names = [o.name for o in self.objectives] + [c.name for c in self.constraints]
        return ", ".join(f"{name} {told(name, row[name])}" for name in dict.fromkeys(names) if name not in self.names)

    def _told(self, row: Row) -> str:
        """A point, and its numbers that are no part of it."""
        return ": ".join(filter(None, (_words(self.point(row)), self._numbers(row))))

    def plot(self, *, backend: Backend = "matplotlib") -> Picture:
        """The points tried, and the front: the trade-off between the objective and the constraint that binds, or
        between two objectives."""
        from .plot import front_picture

        return front_picture(self, backend)

    def __repr__(self) -> str:
        answer = "no answer" if self.best is None else _words(self.best)
        return f"Tuned({answer}; {_many(len(self.rows), 'point')}, {len(self.front)} on the front)"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"


def _beats(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={told(key, value)}" for key, value in point.items())


class _Search:
    """Optuna's side: what to try next."""

    def __init__(self, space: Mapping[str, Any], tuned: Tuned, seed: int) -> None:
        import warnings

        # Of progress bars of its own, which are not used.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optuna: Any = need("optuna", "tune", "tune()")
        self.optuna = optuna
        self.optuna.logging.set_verbosity(self.optuna.logging.WARNING)
        self.dimensions = {name: _dimension(name, values) for name, values in space.items()}
        self.tuned = tuned
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = self.optuna.samplers.TPESampler(
                seed=seed, constraints_func=lambda trial: trial.user_attrs["excess"], n_startup_trials=10
            )
        directions = ["minimize" if o.smallest else "maximize" for o in tuned.objectives]
        self.study = self.optuna.create_study(directions=directions, sampler=sampler)

    def ask(self) -> tuple[Any, dict[str, Any]]:
        import warnings

        with warnings.catch_warnings():
            # Of a range that its step does not divide: the last step is the highest within.
            warnings.simplefilter("ignore")
            return self._asked()

    def _asked(self) -> tuple[Any, dict[str, Any]]:
        trial = self.study.ask()
        point = {}
        for name, (kind, of) in self.dimensions.items():
            if kind == "choices":
                # By number: a choice may be anything.
                point[name] = of[trial.suggest_int(f"{name} (choice)", 0, len(of) - 1)] if len(of) > 1 else of[0]
            elif all(isinstance(of[key], int) for key in ("low", "high")) and isinstance(
                of["step"], (int, type(None))
            ):
                point[name] = trial.suggest_int(
                    name, of["low"], of["high"], step=of["step"] or 1, log=bool(of["log"])
                )
            else:
                point[name] = trial.suggest_float(
                    name, of["low"], of["high"], step=of["step"], log=bool(of["log"])
                )
        return trial, point

    def tell(self, trial: Any, row: Row) -> None:
        if row["error"]:
            trial.set_user_attr("excess", [1e9])
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            return
        tuned = self.tuned
        trial.set_user_attr("excess", [c.excess(row) for c in tuned.constraints])
        self.study.tell(trial, [o.value(row) for o in tuned.objectives])


def tune(
    space: Mapping[str, Any],
    objective: str | Sequence[str],
    constraints: str | Iterable[str] = (),
    *,
    trials: int = 50,
    seed: int = 1,
    verify_seeds: Sequence[int] = (2, 3, 4),
    verify_most: int = 10,
    executor: Any = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    measure: Measure | None = None,
    progress: bool | Literal["log"] | None = None,
    **common: Any,
) -> Tuned:
    """Searches the space for the point that is best by its objective among those that keep all constraints.

    ``space`` has a list of choices, a pair ``(low, high)``, a ``range`` or a mapping with low, high, step and log for
    each key; keys are those of :func:`wordline.sweep`'s points. ``objective`` is ``"minimize NAME"`` or ``"maximize
    NAME"``, or two and more of them for a front; ``constraints`` are bounds such as ``"read_p99_99_ns <= 1ms"``. Names
    are columns of a sweep: keys of the space, numbers of ``Result.metrics``, and what ``measure(result)`` returns.

    ``trials`` points are tried under ``seed``, a few at a time where workers are free; a point met again is not run
    again, so that fewer points than trials are run. Then the best are run under each of ``verify_seeds``: the answer
    is the first that keeps its constraints under all, of ``verify_most`` looked at. A job draws other I/O under
    another seed if it says ``randrepeat=0``. A run that lacks a number asked for counts as failed: it has too few I/Os for
    a percentile, or no reads.
    With ``out`` every run is kept as by :func:`wordline.sweep`, and the same call goes on where an earlier one was
    stopped. ``progress="log"`` writes a line now and then where there is no terminal.
    """
    if not space:
        raise InputError("space: nothing to choose: give keys with their values")
    if not isinstance(space, Mapping):
        raise InputError(f"space: {a(space)}: give a mapping, as in {{'iodepth': (1, 64)}}")
    space = {name: _plain(values) for name, values in space.items()}
    trials = whole_number("trials", trials, "trials")
    seed = whole_number("seed", seed, "seed")
    verify_most = whole_number("verify_most", verify_most, "verify_most")
    if isinstance(verify_seeds, str) or not isinstance(verify_seeds, Iterable):
        raise InputError(f"verify_seeds: {a(verify_seeds)}: give a list, as in verify_seeds=[2, 3]")
    verify_seeds = [whole_number("verify_seeds", one, "seed") for one in verify_seeds]
    if "seed" in space or seed in verify_seeds:
        raise InputError("verify_seeds: they are others than that of the search: leave out seed")
    objectives = [Objective.parse(text) for text in _texts("objective", objective, "minimize read_p99_9_ns")]
    if not objectives:
        raise InputError("objective: none: write for example 'minimize read_p99_9_ns'")
    bounds = _texts("constraints", constraints, "read_p99_99_ns <= 1ms")
    tuned = Tuned([], list(space), objectives, [Constraint.parse(text) for text in bounds])
    search = _Search(space, tuned, seed)
    _check_names(space, common, tuned, measure is not None)
    asked_for = [name for _, name in _asked(tuned)]
    if executor is None and workers is None:
        workers = cores()
    known: dict[str, Row] = {}
    # As they came: one that lacks a number asked for may have another.
    finished: list[Row] = []

    def run(points: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Rows in the points' order; what is known is not run again."""
        new = {repr(point): point for point in points if repr(point) not in known}
        if new:
            done = swept(
                list(new.values()),
                executor=executor if len(new) > 1 or executor is not None else "inline",
                workers=workers,
                out=out,
                measure=measure,
                retry_failed=False,
                flush_s=FLUSH_S,
                progress=False,
                # Points that are refused are what a search learns from, but for what is wrong with all of them.
                refuse=not known,
                **common,
            )
            listed = list(new)
            finished.extend(done.good)
            _check_found(finished, space, tuned)
            for row in done:
                lack = None if row["error"] else _lack(row, asked_for)
                known[listed[row["index"]]] = row if lack is None else {**row, "error": lack}
            if done.interrupted:
                raise KeyboardInterrupt
        return [known[repr(point)] for point in points]

    line = Line(progress)
    width = max(1, min(workers or 4, 16))
    tried: dict[str, Row] = {}
    batch: list[tuple[Any, dict[str, Any]]] = []
    asked = 0
    try:
        while asked < trials:
            # The first are several, to see whether something is wrong with all.
            count = min(width if tried else max(width, 4), trials - asked)
            line.draw(f"{asked} of {trials} trials, {_many(len(tried), 'point')}; {count} run")
            batch = [search.ask() for _ in range(count)]
            asked += count
            for (trial, point), row in zip(batch, run([{**p, "seed": seed} for _, p in batch])):
                search.tell(trial, row)
                tried.setdefault(repr(point), row)
            batch = []
            tuned.trials = asked
            line.draw(f"{asked} of {trials} trials, {_many(len(tried), 'point')}")
        _take(tuned, tried.values())
        _verify(tuned, run, verify_seeds, verify_most)
    except KeyboardInterrupt:
        tuned.interrupted = True
        for _, point in batch:
            found = known.get(repr({**point, "seed": seed}))
            if found is None:
                asked -= 1
            else:
                tried.setdefault(repr(point), found)
        tuned.trials = asked
        _take(tuned, tried.values())
        if not verify_seeds:
            _verify(tuned, run, [], verify_most)
    finally:
        line.close()
    return tuned


def _take(tuned: Tuned, rows: Iterable[Row]) -> None:
    tuned.rows, tuned.failures = [], []
    for row in rows:
        (tuned.failures if row["error"] else tuned.rows).append(row)


def _verify(tuned: Tuned, run: Any, seeds: list[int], most: int) -> None:
    """The best points again, each under other seeds."""
    kept = [row for row in tuned.rows if tuned.keeps(row)]
    several = len(tuned.objectives) > 1
    candidates = tuned.front if several else sorted(kept, key=lambda row: tuned.costs(row))
    if not seeds and candidates:
        tuned.best, tuned.best_row = tuned.point(candidates[0]), candidates[0]
    for row in candidates[:most] if seeds else ():
        point = tuned.point(row)
        again = run([{**point, "seed": seed} for seed in seeds])
        held = all(tuned.keeps(one) for one in again)
        tuned.verified.append((point, held, again))
        if held and all(_same(one, row) for one in again) and not tuned.warnings:
            tuned.warnings.append(
                "other seeds changed nothing, so that they verify nothing: a job without randrepeat=0 does the same I/O "
                "under each seed, and one whose reads all take the same time has the same numbers"
            )
        if held and tuned.best is None:
            tuned.best, tuned.best_row = point, row
            if not several:
                return


def _same(a: Row, b: Row) -> bool:
    """Whether two runs gave the same numbers."""
    own = {"seed", "index", "key", "wall_s"}
    return all(a.get(key) == b.get(key) for key in {*a, *b} - own)


def from_toml(path: str, text: str) -> dict[str, Any]:
    """The arguments of :func:`tune` in a TOML file: [tune], [space] and [run]."""
    import tomllib

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None
    known = {"objective", "constraints", "trials", "seed", "verify_seeds", "verify_most"}
    options = {"out", "executor", "workers", "progress"}
    for section in found:
        if section not in ("tune", "space", "run") or not isinstance(found[section], dict):
            raise InputError(f"{path}: unknown section '{section}': there are [tune], [space] and [run]")
    tune_of = found.get("tune", {})
    for key in tune_of:
        if key not in known:
            raise InputError(f"{path}: [tune] has no key '{key}': it has {', '.join(sorted(known))}")
    if "objective" not in tune_of:
        raise InputError(f"{path}: [tune] names no objective: write objective = \"minimize read_p99_9_ns\"")
    if not found.get("space"):
        raise InputError(f"{path}: [space] is missing: write what is to be chosen, as in ftl = [\"pblk\", \"rail\"]")
    run = found.get("run", {})
    for key in run:
        if key in known:
            raise InputError(f"{path}: [run] has no key '{key}': it is a key of [tune]")
        if key in options:
            raise InputError(f"{path}: [run] has no key '{key}': it is an option of the command line")
        if key in ("space", "measure"):
            raise InputError(f"{path}: [run] has no key '{key}': it has arguments of wordline.run")
    return {"space": _flat(found["space"]), **tune_of, **run}


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Keys with dots, whether they were quoted or not."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and not {"low", "high"} & set(value):
            flat.update(_flat(value, f"{above}{key}."))
        else:
            flat[f"{above}{key}"] = value
    return flat
