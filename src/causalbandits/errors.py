"""Errors and warnings. Each message states the rule, the offending value and the remedy.

CausalBanditsError (a ValueError)
├── ModelError            a variable, a CPT or a graph
├── DataError             data that do not fit the graph: columns, values, missing values
├── FormatError           a file that does not follow its format, with line and column
├── InterventionError     an intervention or an action that the problem does not have
│   └── ActionIndexError  a number beyond the last action (also an IndexError)
├── ProblemError          manipulable variables, parents, constraints, rewards and their means
│   └── NotIdentifiedError  an effect that is not identified, and what would identify it
├── PolicyError           a policy's options, or a policy that cannot be used on a problem
├── BudgetError           a malformed budget, or one that does not pay for a decision
├── StudyModeError        a study that is paused or closed, or cannot change to a mode
├── SizeError             something too large to enumerate or to hold in memory
├── TellError             an outcome that cannot be accepted; nothing was changed
│   ├── ConflictError         a contradiction of an earlier report or request
│   └── UnknownDecisionError  an outcome of a decision that was never made
└── StateError            a file that cannot be read or written, is corrupted, or belongs to something else
    └── StorageError          a database operation that failed; nothing was changed
CausalBanditsWarning (a UserWarning)
├── DataWarning           odd data, or estimates that claim more than the data support
├── BatchWarning          several decisions at once by a policy that repeats one action
├── ClockWarning          a computer's clock was set, or contradicts recorded times
├── EvidenceWarning       outcomes that contradict the graph or a CPT, and the reaction
├── ProblemWarning        a variable or a constraint of a problem without effect
├── ScaleWarning          rewards far from the scale that a policy was told to expect
└── TheoryWarning         a regret bound whose assumptions the environment violates
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
"""The maximum length of a message; longer messages are cut in the middle."""

LISTED_NAMES = 40
"""The maximum number of existing names that a message about an unknown name lists."""


class CausalBanditsError(ValueError):
    """The base class of all errors of this library.

    >>> import causalbandits as cb
    >>> try:
    ...     cb.Budget(-1, rounds=100)
    ... except cb.CausalBanditsError as error:
    ...     print(type(error).__name__)
    BudgetError

    Args:
        message: The message; more than 4,000 characters are cut in the middle.
        path: The path of the offending value: the name of the argument, then keys and positions in it. Default: not
            known.
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
    """A variable, a CPT or a graph is not a valid causal model."""


class DataError(CausalBanditsError):
    """Data that a model cannot be fitted to or checked against."""


class FormatError(CausalBanditsError):
    """A file that does not follow its format.

    >>> print(FormatError("expected '{', found ';'.", file="asia.bif", line=3, column=7))
    asia.bif, line 3, column 7: expected '{', found ';'.

    Args:
        message: The message.
        file: The name of the file; empty if it has none.
        line: The line, counted from 1; 0 if there is no place.
        column: The column, counted from 1; 0 if there is no place.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        self.file, self.line, self.column = file, line, column
        place = f"{file}, line {line}, column {column}" if line else file
        super().__init__(f"{place}: {message}" if place else message)


class InterventionError(CausalBanditsError):
    """An intervention, an action or a context that the problem does not have."""


class ActionIndexError(InterventionError, IndexError):
    """A number beyond the last action; also an `IndexError`."""


class ProblemError(CausalBanditsError):
    """Arguments that do not form a bandit problem."""


class NotIdentifiedError(ProblemError):
    """P(of | do(...)) is not identified from the observed variables, for any number of rows.

    Attributes:
        of: The variables whose distribution was asked for.
        do: The variables that are set.
        hedge: The reason (a hedge): a c-component, and a smaller one within it that all of it leads to.
        observe: The smallest set of unobserved confounders found whose observation would identify the effect; empty if
            none was found.
        randomise: The smallest set of variables found whose randomisation in some rows would identify the effect; empty
            if none was found.
    """

    of: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    hedge: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    observe: tuple[str | tuple[str, ...], ...] = ()
    randomise: tuple[str, ...] = ()


class PolicyError(CausalBanditsError):
    """An invalid parameter of a policy, or a policy that cannot be used on a problem."""


class BudgetError(CausalBanditsError):
    """An invalid budget, or a budget that does not pay for a decision; no decision was made."""


class StudyModeError(CausalBanditsError):
    """The study is paused or closed, or cannot change to the requested mode; nothing was changed."""


class SizeError(CausalBanditsError):
    """A problem or a result that is too large to enumerate or to hold in memory."""


class TellError(CausalBanditsError):
    """An outcome that cannot be accepted; the state is unchanged."""


class ConflictError(TellError):
    """A contradiction of an earlier report, or an idempotency key that was used for another request."""


class UnknownDecisionError(TellError):
    """An outcome of a decision that was never made."""


class StateError(CausalBanditsError):
    """A file that cannot be read or written, is corrupted, or belongs to something else."""


class StorageError(StateError):
    """A database operation that failed; nothing was changed."""


class CausalBanditsWarning(UserWarning):
    """The base class of all warnings of this library.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CausalBanditsWarning)  # silences all of them
    """


class DataWarning(CausalBanditsWarning):
    """Data that can be used but look odd, or estimates that claim more than the data support."""


class BatchWarning(CausalBanditsWarning):
    """A batch of decisions by a deterministic policy, which repeats one action."""


class ClockWarning(CausalBanditsWarning):
    """The clock was set, or contradicts recorded times; the message has the difference and the time used."""


class EvidenceWarning(CausalBanditsWarning):
    """Outcomes contradict the graph or a CPT; the message names the claim, the strength and the reaction."""


class ProblemWarning(CausalBanditsWarning):
    """A part of a problem without effect, such as a manipulable variable without a path to the reward."""


class ScaleWarning(CausalBanditsWarning):
    """Rewards far from the scale that the policy was given."""


class TheoryWarning(CausalBanditsWarning):
    """A regret bound whose assumptions are known to be violated."""


_COLLECTED: ContextVar[list[str] | None] = ContextVar("collected_warnings", default=None)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the texts of this library's warnings in this thread or task; the warnings are not shown."""
    collected: list[str] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def warn(message: str, category: type[CausalBanditsWarning], *, stacklevel: int) -> None:
    """Warn as `warnings.warn` does, or pass the text to `collect_warnings`.

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
    """Errors raised within this context refer to a part of the argument at `path`."""
    try:
        yield
    except CausalBanditsError as error:
        error.path = (*path, *error.path)
        raise


def closest_name(value: object, names: Iterable[str]) -> str | None:
    """The existing name most similar to a value; None if none is similar.

    >>> closest_name("betta", ["beta", "gaussian"]), closest_name(7, ["beta"])
    ('beta', None)
    >>> closest_name("C-TS", ["c-ts", "c-ucb"])
    'c-ts'
    """
    # The comparison takes time proportional to the product of the lengths, and names of hundreds of characters are not
    # typing errors.
    if not isinstance(value, str) or len(value) > 100:
        return None
    short = [name for name in names if len(name) <= 100][:2000]
    lower_case = {name.casefold(): name for name in reversed(short)}
    as_written = difflib.get_close_matches(value, short, n=1, cutoff=0.5)
    folded = difflib.get_close_matches(value.casefold(), lower_case, n=1, cutoff=0.5)
    return as_written[0] if as_written else lower_case[folded[0]] if folded else None


def unknown_name_message(kind: str, value: object, options: Iterable[object], *, closest: str | None = None) -> str:
    """The message for an unknown name, with a suggestion: `closest`, or the most similar existing name.

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
    """A short repr of a value for error messages, of limited length.

    >>> short_repr([1, 2]), short_repr("x" * 500, most=5), short_repr(10**5000)
    ('[1, 2]', "'xxxxx'... (500 characters)", 'a value of type int')
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # numbers with thousands of digits, or deeply nested lists
        return f"a value of type {type(value).__name__}"
    if isinstance(value, str):  # close the quotes where the text is cut
        return text if len(value) <= most else f"{value[:most]!r}... ({len(value):,} characters)"
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def caller_stacklevel() -> int:
    """The `stacklevel` at which a warning points to the caller's line outside the library."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("causalbandits."):
        level, frame = level + 1, frame.f_back
    return level - 1
