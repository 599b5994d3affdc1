"""One NVMe storage stack, from the application to NAND, as one deterministic machine.

>>> import wordline as wl
>>> result = wl.run(rw="randread", bs="4k", iodepth=8, number_ios=1000, device="z-ssd-small")
>>> result.read.latency.percentile_ns(99.9)  # doctest: +SKIP

Names end in their unit: ``_ns`` nanoseconds, ``_s`` seconds, ``_bytes``. Shares are from 0 to 1, percentiles from
0 to 100. The same arguments give the same result, bit for bit, and that of the command line.
"""

from ._wordline import VERSION as __version__
from ._run import Job, job, replay, run
from .device import Device
from .distribution import Distribution
from .errors import (
    Error,
    FormatError,
    InputError,
    MissingPackage,
    RunError,
    SweepError,
    VersionError,
)
from .result import Breakdown, Direction, Life, Result, Series, Thread, load
from .study import Study, StudyTable
from .sweep import Sweep, grid, sweep
from .tune import Constraint, Tuned, tune

__all__ = [
    "Breakdown",
    "Constraint",
    "Device",
    "Direction",
    "Distribution",
    "Error",
    "FormatError",
    "InputError",
    "Job",
    "Life",
    "MissingPackage",
    "Result",
    "RunError",
    "Series",
    "Study",
    "StudyTable",
    "Sweep",
    "SweepError",
    "Thread",
    "Tuned",
    "VersionError",
    "__version__",
    "grid",
    "job",
    "load",
    "replay",
    "run",
    "sweep",
    "tune",
]
