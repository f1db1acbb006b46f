"""What can go wrong, each with the rule, the offending value and the way out.

CausalBanditsError (a ValueError)
├── ModelError            a variable, a table, a graph
├── DataError             data that do not fit the graph: columns, values, what is missing
├── FormatError           a file that does not follow its format, with line and column
├── InterventionError     an assignment or an action that the action space does not hold
│   └── ActionIndexError  a number beyond the last action (an IndexError, too)
├── ProblemError          manipulable variables, parents, constraints, rewards and their means
│   └── NotIdentifiedError  what cannot be computed from what is observed, and what would help
├── PolicyError           a policy's parameters, or a policy used where it cannot work
├── BudgetError           a budget that is none, or does not allow for anything any more
├── StudyModeError        a study that is paused or closed, or cannot be in the mode that is wanted
├── SizeError             something too large to enumerate or to hold, refused before it starts
├── TellError             feedback that the agent cannot take; nothing was changed
│   ├── ConflictError         what contradicts what a study was told or asked before
│   └── UnknownDecisionError  of a decision that was never made
└── StateError            a file that cannot be read or written, is corrupted, or belongs to something else
    └── StorageError          a database that could not do what it was asked; nothing was changed
CausalBanditsWarning (a UserWarning)
├── DataWarning           data that can be used and look odd, or estimates that claim more than the data said
├── BatchWarning          several decisions at once by a policy that repeats one action
├── ClockWarning          a computer's clock was set, or contradicts what a study has recorded
├── EvidenceWarning       outcomes that contradict the graph or a table, and what was done about it
├── ProblemWarning        a knob or a constraint of a problem that does nothing
├── ScaleWarning          rewards far from the scale that a policy was told to expect
└── TheoryWarning         a regret bound whose assumptions the environment does not meet
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MESSAGE_LIMIT = 4000
"""An error is for people: longer ones are cut in the middle."""

LISTED_NAMES = 40
"""So many names that exist are listed for one that does not."""


class CausalBanditsError(ValueError):
    """Any refusal by this library.

    `path` leads to the offending value where that is known: the name of the argument, then keys and positions in it.
    """

    def __init__(self, message: str = "", *, path: tuple[str | int, ...] = ()) -> None:
        self.path = path
        if len(message) > MESSAGE_LIMIT:
            message = (
                f"{message[: MESSAGE_LIMIT // 2]} ... ({len(message):,} characters) ... "
                f"{message[-MESSAGE_LIMIT // 4 :]}"
            )
        super().__init__(message)


class ModelError(CausalBanditsError):
    """A variable, a table or a graph is not a causal model."""


class DataError(CausalBanditsError):
    """Data that a model cannot be fitted to or checked against."""


class FormatError(CausalBanditsError):
    """A file that does not follow its format; `line` and `column` count from 1, and are 0 where there is no place.

    >>> print(FormatError("expected '{', found ';'.", file="asia.bif", line=3, column=7))
    asia.bif, line 3, column 7: expected '{', found ';'.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        self.file, self.line, self.column = file, line, column
        place = f"{file}, line {line}, column {column}" if line else file
        super().__init__(f"{place}: {message}" if place else message)


class InterventionError(CausalBanditsError):
    """An assignment or an action that does not exist."""


class ActionIndexError(InterventionError, IndexError):
    """A number beyond the last action."""


class ProblemError(CausalBanditsError):
    """Parts that do not fit together into a bandit problem."""


class NotIdentifiedError(ProblemError):
    """P(of | do(...)) cannot be computed from what is observed, however many rows there are.

    `hedge` is the reason: a group that hidden causes tie together, and a smaller one that all of it leads to. To
    observe the hidden causes `observe`, or to set the variables `randomise` at random in some rows, would help; each is
    the smallest such set that was found, empty if none was.
    """

    of: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    hedge: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    observe: tuple[str | tuple[str, ...], ...] = ()
    randomise: tuple[str, ...] = ()


class PolicyError(CausalBanditsError):
    """A policy's parameters, or a policy used where it cannot work."""


class BudgetError(CausalBanditsError):
    """A budget that is none, or that does not allow for anything any more; nothing was decided."""


class StudyModeError(CausalBanditsError):
    """A study that is paused or closed, or cannot be in the mode that is wanted; nothing was changed."""


class SizeError(CausalBanditsError):
    """Too large to enumerate or to hold in memory."""


class TellError(CausalBanditsError):
    """Feedback that the agent cannot take; its state is unchanged."""


class ConflictError(TellError):
    """What contradicts what a study was told before, or a key that was used for another request."""


class UnknownDecisionError(TellError):
    """Something told of a decision that was never made."""


class StateError(CausalBanditsError):
    """A file that cannot be read or written, is corrupted, or belongs to something else."""


class StorageError(StateError):
    """A database that could not do what it was asked; nothing was changed."""


class CausalBanditsWarning(UserWarning):
    """Any warning of this library: `warnings.simplefilter("ignore", CausalBanditsWarning)` silences them all."""


class DataWarning(CausalBanditsWarning):
    """Data that can be used and look odd, or estimates that claim more than the data said."""


class BatchWarning(CausalBanditsWarning):
    """Several decisions were asked for at once, and the policy is deterministic: it repeats one action."""


class ClockWarning(CausalBanditsWarning):
    """A computer's clock was set, or contradicts what a study has recorded; says by how much, and which time counts."""


class EvidenceWarning(CausalBanditsWarning):
    """Outcomes contradict the graph or a table; says which, how strongly, and what was done about it."""


class ProblemWarning(CausalBanditsWarning):
    """A part of a problem does nothing: a knob that leads nowhere, a constraint that forbids nothing."""


class ScaleWarning(CausalBanditsWarning):
    """Rewards are far from the scale that a policy was told to expect."""


class TheoryWarning(CausalBanditsWarning):
    """A regret bound whose assumptions are known to be broken."""


_COLLECTED: ContextVar[list[str] | None] = ContextVar("collected_warnings", default=None)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """The texts of this library's warnings within, in this thread or task alone; they are not shown."""
    collected: list[str] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def warn(message: str, category: type[CausalBanditsWarning], *, stacklevel: int) -> None:
    """Warn as `warnings.warn` does, or hand the text to `collect_warnings`.

    >>> with collect_warnings() as collected:
    ...     warn("Nothing leads to the reward.", ProblemWarning, stacklevel=1)
    >>> collected
    ['Nothing leads to the reward.']
    """
    collected = _COLLECTED.get()
    if collected is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    elif message not in collected:
        collected.append(message)


@contextmanager
def within(*path: str | int) -> Iterator[None]:
    """Errors raised within are about a part of this argument, to which `path` leads."""
    try:
        yield
    except CausalBanditsError as error:
        error.path = (*path, *error.path)
        raise


def closest_name(value: object, names: Iterable[str]) -> str | None:
    """The name that is most like a value; None where none is.

    >>> closest_name("betta", ["beta", "gaussian"]), closest_name(7, ["beta"])
    ('beta', None)
    """
    # Comparing takes the product of the lengths: nobody mistypes a name of hundreds of characters.
    if not isinstance(value, str) or len(value) > 100:
        return None
    short = [name for name in names if len(name) <= 100][:2000]
    return next(iter(difflib.get_close_matches(value, short, n=1, cutoff=0.5)), None)


def unknown_name_message(kind: str, value: object, options: Iterable[object], *, closest: str | None = None) -> str:
    """The message for a name that does not exist, with the nearest one that does: `closest`, or the most similar.

    >>> unknown_name_message("policy", "c-ucbb", ["c-ucb", "ucb"])
    "Unknown policy 'c-ucbb'. Did you mean 'c-ucb'? Known: 'c-ucb', 'ucb'."
    >>> unknown_name_message("extension", "", [".bif"]), unknown_name_message("parameter", "x", [])
    ("Unknown extension ''. It is empty. Known: '.bif'.", "Unknown parameter 'x'. There are none.")
    """
    names = {k if isinstance(k, str) else short_repr(k): k for k in options}
    suggestion = closest or closest_name(value if isinstance(value, str) else short_repr(value), names)
    hint = f" Did you mean {short_repr(names[suggestion])}?" if suggestion else ""
    listed_options = [short_repr(k) for k in itertools.islice(names.values(), LISTED_NAMES)]
    ellipsis_text = f", ... ({len(names)} in all)" if len(names) > LISTED_NAMES else ""
    empty = " It is empty." if isinstance(value, str) and not value else ""
    options_text = f"Known: {', '.join(listed_options)}{ellipsis_text}." if listed_options else "There are none."
    return f"Unknown {kind} {short_repr(value)}.{empty}{hint} {options_text}"


def short_repr(value: object, most: int = 200) -> str:
    """A value as it appears in an error: never a megabyte of it.

    >>> short_repr([1, 2]), short_repr("x" * 500, most=5), short_repr(10**5000)
    ('[1, 2]', "'xxxxx'... (500 characters)", 'a value of type int')
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # of numbers beyond thousands of digits, of lists within lists within ...
        return f"a value of type {type(value).__name__}"
    if isinstance(value, str):  # whose quotes are closed, wherever it is cut
        return text if len(value) <= most else f"{value[:most]!r}... ({len(value):,} characters)"
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def caller_stacklevel() -> int:
    """The `stacklevel` with which a warning points at the line that called the library."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("causalbandits."):
        level, frame = level + 1, frame.f_back
    return level - 1
