"""What can go wrong. Every message says where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _wordline

if TYPE_CHECKING:
    from .result import Result


class Error(Exception):
    """The base of all others."""


class InputError(Error, ValueError):
    """What was given cannot be used: a job, a profile, a setting, a trace."""


class RunError(Error, RuntimeError):
    """A run whose numbers are not those of a whole run. ``result`` is what there is of it."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class FormatError(Error, ValueError):
    """A file that is no result, or one of another version."""


class VersionError(Error, RuntimeError):
    """A cluster whose workers have another build of the package."""


class SweepError(Error, RuntimeError):
    """A sweep that could not go on. What it had finished is on disk, whole."""


class MissingPackage(Error, ImportError):
    """An optional package is not installed; the message says how to get it."""


_TEXTS = "device ftl stack testbed media fs system scale precondition align app limit array topology columns format"
_REMEDIES = (
    (re.compile(r"\b(\w+)=\.\.\. wordline run \.\.\."), r"give variables={'\1': ...}"),
    (re.compile(r"--set ([\w.-]+)=([^\s,:;)]+)"), r"set={'\1': '\2'}"),
    (re.compile(rf"--({_TEXTS.replace(' ', '|')}) ([^\s,:;)]+)"), r"\1='\2'"),
    (re.compile(r"--(drives|closed-loop|seed|rwmixread) (\d+)"), r"\1=\2"),
    (re.compile(r"--no-integrity\b"), "integrity=False"),
    (re.compile(r"--([a-z]+(?:-[a-z]+)*)"), lambda found: found[1].replace("-", "_")),
)


def _unknown(found: re.Match[str]) -> str:
    """A keyword that nobody knows: it may be meant for run or for the job."""
    import inspect

    from ._run import run

    meant = found[2] or nearest(found[1], inspect.signature(run).parameters)
    return f"{found[1]}: no argument of wordline.run and no option of fio's{meant}"


_PLACES: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"^command line: unknown option '([\w.-]+)'(, did you mean '[\w.-]+'\?)?(?:: fio --cmdhelp=all lists them)?"), _unknown),
    (re.compile(r"^command line: option '([\w.-]+)': "), r"\1: "),
    (re.compile(r"^command line: "), "job: "),
)


#: What the user wrote himself: it stays as it is.
_OWN = re.compile(r"cannot read '[^']*'")


def in_python(message: str) -> str:
    """A message of the command line in the words of this package's arguments."""
    own = _OWN.search(message)
    if own is not None:
        return in_python(message[: own.start()]) + own[0] + in_python(message[own.end() :])
    for pattern, words in _PLACES:
        message = pattern.sub(words, message)
    for pattern, words in _REMEDIES:
        message = pattern.sub(words, message)
    return message


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after a name that is meant, if one is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def native(error: Exception) -> Error:
    """An error of the native module as one of these."""
    message = in_python(str(error))
    if isinstance(error, _wordline.InputError):
        return InputError(message)
    return RunError(message)


def need(module: str, extra: str, what: str) -> object:
    """An optional package, or an error that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingPackage(
            f"{what} needs the package {package}: pip install {package}, or in the folder of wordline's sources "
            f"pip install '.[{extra}]'"
        ) from error
