"""Arguments of run and replay, looked at before they go down: an error names the argument and says what to write."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import InputError

_WORD = (1 << 64) - 1
# Text, with an example of it.
_TEXTS = {
    "ftl": "rail",
    "stack": "spdk",
    "testbed": "i7-8700",
    "media": "z-nand",
    "fs": "ext4",
    "system": "vanilla",
    "array": "raid5",
    "scale": "1/16",
    "app": "web-server",
    "precondition": "fill",
    "limit": "5s",
    "align": "round",
    "format": "msr",
    "columns": "time=1:us,op=2,offset=3:sector",
    "bs": "4k",
    "address_unit": "4k",
    "time_unit": "us",
    "action": "Q",
    "volume": "0",
}
_WHOLE = {
    "seed": (0, _WORD),
    "shuffle_ties": (0, _WORD),
    "slowest": (0, 1 << 32),
    "timeline": (0, 1 << 48),
    "drives": (1, 255),
    "closed_loop": (1, 65_536),
    "rwmixread": (0, 100),
    "workers": (1, 65_536),
    "trials": (1, 1 << 32),
    "verify_most": (1, 1 << 32),
    "repeat": (2, 1000),
}
_YES_OR_NO = {"integrity", "over_time", "share", "cache", "wrap", "skip_beyond", "strict"}
_PATHS = {"topology", "load_state", "save_state"}
_NAMES = {"with_": "pagerank", "sections": "readers", "points": "system=rail", "vary": "seed=1,2"}
_TABLES = {"set": "{'nand.t_read': '3us'}", "variables": "{'depth': 8}"}


def a(value: Any) -> str:
    """A value and its kind."""
    kind = type(value).__name__
    return f"{value!r} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def native_number(value: Any) -> Any:
    """A number of numpy's as Python's own; all others as they are."""
    return value.item() if isinstance(value, (np.number, np.bool_)) else value


def whole(value: Any) -> Any:
    """A float that is a whole number as an int, which has no ``.0`` when it is written; all others as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments, each of its own kind. None is an argument that is left out."""
    return {name: None if value is None else _checked(name, value) for name, value in arguments.items()}


def _checked(name: str, value: Any) -> Any:
    if name in _TEXTS:
        if isinstance(value, str):
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        raise InputError(f"{name}: {a(value)}: write text, as in {name}='{_TEXTS[name]}'")
    if name in _WHOLE:
        return whole_number(name, value, name)
    if name in _YES_OR_NO:
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name}: {a(value)}: write True or False")
        return bool(value)
    if name in _PATHS:
        if not isinstance(value, (str, os.PathLike)):
            raise InputError(f"{name}: {a(value)}: give the path of a file")
        return os.fspath(value)
    if name in _NAMES:
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
            raise InputError(f"{name}: {a(value)}: give a list of words, as in {name}=['{_NAMES[name]}']")
        return list(value)
    if name in _TABLES:
        table(name, value)
    return value


def whole_number(name: str, value: Any, kind: str) -> int:
    """An argument that is a whole number, within the bounds of its kind."""
    low, high = _WHOLE[kind]
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        most = "2**64 - 1" if high == _WORD else str(high)
        raise InputError(f"{name}: {value!r} must be a whole number, {low} to {most}")
    return number


def table(name: str, value: object) -> dict[str, Any]:
    """An argument that is a mapping, as one of its own; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: {a(value)}: give a mapping, as in {name}={_TABLES[name]}")
    return dict(value)
