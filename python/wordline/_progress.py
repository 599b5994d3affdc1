"""How far a run is, in a terminal or a notebook."""

from __future__ import annotations

import html
import shutil
import sys
import time
from typing import Any, Literal, Protocol


class Progress(Protocol):
    """Is told how a run goes, and when it is over."""

    def __call__(self, phase: str, part: float | None, now_ns: int, ios: int) -> None: ...
    def close(self) -> None: ...


class Nothing:
    """Nobody watches."""

    def __call__(self, phase: str, part: float | None, now_ns: int, ios: int) -> None:
        pass

    def close(self) -> None:
        pass


# Shorter runs show nothing.
_QUIET_S = 0.3
_REDRAW_S = 0.1


def words(phase: str, part: float | None, now_ns: int, ios: int, elapsed_s: float) -> str:
    """A line without its bar."""
    if phase:
        return f"{phase} ({elapsed_s:.0f} s)"
    rate = ios / max(elapsed_s, 1e-9) / 1e3
    text = f"{now_ns / 1e9:.3f} s simulated, {ios:,} I/Os, {rate:.0f} k/s"
    if part is not None and part > 0.01:
        text += f", {elapsed_s * (1 - part) / part:.0f} s to go"
    return text


class _Drawn:
    def __init__(self) -> None:
        self.begun = self.drawn = time.monotonic()
        self.phase = ""
        self.shown = False

    def due(self, phase: str) -> float | None:
        """Seconds of this phase, if it is time to draw."""
        now = time.monotonic()
        if now - self.begun < _QUIET_S and not self.shown:
            return None
        if phase != self.phase:
            self.phase, self.begun = phase, now
        elif now - self.drawn < _REDRAW_S:
            return None
        self.drawn, self.shown = now, True
        return now - self.begun


class Terminal(_Drawn):
    """A line that is drawn over and over."""

    def __call__(self, phase: str, part: float | None, now_ns: int, ios: int) -> None:
        elapsed = self.due(phase)
        if elapsed is None:
            return
        width = shutil.get_terminal_size().columns - 1
        text = words(phase, part, now_ns, ios, elapsed)
        if part is not None and not phase:
            room = max(width - len(text) - 8, 0)
            done = round(room * part)
            text = f"{'█' * done}{'░' * (room - done)} {part:4.0%} {text}"
        sys.stderr.write("\r\x1b[2K" + text[:width])
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


class Notebook(_Drawn):
    """A bar below the cell, which goes away at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.handle: Any = None

    def __call__(self, phase: str, part: float | None, now_ns: int, ios: int) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        elapsed = self.due(phase)
        if elapsed is None:
            return
        value = "" if part is None or phase else f" value='{part:.3f}'"
        text = html.escape(words(phase, part, now_ns, ios, elapsed))
        shown = HTML(f"<progress max='1'{value} style='width:20em'></progress> {text}")
        if self.handle is None:
            self.handle = display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def close(self) -> None:
        if self.handle is not None:
            from IPython.display import HTML

            self.handle.update(HTML(""))


def in_notebook() -> bool:
    """Whether this is the process behind a notebook."""
    shell = sys.modules.get("IPython")
    here = shell.get_ipython() if shell is not None else None
    return here is not None and type(here).__name__ == "ZMQInteractiveShell"


def watch(progress: bool | Progress | None) -> Progress:
    """What shows progress: by default where somebody sees it."""
    if progress is None:
        progress = in_notebook() or sys.stderr.isatty()
    if progress is True:
        return Notebook() if in_notebook() else Terminal()
    return progress or Nothing()


# Between two lines of a log.
_LOG_S = 20.0


class Line:
    """A line about many runs: on a terminal, or below a notebook's cell. It goes away at the end. With "log" one is
    written now and then where there is no terminal."""

    def __init__(self, progress: bool | Literal["log"] | None) -> None:
        self.notebook = in_notebook()
        here = self.notebook or sys.stderr.isatty()
        self.log = progress == "log" and not here
        self.shown = progress is True or here and progress is not False
        self.begun, self.drawn = time.monotonic(), 0.0
        self.handle: Any = None

    def draw(self, text: str) -> None:
        """Draws it, if it is time to."""
        now = time.monotonic()
        if self.log and now - max(self.begun, self.drawn) >= _LOG_S:
            self.drawn = now
            print(f"wordline: {text}", file=sys.stderr, flush=True)
        if not self.shown or now - self.begun < _QUIET_S or now - self.drawn < 2 * _REDRAW_S:
            return
        self.drawn = now
        if not self.notebook:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
            return
        from IPython.display import HTML, display

        shown = HTML(html.escape(text))
        if self.handle is None:
            self.handle = display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def close(self) -> None:
        """Takes it away."""
        if self.handle is not None:
            from IPython.display import HTML

            self.handle.update(HTML(""))
        elif self.drawn and self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
