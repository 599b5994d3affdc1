"""A process that runs points of a sweep as it is told on its standard input."""

from __future__ import annotations

import os
import pickle
import queue
import struct
import sys
import threading
import traceback
from typing import IO, Any

HEAD = struct.Struct("<Q")


def send(to: IO[bytes], message: Any) -> None:
    """A message with its length before it."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    to.write(HEAD.pack(len(data)) + data)
    to.flush()


def receive(source: IO[bytes]) -> Any:
    """The next message; the end of the stream, in the midst of one or before it, is an EOFError."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        raise EOFError
    (length,) = HEAD.unpack(head)
    data = source.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def _commands() -> IO[bytes]:
    """The pipe of the sweep, which is no longer the standard input: a measure, or a process that it starts, would take
    bytes of it."""
    # A file of its own: the interpreter closes the standard one at its end, and would wait for who reads it.
    source = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return source


def _listen(source: IO[bytes], batches: queue.SimpleQueue[Any]) -> None:
    """Hears what is to run while a point runs, so that it hears that nobody is left to run it for."""
    try:
        while True:
            batches.put(receive(source))
    except (EOFError, OSError):
        # The other end is closed: by the sweep, or by the system when the sweep died.
        os._exit(0)
    except BaseException:
        # The end of this thread alone would leave the process waiting for ever, and the sweep for it.
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Runs batches until there are no more."""
    from ._points import run_point, unpacked

    # What a measure prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(_commands(), batches), daemon=True).start()
    try:
        while True:
            batch = batches.get()
            measure = unpacked(batch["measure"])
            for point in batch["points"]:
                row = run_point(point, measure)
                # The process does not end by itself.
                sys.stdout.flush()
                send(answers, row)
    except BrokenPipeError:
        # Whoever asked is gone, and so is the place of what was not sent.
        os._exit(0)
