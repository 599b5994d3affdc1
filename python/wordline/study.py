"""Published figures and studies of one's own, run here or on a cluster."""

from __future__ import annotations

import hashlib
import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _points, _wordline
from ._arguments import a, checked
from ._points import Point
from ._progress import Line
from .errors import InputError, native, need

if TYPE_CHECKING:
    import pandas
    import polars


class StudyTable:
    """What came of a study: a row for each point, and what was published beside it. Of several seeds a row has means,
    ``n``, and half of the 95 % confidence interval of each metric as ``METRIC half_width_95``."""

    def __init__(
        self, text: str, document: Mapping[str, Any], files: Sequence[str], failures: Mapping[str, str]
    ) -> None:
        self.text = text
        self.document = dict(document)
        self.files = list(files)
        self.failures = dict(failures)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Values of the axes and metrics of each point."""

        def flat(row: Mapping[str, Any]) -> dict[str, Any]:
            known = {"n": row["n"]} if "n" in row else {}
            halves = {f"{name} half_width_95": half for name, half in row.get("half_width_95", {}).items()}
            return {**row.get("at", {}), **row.get("metrics", {}), **known, **halves}

        return [flat(row) for row in self.document["points"]]

    def to_polars(self) -> polars.DataFrame:
        """The rows, as polars has them."""
        module: Any = need("polars", "polars", "to_polars()")
        frame: polars.DataFrame = module.DataFrame(self.rows, infer_schema_length=None)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """The rows, as pandas has them."""
        module: Any = need("pandas", "pandas", "to_pandas()")
        frame: pandas.DataFrame = module.DataFrame(self.rows)
        return frame

    def __repr__(self) -> str:
        points = f"{len(self.rows)} point{'' if len(self.rows) == 1 else 's'}"
        return f"StudyTable({points}, {len(self.failures)} without a result)"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class Study:
    """A study by the name that ``wordline study list`` has for it, or as a TOML file.

    ``scale`` is whole or quick; ``points`` takes only those with some values of axes: ``["system=rail,pblk"]``.
    ``vary`` adds an axis for each word: ``["seed=1,2,3", "nand.t_read=40us,65us"]`` (a seed, a profile, a variable of
    the study, a setting). ``repeat`` runs each point under so many seeds, and the table has means with their 95 %
    confidence intervals.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        scale: str | None = "whole",
        points: Sequence[str] | None = (),
        vary: Sequence[str] | None = (),
        repeat: int | None = None,
    ) -> None:
        if not isinstance(name, (str, os.PathLike)):
            raise InputError(f"name: {a(name)}: give a name of wordline.Study.names(), or the path of a TOML file")
        if not isinstance(scale, (str, type(None))):
            raise InputError(f"scale: {a(scale)}: use whole or quick")
        words = checked({"points": points, "vary": vary, "repeat": repeat})
        only, axes = words["points"] or [], words["vary"] or []
        try:
            self._plan = _wordline.StudyPlan(
                os.fspath(name), "whole" if scale is None else scale, only, axes, words["repeat"]
            )
        except (_wordline.InputError, _wordline.RunError) as error:
            raise native(error, [os.fspath(name), *only, *axes]) from None
        self.name, self.title, self.shows, self.text = self._plan.about()

    @staticmethod
    def names() -> list[str]:
        """The studies that come with the package."""
        return _wordline.studies()

    @property
    def points(self) -> list[dict[str, str]]:
        """Each point by its values of axes."""
        return [dict(values) for values in self._plan.points()]

    def run(
        self,
        out: str | os.PathLike[str] = "results",
        *,
        executor: Any = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> StudyTable:
        """Runs the points that have no result in the folder, and writes the tables there.

        ``executor`` is that of :func:`wordline.sweep`. Results are of programs built from the same
        sources, the command line's among them: those of others are not looked at and not touched. A point that fails
        is named, others go on. After Ctrl-C the same call goes on.
        """
        out = os.fspath(out)
        pool = _points.pool(executor, workers)
        try:
            left = self._plan.open(out)
        except (_wordline.InputError, _wordline.RunError) as error:
            raise native(error, out) from None
        names = self._plan.labels()
        failed: list[tuple[int, str]] = []
        line = Line(progress)
        try:
            todo = []
            for index in left:
                payload, drive = self._plan.payload(index)
                group = hashlib.sha256(drive.encode()).hexdigest()
                todo.append(Point(index, "", json.dumps({"study": payload}), group))
            done = len(names) - len(todo)
            rows = pool.run(todo, None) if todo else iter(())
            try:
                for row in rows:
                    done += 1
                    if row["error"]:
                        failed.append((row["index"], row["error"]))
                    else:
                        self._plan.keep(row["index"], row["result"])
                    line.draw(f"{done} of {len(names)} points, {len(failed)} failed")
            finally:
                if todo:
                    rows.close()
                line.close()
            failed.sort()
            files, text, document = self._plan.tables(out, failed)
        except (_wordline.InputError, _wordline.RunError) as error:
            raise native(error, out) from None
        finally:
            self._plan.close()
        failures = {names[index]: why for index, why in failed}
        return StudyTable(text, json.loads(document), [os.fspath(f) for f in files], failures)

    def __repr__(self) -> str:
        points = f"{len(self.points)} point{'' if len(self.points) == 1 else 's'}"
        return f"Study({self.name}: {self.title}, {points})"


__all__ = ["InputError", "Study", "StudyTable"]
