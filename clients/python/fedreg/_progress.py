"""Shows how far a run is: lines on a terminal, one line that changes in a notebook."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

#: Least time between two lines of rounds on a terminal, and between two changes in a notebook, in seconds.
_LINES = 2.0
_CHANGES = 0.2


def _in_notebook() -> bool:
    """Whether this is a kernel whose front end shows rich output. IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Takes the events of a run and shows them, or, as this class, nothing."""

    def event(self, event: dict[str, Any], who: str = "") -> None:
        """A line of the log, parsed; an empty one where only time has gone by."""

    def done(self, well: bool) -> None:
        """The run has ended, well or not."""


def _words(event: dict[str, Any]) -> str:
    """How far a session is, as the programs say it on a terminal."""
    words = [str(event["phase"])]
    if event.get("round"):
        words.append(f"round {event['round']}")
    gradient = event.get("certificate")
    if isinstance(gradient, float):
        words.append(f"gradient {gradient:.1e}")
    sent = event.get("bytes_sent")
    if isinstance(sent, int):
        words.append(f"{sent / 1e6:.1f} MB sent")
    return ", ".join(words)


class _Lines(Progress):
    """Passes lines on to standard error, after a time in which nobody begins to wonder."""

    def __init__(self, silence: float) -> None:
        self._told = time.monotonic()
        self._from = self._told + silence

    def event(self, event: dict[str, Any], who: str = "") -> None:
        now = time.monotonic()
        if now < self._from:
            return
        if "phase" in event:
            if now - self._told < _LINES:
                return
            text = _words(event)
        elif "message" in event:
            text = str(event["message"])
        else:
            return
        self._told = now
        print(f"{who}: {text}" if who else text, file=sys.stderr, flush=True)


class _Notebook(Progress):
    """One line that is written over."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = self._told = time.monotonic()
        self._handle: Any = None
        self._text = ""

    def _show(self, text: str) -> None:
        from IPython.display import display

        line = f"{self._name}: {text} ({time.monotonic() - self._begun:.1f} s)"
        content = {"text/plain": line, "text/html": f"<code>{escape(line)}</code>"}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def event(self, event: dict[str, Any], who: str = "") -> None:
        if "phase" in event or "message" in event:
            text = _words(event) if "phase" in event else str(event["message"])
            self._text = f"{who}, {text}" if who else text
        now = time.monotonic()
        if self._text and (self._handle is None or now - self._told >= _CHANGES):
            self._told = now
            self._show(self._text)

    def done(self, well: bool) -> None:
        if self._handle is not None:
            self._show("done" if well else "ended without a result")


def shown(name: str, wanted: bool | None, silence: float = 0.0) -> Progress:
    """The way that suits where this runs; ``None`` shows progress on terminals, after some silence, and in notebooks."""
    if wanted is False:
        return Progress()
    if _in_notebook():
        return _Notebook(name)
    if wanted or sys.stderr.isatty():
        return _Lines(0.0 if wanted else silence)
    return Progress()
