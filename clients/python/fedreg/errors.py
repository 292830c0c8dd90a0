"""What can go wrong, as exceptions: each has the program's sentence and its exit code."""

from __future__ import annotations


class FedregError(Exception):
    """A run that did not give a result.

    The text is the sentence of the program that ended the run. ``exit_code`` is its exit code, or, where Python found the
    fault before a program was started, the one that the program has for such a fault; ``None`` where no program has one.
    ``log`` is all that the program wrote to standard error.
    """

    #: The exit code of errors of this class.
    code: int | None = None

    def __init__(self, sentence: str, exit_code: int | None = None, log: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = self.code if exit_code is None else exit_code
        self.log = log


class InternalError(FedregError):
    """A bug of the programs (1)."""

    code = 1


class UsageError(FedregError, ValueError):
    """The call or a configuration file cannot be understood (2)."""

    code = 2


class DataError(FedregError, ValueError):
    """The data were refused (65)."""

    code = 65


class NoConnection(FedregError):
    """A peer could not be reached, never came, or a port is in use (69)."""

    code = 69


class CannotWrite(FedregError):
    """A result or a state file cannot be written (73)."""

    code = 73


class ProtocolError(FedregError):
    """A peer broke the protocol (76)."""

    code = 76


class Refused(FedregError):
    """A certificate, study digest, budget or policy refused the run (77)."""

    code = 77


class Interrupted(FedregError):
    """A user, here or at a peer, interrupted the run (130)."""

    code = 130


class ProgramMissing(FedregError):
    """A program of fedreg was not found."""


class VersionMismatch(FedregError):
    """A program or a report is of another version than this package."""


class NotInReport(FedregError, ValueError):
    """The report does not hold what was asked for; the sentence says why."""


class FedregWarning(UserWarning):
    """Something that the reader of a result should know."""


class NotConverged(FedregWarning):
    """A result was written, but it did not converge, or lies outside the method's guarantee (exit code 3)."""


class NotANumber(FedregWarning):
    """Some of the numbers asked for are NaN; the sentence says why."""


_BY_CODE: dict[int, type[FedregError]] = {
    kind.code: kind
    for kind in (
        InternalError,
        UsageError,
        DataError,
        NoConnection,
        CannotWrite,
        ProtocolError,
        Refused,
        Interrupted,
    )
    if kind.code is not None
}


def of_code(code: int) -> type[FedregError]:
    """The class of errors with an exit code."""
    return _BY_CODE.get(code, FedregError)
