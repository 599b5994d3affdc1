"""Drives and what they are combined with."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Union

from . import _wordline
from ._arguments import a, checked, native_number
from .errors import InputError, native, read_text

Path = Union[str, "os.PathLike[str]"]
Setting = Union[str, int, float, bool]


def overrides(set: Mapping[str, Setting] | None) -> list[str]:
    """Settings as ``key=value``, in their order."""

    def text(key: str, value: Setting) -> str:
        value = native_number(value)
        if not isinstance(value, (str, int, float)):
            raise InputError(f"set {key}: {a(value)}: give text, a number or a bool")
        return str(value).lower() if isinstance(value, bool) else str(value)

    settings = checked({"set": set})["set"] or {}
    return [f"{key}={text(key, value)}" for key, value in settings.items()]


@dataclass(frozen=True)
class Device:
    """A device by the name of its profile or as a TOML file, and what is changed in it.

    >>> Device("z-ssd-small", ftl="rail", set={"nand.t_read": "5us"})  # doctest: +SKIP
    """

    name: str = "cnex-westlake"
    ftl: str | None = None
    media: str | None = None
    set: Mapping[str, Setting] = field(default_factory=dict)
    scale: str | None = None

    @staticmethod
    def names() -> list[str]:
        """The devices that come with the package."""
        return [name for kind, name in _wordline.presets() if kind == "device"]

    def __post_init__(self) -> None:
        if not isinstance(self.name, (str, os.PathLike)):
            raise InputError(f"device: {a(self.name)}: give the name of a profile or a TOML file")
        object.__setattr__(self, "name", os.fspath(self.name))

    def with_(self, **changes: Any) -> Device:
        """The same with other fields; ``set`` is added to what is set."""
        changed = {**self.set, **changes.pop("set", {})}
        return replace(self, **changes, set=changed)

    def _words(self) -> dict[str, Any]:
        words = {
            "device": self.name,
            **checked({"ftl": self.ftl, "media": self.media, "scale": self.scale}),
            "set": overrides(self.set),
        }
        return {key: value for key, value in words.items() if value is not None}

    def check(self) -> str:
        """What follows from it: capacity, peak rates and their bottlenecks. Wrong values are an error."""
        try:
            return _wordline.explain(json.dumps(self._words()))
        except (_wordline.InputError, _wordline.RunError) as error:
            raise native(error, self._words()) from None

    @property
    def settings(self) -> dict[str, str]:
        """Every setting with its value, by the names that ``set`` takes."""
        try:
            return dict(_wordline.settings(json.dumps(self._words())))
        except (_wordline.InputError, _wordline.RunError) as error:
            raise native(error, self._words()) from None

    @property
    def profile(self) -> str:
        """The profile as written, with the source of every constant."""
        if os.path.isfile(self.name):
            return read_text(self.name)
        try:
            return _wordline.show(f"device/{self.name}")
        except _wordline.InputError as error:
            raise native(error, self.name) from None

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self.name)}</b><pre>{html.escape(self.check())}</pre>"
