"""Latencies as fio keeps them: counts by bucket, each within 1/128 of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _wordline
from .errors import InputError


@cache
def midpoints_ns() -> NDArray[np.int64]:
    """The latency that stands for each bucket; nobody may change it."""
    values = np.asarray(_wordline.bucket_midpoints(), dtype=np.int64)
    values.flags.writeable = False
    return values


def checked_percent(percent: Any) -> float:
    """A percentage."""
    try:
        if not isinstance(percent, (str, bool)) and 0 <= percent <= 100:
            return float(percent)
    except TypeError:
        pass
    raise InputError(f"percentile {percent!r}: must be a number from 0 to 100")


def percentile_of_counts(counts: NDArray[Any], percent: float) -> int:
    """The bucket in which so many percent of all values are reached, by fio's rule."""
    checked_percent(percent)
    seen = np.cumsum(counts)
    if len(seen) == 0 or seen[-1] == 0:
        return 0
    # Before the first value no bucket has anything.
    at = int(np.searchsorted(seen, max(_wordline.rank(percent, int(seen[-1])), 1), side="left"))
    return int(midpoints_ns()[min(at, len(seen) - 1)])


def beyond(ios: int, percent: float) -> bool:
    """Whether one of so many I/Os lies beyond a percentile."""
    return ios * (100 - percent) / 100 >= 1 - 1e-9


class Distribution:
    """Latencies of many I/Os, in nanoseconds."""

    def __init__(self, counts: NDArray[np.int64], exact: Mapping[str, float]) -> None:
        self._counts = counts
        self._counts.flags.writeable = False
        self._exact = exact

    @property
    def count(self) -> int:
        """I/Os."""
        return int(self._exact["count"])

    @property
    def min_ns(self) -> int:
        """The fastest, exactly."""
        return int(self._exact["min_ns"])

    @property
    def max_ns(self) -> int:
        """The slowest, exactly."""
        return int(self._exact["max_ns"])

    @property
    def mean_ns(self) -> float:
        """The mean, exactly."""
        return float(self._exact["mean_ns"])

    @property
    def stddev_ns(self) -> float:
        """The standard deviation, exactly."""
        return float(self._exact["stddev_ns"])

    @property
    def counts(self) -> NDArray[np.int64]:
        """I/Os in each bucket: a view of the result's own array, which cannot be written."""
        return self._counts

    @property
    def values_ns(self) -> NDArray[np.int64]:
        """The latency that stands for each bucket."""
        return midpoints_ns()

    def percentile_ns(self, percent: float) -> int:
        """The latency that so many percent of the I/Os do not exceed, as fio tells it: the middle of a bucket, which
        may lie above ``max_ns`` or below ``min_ns`` by a part of the bucket, a 128th at most."""
        return percentile_of_counts(self._counts, percent)

    def percentile_or_none(self, percent: float) -> int | None:
        """The same as tables tell it: from ``min_ns`` to ``max_ns``, and none where less than one I/O lies beyond, which
        would be the slowest I/O."""
        if not beyond(self.count, checked_percent(percent)):
            return None
        return min(max(self.percentile_ns(percent), self.min_ns), self.max_ns)

    def percentiles_ns(
        self, percents: Iterable[float] = (50, 90, 99, 99.9, 99.99, 99.999)
    ) -> dict[float, int]:
        """Several of them."""
        return {percent: self.percentile_ns(percent) for percent in percents}

    def share_above(self, latency_ns: float) -> float:
        """Share of I/Os in buckets above a latency."""
        if self.count == 0:
            return 0.0
        above = self._counts[midpoints_ns() > latency_ns]
        return float(above.sum()) / self.count

    def cdf(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Latencies that occurred, in order, and the share of I/Os that are no slower."""
        there = self._counts > 0
        shares = np.cumsum(self._counts[there]) / max(self.count, 1)
        return midpoints_ns()[there], shares

    def merge(self, other: Distribution) -> Distribution:
        """Both together."""
        a, b = self._exact, other._exact
        n = a["count"] + b["count"]
        if a["count"] == 0 or b["count"] == 0:
            return self if b["count"] == 0 else other
        mean = (a["mean_ns"] * a["count"] + b["mean_ns"] * b["count"]) / n

        def squares(x: Mapping[str, float]) -> float:
            spread = float(x["stddev_ns"] ** 2 * max(x["count"] - 1, 0))
            return spread + float(x["count"] * (x["mean_ns"] - mean) ** 2)

        exact = {
            "count": n,
            "min_ns": min(a["min_ns"], b["min_ns"]),
            "max_ns": max(a["max_ns"], b["max_ns"]),
            "mean_ns": mean,
            "stddev_ns": ((squares(a) + squares(b)) / max(n - 1, 1)) ** 0.5,
        }
        return Distribution(self._counts + other._counts, exact)

    def __repr__(self) -> str:
        if self.count == 0:
            return "Distribution(of nothing)"
        at = {50: "p50", 99: "p99", 99.9: "p99.9"}
        some = ", ".join(f"{name} {self.percentile_ns(p) / 1e3:.1f} us" for p, name in at.items())
        return f"Distribution({self.count:,} I/Os, mean {self.mean_ns / 1e3:.1f} us, {some})"
