"""A process that runs points of a sweep as it is told on its standard input."""

from __future__ import annotations

import os
import pickle
import struct
import sys
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


def main() -> None:
    """Runs batches until there are no more."""
    from ._points import run_point, unpacked

    # What a measure prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        while True:
            batch = receive(sys.stdin.buffer)
            measure = unpacked(batch["measure"])
            for point in batch["points"]:
                send(answers, run_point(point, measure))
    except EOFError:
        return
    except BrokenPipeError:
        # Whoever asked is gone, and so is the place of what was not sent.
        os._exit(0)
