"""The mistakes a person can make, as one small tree; each message says what to do instead.

SignoffError
├── BadAddress          a name or address that cannot be written
├── BadTree             an agent tree that cannot run
├── BadInput            a start input, message or file that does not say what it should
├── DecisionRefused     a decision that changes nothing
│   ├── UnknownInterrupt    nothing of that id waits here
│   ├── AlreadyDecided      somebody, or time, was faster
│   └── UnfitDecision       not an answer to this question
└── Unreachable         a server, a worker, a run or a file that is not there
"""


class SignoffError(Exception):
    """Something a person can put right; its text is one line that says how."""


class BadAddress(SignoffError, ValueError):
    """A name or address that cannot be written or read."""


class BadTree(SignoffError, ValueError):
    """An agent tree that cannot run; the text names the node."""


class BadInput(SignoffError, ValueError):
    """Input that does not say what it should; the text names the field."""


class DecisionRefused(SignoffError):
    """A decision that changed nothing; the text says why and what would fit."""


class UnknownInterrupt(DecisionRefused):
    """No interrupt of that id is open, nor was."""


class AlreadyDecided(DecisionRefused):
    """The interrupt is closed."""


class UnfitDecision(DecisionRefused):
    """The interrupt is open but does not take this decision."""


class Unreachable(SignoffError):
    """A server, a worker or a run that does not answer or does not exist."""


class NoSuchRun(Unreachable):
    """No run of that id is on this server."""


class RunClosed(Unreachable):
    """The run has ended; the text says how."""


class NoWorker(Unreachable):
    """The server answers and the run is open, but no worker answers for it."""
