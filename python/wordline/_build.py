"""What this package was built of."""

from __future__ import annotations

import hashlib
import os
from functools import cache

from . import _wordline


@cache
def identity() -> str:
    """Packages of the same sources have the same, and give the same rows; others may not."""
    digest = hashlib.sha256(_wordline.SOURCES.encode())
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(f"\n{name}\n".encode() + file.read())
    return digest.hexdigest()[:12]


def named(build: str) -> str:
    """A build in words."""
    return f"{_wordline.VERSION} (build {build})"
