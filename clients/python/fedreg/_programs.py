"""Finds the programs, runs them, and turns how they end into results and exceptions."""

from __future__ import annotations

import functools
import json
import operator
import os
import queue
import re
import shutil
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from . import _version
from .errors import FedregError, ProgramMissing, UsageError, of_code

#: Names a folder with the programs; nothing else is looked at then.
FOLDER = "FEDREG_BIN"

#: What the programs log: phases, warnings, and rounds.
_LOGGED = "warn,fedreg_common=info,fedreg_proto=info,fedreg_party=info,fedreg_coordinator=info,fedreg_party::pace=debug"

#: How long a program that was interrupted may take to tell the others.
_FAREWELL = 10.0

#: How often a run is looked at that says nothing, in seconds.
_LOOK = 0.1


def _installed() -> Iterator[Path]:
    """Where an installation puts programs, the likeliest first."""
    for scheme in (None, f"{os.name}_user"):
        try:
            found = sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme)
        except KeyError:
            continue
        if found:
            yield Path(found)
    # As `pip install --target` leaves them.
    yield Path(__file__).resolve().parent.parent / "bin"


#: Found when the package is imported: threads that ask `sysconfig` first, all at once, may get an error in place of an answer.
_INSTALLED = tuple(_installed())


def _folders() -> Iterable[Path]:
    return _INSTALLED


def find(name: str) -> Path:
    """The program of this name: in the folder ``FEDREG_BIN``, beside this package, or on the PATH."""
    given = os.environ.get(FOLDER)
    if given:
        program = Path(given) / name
        if os.access(program, os.X_OK) and program.is_file():
            return _checked(program, name)
        raise ProgramMissing(f"there is no program `{name}` in {given}, which the variable {FOLDER} names")
    for folder in _folders():
        program = folder / name
        if program.is_file() and os.access(program, os.X_OK):
            return _checked(program, name)
    found = shutil.which(name)
    if found is None:
        raise ProgramMissing(
            f"the program `{name}` is missing: it is neither beside this package nor on the PATH; "
            f"`pip install ./clients/python` brings it, or the variable {FOLDER} names the folder that it is in"
        )
    return _checked(Path(found), name)


def _checked(program: Path, name: str) -> Path:
    version = _version_of(program, name, program.stat().st_mtime_ns)
    _version.expect(f"the program {program}", version)
    return program


@functools.lru_cache(maxsize=64)
def _version_of(program: Path, name: str, _changed: int) -> str:
    try:
        answer = subprocess.run(
            [str(program), "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramMissing(f"the program {program} cannot be run: {error}") from error
    # Another program may answer in any encoding.
    said = answer.stdout.decode("utf-8", "replace").split()
    # Names such as `party` and `worker` may be those of another program on the PATH.
    if answer.returncode != 0 or len(said) != 2 or said[0] != name:
        raise ProgramMissing(f"{program} is no program of fedreg: `--version` does not give its name and version")
    return said[1]


@dataclass
class Ended:
    """How a program ended that gave a result."""

    exit_code: int
    stdout: str
    #: All that was written to standard error.
    log: str
    #: Messages of the log that a reader of the result should know.
    warnings: list[str] = field(default_factory=list)
    #: All messages of the log.
    messages: list[str] = field(default_factory=list)


#: Takes an event of a running program: its parsed log line, or an empty one to look at the clock.
Watcher = Callable[[dict[str, Any]], None]


def run(
    program: Path, arguments: Sequence[str], watch: Watcher, *, who: str, leash: bool = False, fine: Sequence[int] = (0,)
) -> Ended:
    """Runs a program to its end; raises the exception of its exit code where this is none of ``fine``.

    ``who`` begins its sentences. With ``leash`` the program ends as by an interrupt when this process is gone.
    """
    environment = {"RUST_LOG": _LOGGED, **os.environ}
    words = [str(program), *arguments, *(["--leash"] if leash else [])]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if leash else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # A key that interrupts a terminal must reach the program once, from here: a second one ends it at once.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProgramMissing(f"the program {program} cannot be run: {error}") from error
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    printed: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(target=_read_all, args=(process.stdout, printed), daemon=True),
        threading.Thread(target=_read_lines, args=(process.stderr, lines), daemon=True),
    ]
    for reader in readers:
        reader.start()
    ended = Ended(0, "", "")
    spoken: list[str] = []
    log: list[str] = []
    try:
        _follow(lines, log, spoken, ended, watch)
        ended.exit_code = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdin is not None:
            process.stdin.close()
        for reader in readers:
            reader.join(_FAREWELL)
        process.stdout.close()
        process.stderr.close()
    ended.stdout = "".join(printed)
    ended.log = "\n".join(log)
    if ended.exit_code in fine:
        ended.warnings.extend(line.removeprefix(f"{who}: ") for line in spoken if line.strip())
        return ended
    raise _failure(who, ended, spoken)


def _read_all(stream: IO[bytes], into: list[str]) -> None:
    into.append(stream.read().decode("utf-8", "replace"))


def _read_lines(stream: IO[bytes], into: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        into.put(line.decode("utf-8", "replace").rstrip("\r\n"))
    into.put(None)


def _follow(lines: queue.SimpleQueue[str | None], log: list[str], spoken: list[str], ended: Ended, watch: Watcher) -> None:
    """Takes lines of standard error until it closes."""
    while True:
        try:
            line = lines.get(timeout=_LOOK)
        except queue.Empty:
            watch({})
            continue
        if line is None:
            return
        log.append(line)
        event = parsed(line)
        if event is None:
            spoken.append(line)
            continue
        message = event.get("message")
        if isinstance(message, str) and isinstance(event.get("who"), str):
            # The sentence with which a program fails.
            spoken.append(f"{event['who']}: {message}")
            continue
        if isinstance(message, str):
            ended.messages.append(message)
            if event.get("level") in ("WARN", "ERROR"):
                ended.warnings.append(message)
        watch(event)


def parsed(line: str) -> dict[str, Any] | None:
    """A line of a log in JSON."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "level" in event else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program as by an interrupt, so that it can tell the others."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_FAREWELL)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _failure(who: str, ended: Ended, spoken: list[str]) -> FedregError:
    if ended.exit_code < 0:
        number = -ended.exit_code
        sentence = f"{who} was ended by signal {number} ({signal.Signals(number).name})"
        return FedregError(sentence, ended.exit_code, ended.log)
    return of_code(ended.exit_code)(_sentence(who, spoken), ended.exit_code, ended.log)


#: A party of a rehearsal says that another one ended the run, or the demo says that one did: the reason stands elsewhere.
_REPEATED = re.compile(r"[a-z][\w-]*: .+ ended the run: |demo: the run was ended")


def _sentence(who: str, spoken: list[str]) -> str:
    """What a program says of its failure, without what only repeats that there is one."""
    lines = [line for line in spoken if line.strip()]
    begins = [at for at, line in enumerate(lines) if line.startswith((f"{who}: ", "error: "))]
    if who == "demo":
        lines = [line for line in lines if not _REPEATED.match(line)] or lines
    elif begins:
        lines = lines[begins[-1] :]
    text = "\n".join(lines)
    if text.startswith("error: "):
        # A command line that cannot be read: the usage would be that of the program's flags.
        text = re.split(r"\n\s*(?:Usage:|For more information)", text.removeprefix("error: "))[0]
        return " ".join(text.split())
    return text.removeprefix(f"{who}: ") or f"{who} gave no reason"


def flags(given: dict[str, Any]) -> list[str]:
    """Flags of a program from keywords: ``max_rounds=9`` is ``--max-rounds 9``, ``no_basis=True`` is ``--no-basis``."""
    words: list[str] = []
    for name, value in given.items():
        flag = "--" + name.strip("_").replace("_", "-")
        value = plain(value)
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            words.append(f"{flag}={listed([_text(name, one) for one in value])}")
        else:
            words.append(f"{flag}={_text(name, value)}")
    return words


def plain(value: Any) -> Any:
    """Scalars and arrays of numpy, and what is like them, as Python has them; all else as it is."""
    convert = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    return convert() if callable(convert) else value


def _text(name: str, value: Any) -> str:
    """One value of a flag."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    value = plain(value)
    # Numbers of other libraries are written as Python writes its own.
    for kind in (operator.index, float):
        try:
            return repr(kind(value))
        except (TypeError, ValueError):
            continue
    raise UsageError(f"{name}: a value of type {type(value).__name__} is no value of a flag")


def listed(names: Sequence[str]) -> str:
    """Names as a flag takes them: with commas, quoted as in CSV."""
    return ",".join(f'"{name.replace(chr(34), chr(34) * 2)}"' if _is_odd(name) else name for name in names)


def _is_odd(name: str) -> bool:
    return any(letter in name for letter in ',;"=\n') or name != name.strip() or name.startswith("~")
