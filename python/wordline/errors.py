"""What can go wrong. Every message says where, and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
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


# Of the options that messages name with a value: the values, and of those with profiles the kinds of these. Any other word
# behind such an option is a word of the sentence.
_KINDS = ("device", "media", "ftl", "stack", "testbed", "app", "fs")
_VALUES = {
    "action": "[A-Z]",
    "align": "error|round",
    "array": "raid0|raid5",
    "format": r"[a-z][\w-]*(?= \()",
    "precondition": "auto|none|fill|steady|random|paced",
    "scale": r"\d+/\d+|quick|whole",
    "system": "vanilla|cacheopt|kernelopt|selectisr|xler",
}
_NUMBERS = "drives|closed-loop|seed|rwmixread"
# Options that are no arguments by their own name.
_NAMES = {
    "jobs": "workers",
    "name": "name",
    "no-cache": "cache=False",
    "no-integrity": "integrity=False",
    "out": "out",
    "point": "points",
    "repeat": "repeat",
    "report": "wordline report",
    "skip-beyond": "skip_beyond=True",
    "timeline-limit": "timeline",
    "vary": "vary",
    "wrap": "wrap=True",
}
# An option begins a word: within one the dashes are those of a name.
_OPTION = r"(?<![^\s(])--"


@cache
def _remedies() -> tuple[tuple[re.Pattern[str], Any], ...]:
    """What the command line says, and what it is here."""
    import inspect

    from ._run import replay, run

    names = dict(_NAMES)
    for name in (*inspect.signature(run).parameters, *inspect.signature(replay).parameters):
        names.setdefault(name.rstrip("_").replace("_", "-"), name)
    values = dict(_VALUES)
    for kind in _KINDS:
        values[kind] = "|".join(re.escape(name) for of, name in _wordline.presets() if of == kind)

    def argument(found: re.Match[str]) -> str:
        return names.get(found[1], found[0])

    texts = [(rf"{_OPTION}({name}) ({of})(?![\w-])", r"\1='\2'") for name, of in values.items()]
    words: list[tuple[str, Any]] = [
        (r"\b(\w+)=\.\.\. wordline run \.\.\.", r"give variables={'\1': ...}"),
        (r"\bwordline replay (?=--)", "wordline.replay with "),
        # A place at the beginning has what the user gave, whatever it is.
        (r"(?m)^--set ([\w.-]+)=(.*?): ", r"set={'\1': '\2'}: "),
        (r"(?m)^--with (\S+): ", r"with_=['\1']: "),
        (rf"(?m)^--({'|'.join(values)}) (\S+): ", r"\1='\2': "),
        (rf"{_OPTION}set ([\w.-]+)=(\.\.\.|[^\s,:;)]*[^\s,:;).])", r"set={'\1': '\2'}"),
        (rf"{_OPTION}with (\S+):load\b", r"load of '\1' in with_"),
        (rf"{_OPTION}host-memory \((ftl\.fssd\.host_memory)\)", r"\1"),
        *texts,
        (rf"{_OPTION}({_NUMBERS}) (\d+|N)\b", lambda found: f"{found[1].replace('-', '_')}={found[2]}"),
        (rf"{_OPTION}([a-z]+(?:[-_][a-z]+)*)", argument),
    ]
    return tuple((re.compile(pattern), word) for pattern, word in words)


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


# What is quoted is a name or a value of the user's. An apostrophe stands behind a letter.
_QUOTED = r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)|\"[^\"\n]*\""


def in_python(message: str, own: Iterable[str] = ()) -> str:
    """A message of the command line in the words of this package's arguments. What is quoted in it stays as it is, and so
    do names of the user's own."""
    for pattern, words in _PLACES:
        message = pattern.sub(words, message)
    names = sorted({name for name in own if "--" in name}, key=len, reverse=True)
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue001"

    message = re.sub("|".join([*map(re.escape, names), _QUOTED]), keep, message)
    for pattern, words in _remedies():
        message = pattern.sub(words, message)
    return re.sub("\ue000(\\d+)\ue001", lambda found: kept[int(found[1])], message)


def named(request: Any) -> Iterator[str]:
    """Names that a request has of the user's own: files, profiles, and what options of a job are set to."""
    if isinstance(request, Mapping):
        for key, value in request.items():
            if key == "fio":
                yield from (word.partition("=")[2] for word in value)
            elif key == "text":
                yield from re.findall(r"(?m)^\s*\[(.+)\]", value)
            elif key != "set":
                yield from named(value)
    elif isinstance(request, (list, tuple)):
        for value in request:
            yield from named(value)
    elif isinstance(request, str):
        yield request


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after a name that is meant, if one is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def native(error: Exception, request: Any = None) -> Error:
    """An error of the native module as one of these. The request has names of the user's own."""
    message = in_python(str(error), named(request))
    if isinstance(error, _wordline.InputError):
        return InputError(message)
    return RunError(message)


def read_text(path: Any) -> str:
    """The text of a file, or an error that names it."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{os.fspath(path)}: is not a text file: check the path") from None
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror or error}: check the path") from None


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
