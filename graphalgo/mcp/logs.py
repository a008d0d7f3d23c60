"""The log: one JSON object a line, without bodies, arguments or tokens.

What other libraries tell is logged as the text of their message before anything
is filled in, and the kind of an exception without its words: either could repeat
what a caller wrote.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time

EVENTS = logging.getLogger("graphalgo.mcp")

_FIELDS = "fields"
_MOST_WAITING = 10_000


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
        }
        fields = getattr(record, _FIELDS, None)
        if fields is not None:
            line |= {"event": record.msg, **fields}
        else:
            line |= {"event": "library", "logger": record.name, "message": str(record.msg)}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__qualname__
            line["at"] = _place(record)
        return json.dumps(line, ensure_ascii=False, default=str)


def tell(event: str, level: int = logging.INFO, *, failure: bool = False, **fields: object) -> None:
    """Log an event.

    Parameters
    ----------
    event : str
        What happened, in one word.
    level : int
        As in :mod:`logging`.
    failure : bool
        Add the kind and the place of the exception that is being handled.
    **fields
        What is known of it; None is left out.
    """
    known = {name: value for name, value in fields.items() if value is not None}
    EVENTS.log(level, event, exc_info=failure, extra={_FIELDS: known})


class Writer(logging.Handler):
    """Writes lines in a thread of its own: who does not read them holds up nobody.

    Parameters
    ----------
    descriptor : int
        Of the open file that they go to.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.lines: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        self.dropped = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; drop it where too many wait."""
        try:
            self.lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:
            self.handleError(record)

    def finish(self, seconds: float = 1.0) -> None:
        """Wait until all is written, but no longer than that."""
        end = time.monotonic() + seconds
        while self.lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            line = self.lines.get()
            if self.dropped:
                dropped, self.dropped = self.dropped, 0
                line += f'\n{{"event": "dropped", "lines": {dropped}}}'
            try:
                data = memoryview(f"{line}\n".encode(errors="backslashreplace"))
                while data:
                    data = data[os.write(self.descriptor, data) :]
            except OSError:
                pass  # there is nowhere left to say so
            self.lines.task_done()


def to_standard_error() -> Writer:
    """Send the log to the standard error stream, and nowhere else."""
    writer = Writer(2)
    writer.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [writer]
    root.setLevel(logging.WARNING)
    EVENTS.setLevel(logging.INFO)
    # Every connection that is lost is an event of ours; the pool would repeat it each try.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    return writer


def _place(record: logging.LogRecord) -> str | None:
    """Name the function and line that an exception comes from."""
    assert record.exc_info is not None
    trace = record.exc_info[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
