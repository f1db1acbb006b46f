"""Problems on the command line: what is looked at, with an option for each keyword of Problem.

The settings that options give are those of a file's table [environment], and are made into a world by the same code.
"""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from causalbandits.environments import Environment, zoo
from causalbandits.errors import CausalBanditsError, unknown
from causalbandits.planning import InFile, SpecFile, read_file, world_of
from causalbandits.problem import Problem

Workers = Annotated[
    int | None, typer.Option(min=1, help="Replications played at once; as many as processors if left out.")
]


class Option(NamedTuple):
    """How a keyword of Problem is given, and its value from what is typed."""

    flag: str
    example: str
    help: str
    typed: Any = str
    value: Callable[[Any], Any] = lambda typed: typed


def _names(typed: str) -> list[str]:
    return [name.strip() for name in typed.split(",") if name.strip()]


def _manipulable(typed: Sequence[str]) -> list[str] | dict[str, list[str] | None]:
    """Names, or, where values are given for some of them, what each may be set to; None for all of its values."""
    found: dict[str, list[str] | None] = {}
    for each in typed:
        given = _values(each) if "=" in each else dict.fromkeys(_names(each))
        for name, values in given.items():
            if name in found:
                raise CausalBanditsError(f"--manipulate: expected every name once; {name!r} is there twice.")
            found[name] = values
    return found if any(found.values()) else list(found)


def _values(typed: str) -> dict[str, list[str] | None]:
    name, _, values = (part.strip() for part in typed.partition("="))
    if not name or "," in name or "=" in values or not _names(values):
        raise CausalBanditsError(
            "--manipulate: expected names, A,B, or one name with the values that it may be set to, A=x,y; give the "
            f"option again for more; got {typed!r}."
        )
    return {name: _names(values)}


def _actions(typed: Sequence[str]) -> list[dict[str, str]]:
    return [assignments(_names(action), "--action") for action in typed]


def _costs(typed: Sequence[str]) -> dict[str, Any]:
    """Prices by knob, or by knob and value."""
    found: dict[str, Any] = {}
    for place, price in assignments(typed, "--cost").items():
        name, colon, value = place.partition(":")
        if isinstance(found.get(name), dict) != bool(colon) and name in found:
            raise CausalBanditsError(f"--cost: expected one price of {name!r}, or one for each value; got both.")
        if colon:
            found.setdefault(name, {})[value] = _number(price, "--cost")
        else:
            found[name] = _number(price, "--cost")
    return found


def _require(typed: Sequence[str]) -> dict[str, dict[str, float]]:
    """How likely values may be, by variable and value."""
    found: dict[str, dict[str, float]] = {}
    for place, limit in assignments(typed, "--require").items():
        name, colon, value = place.partition(":")
        if not colon:
            raise CausalBanditsError(f"--require: expected a variable and its value, such as C:y=0.01; got {place!r}.")
        found.setdefault(name, {})[value] = _number(limit, "--require")
    return found


def _number(typed: str, flag: str) -> float:
    try:
        return float(typed)
    except ValueError:
        raise CausalBanditsError(f"{flag}: expected a number, such as 0.1; got {typed!r}.") from None


def assignments(typed: Sequence[str], flag: str) -> dict[str, str]:
    """Values by name, each name once."""
    found: dict[str, str] = {}
    for each in typed:
        name, equals, value = (part.strip() for part in each.partition("="))
        if not name or not equals:
            raise CausalBanditsError(f"{flag}: expected a name and a value, such as A=x; got {each!r}.")
        if name in found:
            raise CausalBanditsError(f"{flag}: expected every name once; {name!r} is there twice.")
        found[name] = value
    return found


OPTIONS: dict[str, Option] = {
    "manipulable": Option(
        "--manipulate",
        "A,B",
        "Variables that can be set. A=x,y for one that can be set to these values only; as often as you like.",
        list[str],
        _manipulable,
    ),
    "parents": Option("--parents", "A,B", "What the reward depends on, where it is not in the model.", value=_names),
    "reward": Option("--reward", "Y", "The reward's variable in the model."),
    "separator": Option("--separator", "cheapest", "The cheapest set of variables stands in for the reward's parents."),
    "observable": Option("--observe", "A,B", "The same, with the variables that can be observed.", value=_names),
    "at_most": Option("--at-most", "2", "So many variables may be set at once.", int),
    "always": Option("--always", "A,B", "Variables that every action sets.", value=_names),
    "context": Option("--context", "A,B", "Variables that may be known before a decision.", value=_names),
    "actions": Option(
        "--action", "A=x,B=y", "An action, as often as you like: only these may be tried.", list[str], _actions
    ),
    "reduce": Option(
        "--reduce/--no-reduce", "", "Whether causal policies search only the actions that can be the best.", bool
    ),
    "require": Option(
        "--require", "C:y=0.01", "C may be y with probability 0.01 at most; as often as you like.", list[str], _require
    ),
    "costs": Option(
        "--cost",
        "A=0.1",
        "What it costs to set A, or with A:x=0.1 to set it to x; as often as you like.",
        list[str],
        _costs,
    ),
}

Model = Annotated[
    str,
    typer.Argument(
        help="A model (.bif, .xml, .json), a graph (.dot, .json), a world of the zoo such as email_campaign, or a "
        "specification (.toml)."
    ),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(metavar="m=3", help="A parameter of a world of the zoo, as it would be in a specification."),
]


class Asked(NamedTuple):
    """What a command is asked about: a problem or a whole world, and the file that it is from."""

    world: Problem | Environment
    file: SpecFile | None = None

    @property
    def problem(self) -> Problem:
        """What a learner may know of it."""
        return self.world.problem if isinstance(self.world, Environment) else self.world

    def whole(self, name: str, given: int | None, default: int) -> int:
        """A number of [simulation]: the option's, else the file's, else the default."""
        return given if given is not None else self.file.simulation.get(name, default) if self.file else default


@dataclass(frozen=True)
class OnCommandLine(InFile):
    """Entries as options; what only the file says, where there is one, as in the file."""

    given: Collection[str]
    has_file: bool

    def name(self, entry: str) -> str:
        if self.has_file and entry not in self.given:
            return super().name(entry)
        return OPTIONS[entry].flag if entry in OPTIONS else f"--parameter {entry}"

    def example(self, entry: str) -> str:
        if self.has_file and entry not in self.given:
            return super().example(entry)
        return f"{self.name(entry)} {OPTIONS[entry].example}" if entry in OPTIONS else f"{self.name(entry)}=..."

    def values(self, name: str) -> str:
        if self.has_file and "manipulable" not in self.given:
            return super().values(name)
        return f"{self.name('manipulable')} {name}=x,y"


def asked(model: str, parameters: Sequence[str], given: Mapping[str, Any]) -> Asked:
    """The problem or world that the arguments of a command describe."""
    entries = {entry: OPTIONS[entry].value(typed) for entry, typed in given.items() if typed is not None}
    entries |= {n: _parameter(n, value) for n, value in assignments(parameters, "--parameter").items()}
    if model.lower().endswith(".toml"):
        file = read_file(Path(model))
        return Asked(file.world(entries, OnCommandLine(entries, has_file=True)), file)
    if model not in zoo.__all__:
        if "." not in Path(model).name:
            raise CausalBanditsError(unknown("world of the zoo, and no file with an extension:", model, zoo.__all__))
        if parameters:
            raise CausalBanditsError(f"--parameter is for worlds of the zoo; {model} is a model.")
    kind = "zoo" if model in zoo.__all__ else "model"
    spelling = OnCommandLine(entries, has_file=False)
    return Asked(world_of({**entries, kind: model}, spelling=spelling, just_looking=True))


def _parameter(name: str, typed: str) -> Any:
    try:
        (value,) = tomllib.loads(f"value = {typed}").values()
    except (tomllib.TOMLDecodeError, ValueError):
        raise CausalBanditsError(
            f"--parameter {name}: expected a value as in TOML, such as 3, 0.5 or [1, 0]; got {typed!r}."
        ) from None
    return value


def about_a_problem(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is `asked`, the argument and the options that say what it is asked."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def run(*, model: str, parameter: list[str] | None, **values: Any) -> None:
        given = {entry: values.pop(entry) for entry in OPTIONS}
        command(asked(model, parameter or [], given), **values)

    options = {entry: _annotation(option) for entry, option in OPTIONS.items()} | {"parameter": Parameter}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what Typer reads
        [
            inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, annotation=Model),
            *(
                inspect.Parameter(entry, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
                for entry, annotation in options.items()
            ),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        ]
    )
    return run


def _annotation(option: Option) -> Any:
    least = 1 if option.typed is int else None
    told = typer.Option(option.flag, metavar=option.example or None, min=least, help=option.help)
    return Annotated[option.typed | None, told]
