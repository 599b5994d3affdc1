"""``python -m wordline``: what the command line ``wordline`` leaves to Python."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import Any

from . import _wordline
from .errors import Error, InputError, read_text


def _repeat(word: str) -> int:
    """The number of ``--repeat``, refused in the words that the command line has for it."""
    number = int(word) if word.isascii() and word.isdigit() else None
    if number is not None and number < 2:
        raise argparse.ArgumentTypeError("an interval takes two runs or more: use a number from 2 to 1000")
    if number is None or number > 1000:
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 2 to 1000")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wordline", description="The parts of wordline that are in Python")
    parser.add_argument("--expect", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    tune = commands.add_parser(
        "tune",
        help="find the best configuration that keeps its constraints",
        description="Finds the best configuration that keeps its constraints. FILE has [tune] with objective, "
        "constraints and trials, [space] with what is to be chosen, [run] with arguments of wordline.run.",
    )
    tune.add_argument("file", metavar="FILE", help="a TOML file")
    tune.add_argument("--out", metavar="DIR", help="keep every run there, and front.png; the same command goes on")
    tune.add_argument("--jobs", type=int, metavar="N", help="runs at once; the machine's cores by default")
    tune.add_argument("--dask", metavar="ADDRESS", help="run on the cluster of this scheduler")
    tune.add_argument("--json", action="store_true", help="print the answer as JSON")
    tune.add_argument("-q", "--quiet", action="store_true", help="no progress")
    study = commands.add_parser(
        "study",
        help="run a study on a cluster",
        description="Runs the points of a study that have no result of this package, and writes its tables.",
    )
    study.add_argument("study", metavar="NAME|FILE")
    study.add_argument("--out", metavar="DIR", default="results")
    study.add_argument("--scale", choices=["whole", "quick"], default="whole")
    study.add_argument("--point", metavar="AXIS=VALUE[,VALUE]", action="append", default=[])
    study.add_argument("--vary", metavar="KEY=VALUE[,VALUE]", action="append", default=[])
    study.add_argument("--repeat", type=_repeat, metavar="N", help="run each point under N seeds, and tell means")
    study.add_argument("--jobs", type=int, metavar="N", help="runs at once; the machine's cores by default")
    study.add_argument("--dask", metavar="ADDRESS", help="run on the cluster of this scheduler")
    study.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def client(address: str) -> Any:
    """A client of a cluster, or an error that names the address."""
    from .errors import need

    distributed: Any = need("distributed", "dask", "--dask")
    try:
        return distributed.Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--dask {address}: no scheduler answers there ({error}): start one with dask scheduler"
        ) from None


def _tune(arguments: argparse.Namespace) -> int:
    from .tune import from_toml, tune

    asked = from_toml(arguments.file, read_text(arguments.file))
    executor = None if arguments.dask is None else client(arguments.dask)
    tuned = tune(
        executor=executor,
        workers=arguments.jobs,
        out=arguments.out,
        progress=False if arguments.quiet else "log",
        **asked,
    )
    if arguments.out is not None and (tuned.constraints or len(tuned.objectives) > 1) and tuned.rows:
        try:
            tuned.plot().save(os.path.join(arguments.out, "front.png"))
        except ImportError as error:
            print(f"wordline: note: no front.png: {error}", file=sys.stderr)
    if arguments.json:
        answer = {"best": tuned.best, "row": tuned.best_row, "front": tuned.front}
        print(json.dumps(answer, indent=1))
    else:
        sys.stdout.write(tuned.report())
    return 0 if tuned.best is not None and not tuned.interrupted else 1


def _study(arguments: argparse.Namespace) -> int:
    from .study import Study

    study = Study(
        arguments.study,
        scale=arguments.scale,
        points=arguments.point,
        vary=arguments.vary,
        repeat=arguments.repeat,
    )
    table = study.run(
        arguments.out,
        executor=None if arguments.dask is None else client(arguments.dask),
        workers=arguments.jobs,
        progress=False if arguments.quiet else None,
    )
    if not arguments.quiet:
        for file in table.files:
            print(f"wrote {file}", file=sys.stderr)
    sys.stdout.write(table.text)
    for point, why in table.failures.items():
        print(f"wordline: no result for {point}: {why}", file=sys.stderr)
    return 1 if table.failures else 0


def main(words: list[str] | None = None) -> int:
    """The exit status: 0 done, 1 failed or no answer, 2 unusable input."""
    arguments = _parser().parse_args(words)
    if arguments.expect not in (None, _wordline.VERSION):
        print(
            f"wordline: the Python package is of version {_wordline.VERSION}, the program of {arguments.expect}: "
            "install the same of both",
            file=sys.stderr,
        )
        return 2
    try:
        return _study(arguments) if arguments.command == "study" else _tune(arguments)
    except KeyboardInterrupt:
        print("wordline: interrupted: the same command goes on from there", file=sys.stderr)
        return 1
    except Error as error:
        # What was refused has the command line's words before it has Python's. A search's file has Python's.
        own = error.__context__ if arguments.command == "study" else None
        told = own if isinstance(own, (_wordline.InputError, _wordline.RunError)) else error
        print(f"wordline: {told}", file=sys.stderr)
        return 2 if isinstance(error, (InputError, ImportError, ValueError)) else 1
    except OSError as error:
        print(f"wordline: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # A worker outlives a process that ends by a signal's default.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
