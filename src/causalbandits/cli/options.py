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
from causalbandits.errors import CausalBanditsError, unknown_name_message
from causalbandits.planning import FileSpelling, SpecFile, parse_environment, read_spec_file
from causalbandits.problem import Problem

Workers = Annotated[
    int | None, typer.Option(min=1, help="Replications played at once; as many as processors if left out.")
]


class OptionSpec(NamedTuple):
    """How a keyword of Problem is given, and its value from what is typed."""

    flag: str
    example: str
    help: str
    parameter_type: Any = str
    parse: Callable[[Any], Any] = lambda typed: typed


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_manipulable(arguments: Sequence[str]) -> list[str] | dict[str, list[str] | None]:
    """Names, or, where values are given for some of them, what each may be set to; None for all of its values."""
    values_by_knob: dict[str, list[str] | None] = {}
    for text in arguments:
        entries = _parse_values(text) if "=" in text else dict.fromkeys(_parse_names(text))
        for name, values in entries.items():
            if name in values_by_knob:
                raise CausalBanditsError(f"--manipulate: expected every name once; {name!r} is there twice.")
            values_by_knob[name] = values
    return values_by_knob if any(values_by_knob.values()) else list(values_by_knob)


def _parse_values(text: str) -> dict[str, list[str] | None]:
    name, _, values = (part.strip() for part in text.partition("="))
    if not name or "," in name or "=" in values or not _parse_names(values):
        raise CausalBanditsError(
            "--manipulate: expected names, A,B, or one name with the values that it may be set to, A=x,y; give the "
            f"option again for more; got {text!r}."
        )
    return {name: _parse_names(values)}


def _parse_actions(arguments: Sequence[str]) -> list[dict[str, str]]:
    return [parse_assignments(_parse_names(action), "--action") for action in arguments]


def _parse_costs(arguments: Sequence[str]) -> dict[str, Any]:
    """Prices by knob, or by knob and value."""
    prices: dict[str, Any] = {}
    for subject, price in parse_assignments(arguments, "--cost").items():
        name, colon, value = subject.partition(":")
        if isinstance(prices.get(name), dict) != bool(colon) and name in prices:
            raise CausalBanditsError(f"--cost: expected one price of {name!r}, or one for each value; got both.")
        if colon:
            prices.setdefault(name, {})[value] = _parse_number(price, "--cost")
        else:
            prices[name] = _parse_number(price, "--cost")
    return prices


def _parse_require(arguments: Sequence[str]) -> dict[str, dict[str, float]]:
    """How likely values may be, by variable and value."""
    limits: dict[str, dict[str, float]] = {}
    for subject, limit in parse_assignments(arguments, "--require").items():
        name, colon, value = subject.partition(":")
        if not colon:
            raise CausalBanditsError(
                f"--require: expected a variable and its value, such as C:y=0.01; got {subject!r}."
            )
        limits.setdefault(name, {})[value] = _parse_number(limit, "--require")
    return limits


def _parse_reward_range(text: str) -> list[float]:
    """The least and the largest reward."""
    return [_parse_number(part, "--reward-range") for part in _parse_names(text)]


def _parse_number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CausalBanditsError(f"{flag}: expected a number, such as 0.1; got {text!r}.") from None


def parse_assignments(arguments: Sequence[str], flag: str) -> dict[str, str]:
    """Values by name, each name once."""
    values_by_name: dict[str, str] = {}
    for text in arguments:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals:
            raise CausalBanditsError(f"{flag}: expected a name and a value, such as A=x; got {text!r}.")
        if name in values_by_name:
            raise CausalBanditsError(f"{flag}: expected every name once; {name!r} is there twice.")
        values_by_name[name] = value
    return values_by_name


OPTIONS: dict[str, OptionSpec] = {
    "manipulable": OptionSpec(
        "--manipulate",
        "A,B",
        "Variables that can be set. A=x,y for one that can be set to these values only; as often as you like.",
        list[str],
        _parse_manipulable,
    ),
    "parents": OptionSpec(
        "--parents", "A,B", "What the reward depends on, where it is not in the model.", parse=_parse_names
    ),
    "reward": OptionSpec("--reward", "Y", "The reward's variable in the model."),
    "separator": OptionSpec(
        "--separator", "cheapest", "The cheapest set of variables stands in for the reward's parents."
    ),
    "observable": OptionSpec(
        "--observe",
        "A,B",
        "The same, with the variables that can be observed. With --parents, where CPTs are learned: what can be "
        "observed; the other variables are marginalised out.",
        parse=_parse_names,
    ),
    "at_most": OptionSpec("--at-most", "2", "So many variables may be set at once.", int),
    "always": OptionSpec("--always", "A,B", "Variables that every action sets.", parse=_parse_names),
    "context": OptionSpec("--context", "A,B", "Variables that may be known before a decision.", parse=_parse_names),
    "actions": OptionSpec(
        "--action", "A=x,B=y", "An action, as often as you like: only these may be tried.", list[str], _parse_actions
    ),
    "reduce": OptionSpec(
        "--reduce/--no-reduce", "", "Whether causal policies search only the actions that can be the best.", bool
    ),
    "reward_range": OptionSpec(
        "--reward-range",
        "0,1",
        "The least and the largest possible reward: a declaration that makes a stopping rule possible.",
        parse=_parse_reward_range,
    ),
    "noise_scale": OptionSpec(
        "--noise-scale",
        "0.5",
        "The scale for which rewards are sub-Gaussian given their parents: another such declaration.",
        float,
    ),
    "require": OptionSpec(
        "--require",
        "C:y=0.01",
        "C may be y with probability 0.01 at most; as often as you like.",
        list[str],
        _parse_require,
    ),
    "costs": OptionSpec(
        "--cost",
        "A=0.1",
        "What it costs to set A, or with A:x=0.1 to set it to x; as often as you like.",
        list[str],
        _parse_costs,
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


class CommandTarget(NamedTuple):
    """What a command is asked about: a problem or a whole world, and the file that it is from."""

    problem_or_environment: Problem | Environment
    file: SpecFile | None = None

    @property
    def problem(self) -> Problem:
        """What a learner may know of it."""
        return (
            self.problem_or_environment.problem
            if isinstance(self.problem_or_environment, Environment)
            else self.problem_or_environment
        )

    def simulation_setting(self, name: str, option: int | None, default: int) -> int:
        """A number of [simulation]: the option's, else the file's, else the default."""
        return option if option is not None else self.file.simulation.get(name, default) if self.file else default


@dataclass(frozen=True)
class OptionSpelling(FileSpelling):
    """Entries as options; what only the file says, where there is one, as in the file."""

    option_entries: Collection[str]
    has_file: bool

    def name(self, entry: str) -> str:
        if self.has_file and entry not in self.option_entries:
            return super().name(entry)
        return OPTIONS[entry].flag if entry in OPTIONS else f"--parameter {entry}"

    def example(self, entry: str) -> str:
        if self.has_file and entry not in self.option_entries:
            return super().example(entry)
        return f"{self.name(entry)} {OPTIONS[entry].example}" if entry in OPTIONS else f"{self.name(entry)}=..."

    def values(self, name: str) -> str:
        if self.has_file and "manipulable" not in self.option_entries:
            return super().values(name)
        return f"{self.name('manipulable')} {name}=x,y"


def parse_target(model: str, parameters: Sequence[str], options: Mapping[str, Any]) -> CommandTarget:
    """The problem or world that the arguments of a command describe."""
    entries = {entry: OPTIONS[entry].parse(argument) for entry, argument in options.items() if argument is not None}
    entries |= {n: _parse_parameter(n, value) for n, value in parse_assignments(parameters, "--parameter").items()}
    if model.lower().endswith(".toml"):
        file = read_spec_file(Path(model))
        return CommandTarget(file.parse_environment(entries, OptionSpelling(entries, has_file=True)), file)
    if model not in zoo.__all__:
        if "." not in Path(model).name:
            raise CausalBanditsError(
                unknown_name_message("world of the zoo, and no file with an extension:", model, zoo.__all__)
            )
        if parameters:
            raise CausalBanditsError(f"--parameter is for worlds of the zoo; {model} is a model.")
    kind = "zoo" if model in zoo.__all__ else "model"
    spelling = OptionSpelling(entries, has_file=False)
    return CommandTarget(parse_environment({**entries, kind: model}, spelling=spelling, inspecting=True))


def _parse_parameter(name: str, text: str) -> Any:
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, ValueError):
        raise CausalBanditsError(
            f"--parameter {name}: expected a value as in TOML, such as 3, 0.5 or [1, 0]; got {text!r}."
        ) from None
    return value


def with_problem_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is `asked`, the argument and the options that say what it is asked."""
    _, *command_parameters = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def run(*, model: str, parameter: list[str] | None, **values: Any) -> None:
        problem_options = {entry: values.pop(entry) for entry in OPTIONS}
        command(parse_target(model, parameter or [], problem_options), **values)

    options = {entry: _option_annotation(option) for entry, option in OPTIONS.items()} | {"parameter": Parameter}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what Typer reads
        [
            inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, annotation=Model),
            *(
                inspect.Parameter(entry, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
                for entry, annotation in options.items()
            ),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in command_parameters),
        ]
    )
    return run


def _option_annotation(option: OptionSpec) -> Any:
    minimum = 1 if option.parameter_type is int else None
    typer_option = typer.Option(option.flag, metavar=option.example or None, min=minimum, help=option.help)
    return Annotated[option.parameter_type | None, typer_option]
