"""Problems on the command line: the target, with an option for each keyword of Problem.

Options are entries of a specification, and are parsed by the code for files.
"""

from __future__ import annotations

import functools
import inspect
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from causalbandits.environments import Environment, zoo
from causalbandits.errors import CausalBanditsError, unknown_name_message
from causalbandits.fitting import bins_from_texts
from causalbandits.model import State
from causalbandits.planning import SpecFile, parse_environment, read_spec_file
from causalbandits.problem import EXPERIMENT_TABLES, SPEC_ENTRIES, Problem, SpecTerms, read_spec_content

Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of parallel processes. Default: the number of processors.")
]


class OptionSpec(NamedTuple):
    """The option of a keyword of Problem, and the parser of its value."""

    flag: str
    example: str
    help: str
    parameter_type: Any = str
    parse: Callable[[Any], Any] = lambda typed: typed


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_manipulable(arguments: Sequence[str]) -> list[str] | dict[str, list[State] | None]:
    """Names or, if values are given for some of them, the allowed values of each; None means all values."""
    values_by_variable: dict[str, list[State] | None] = {}
    for text in arguments:
        entries = _parse_values(text, "--manipulable") if "=" in text else dict.fromkeys(_parse_names(text))
        for name, values in entries.items():
            if name in values_by_variable:
                raise CausalBanditsError(f"--manipulable: expected every name once; {name!r} occurs twice.")
            values_by_variable[name] = values
    return values_by_variable if any(values_by_variable.values()) else list(values_by_variable)


def _parse_values(text: str, flag: str) -> dict[str, list[State] | None]:
    """The values of a variable: numbers if they look like numbers, as in a CSV file."""
    name, _, values = (part.strip() for part in text.partition("="))
    if not name or "," in name or "=" in values or not _parse_names(values):
        names = "names, A,B, or " if flag == "--manipulable" else ""
        raise CausalBanditsError(
            f"{flag}: expected {names}one name with its values, A=x,y; got {text!r}. Repeat the option for each "
            "further variable."
        )
    return {name: [_parse_state(value) for value in _parse_names(values)]}


def _parse_state(text: str) -> State:
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"[+-]?\d*\.\d+", text) else text


def _parse_values_by_name(arguments: Sequence[str]) -> dict[str, list[State] | None]:
    values: dict[str, list[State] | None] = {}
    for text in arguments:
        values |= _parse_values(text, "--values")
    return values


def _parse_actions(arguments: Sequence[str]) -> list[dict[str, str]]:
    return [parse_assignments(_parse_names(action), "--action") for action in arguments]


def _parse_costs(arguments: Sequence[str]) -> dict[str, Any]:
    """Costs by manipulable variable, or by variable and value."""
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


def _parse_max_probability(arguments: Sequence[str]) -> dict[str, dict[str, float]]:
    """The maximum probability of values, by variable and value."""
    limits: dict[str, dict[str, float]] = {}
    for subject, limit in parse_assignments(arguments, "--max-probability").items():
        name, colon, value = subject.partition(":")
        if not colon:
            raise CausalBanditsError(
                f"--max-probability: expected a variable and its value, such as C:y=0.01; got {subject!r}."
            )
        limits.setdefault(name, {})[value] = _parse_number(limit, "--max-probability")
    return limits


def _parse_reward_range(text: str) -> list[float]:
    """The smallest and the largest reward."""
    return [_parse_number(part, "--reward-range") for part in _parse_names(text)]


def _parse_optional(text: str) -> list[str] | bool:
    return True if text.strip() == "all" else _parse_names(text)


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
            raise CausalBanditsError(f"{flag}: expected every name once; {name!r} occurs twice.")
        values_by_name[name] = value
    return values_by_name


OPTIONS: dict[str, OptionSpec] = {
    "manipulable": OptionSpec(
        "--manipulable",
        "A,B",
        "Manipulable variables. A=x,y restricts A to these values; repeatable.",
        list[str],
        _parse_manipulable,
    ),
    "values": OptionSpec(
        "--values",
        "C=x,y",
        "The values of an observed variable, if neither the graph nor the data have them; repeatable.",
        list[str],
        _parse_values_by_name,
    ),
    "reward": OptionSpec(
        "--reward", "Y", ("The reward: a variable of the graph, or any name if --reward-parents is given.")
    ),
    "reward_parents": OptionSpec(
        "--reward-parents", "A,B", "The reward's direct causes, if the reward is not in the graph.", parse=_parse_names
    ),
    "adjust": OptionSpec("--adjust", "smallest", "Use the smallest adjustment set in place of the reward's parents."),
    "can_observe": OptionSpec(
        "--can-observe",
        "A,B",
        "The variables that can be observed: candidates for --adjust. If CPTs are learned online, the others are "
        "marginalised out.",
        parse=_parse_names,
    ),
    "max_set": OptionSpec("--max-set", "2", "Maximum number of variables that an action sets.", int),
    "optional": OptionSpec(
        "--optional",
        "A,B",
        'Variables that an action may leave to their natural mechanism; "all" for all. The others are always set.',
        parse=_parse_optional,
    ),
    "context": OptionSpec(
        "--context", "A,B", ("Context: variables that may be known before a decision."), parse=_parse_names
    ),
    "actions": OptionSpec(
        "--action",
        "A=x,B=y",
        ("An allowed action; repeatable. Default: all combinations of values."),
        list[str],
        _parse_actions,
    ),
    "reduce": OptionSpec(
        "--reduce/--no-reduce", "", "Whether causal policies search only the actions that can be optimal.", bool
    ),
    "reward_range": OptionSpec(
        "--reward-range",
        "0,1",
        "Declared bounds of the reward; they enable a stopping rule.",
        parse=_parse_reward_range,
    ),
    "noise_scale": OptionSpec(
        "--noise-scale",
        "0.5",
        "Declared sub-Gaussian scale of the reward given its parents; it enables a stopping rule.",
        float,
    ),
    "max_probability": OptionSpec(
        "--max-probability",
        "C:y=0.01",
        "Chance constraint: actions under which P(C=y) exceeds 0.01 are excluded; repeatable.",
        list[str],
        _parse_max_probability,
    ),
    "costs": OptionSpec(
        "--cost",
        "A=0.1",
        "Cost of setting A; A:x=0.1 is the cost of setting A to x. Repeatable.",
        list[str],
        _parse_costs,
    ),
    "data": OptionSpec(
        "--data", "past.csv", "Past rows (.csv, .csv.gz or .parquet), from which the CPTs of the graph are estimated."
    ),
    "bins": OptionSpec(
        "--bins",
        "age=0,30,60",
        "Bins of a numeric column: edges (age=0,30,60) or the number of quantiles (age=4); repeatable.",
        list[str],
        bins_from_texts,
    ),
    "interventions": OptionSpec(
        "--interventions", "was_set", "The column of the data that names the variables set at random in each row."
    ),
    "missing": OptionSpec(
        "--missing", "drop", ("Treatment of rows with missing values: refuse, drop, or em (expectation maximisation).")
    ),
}

FILE_ENTRIES = ("graph", "model", "prior", "known", "max_parents", "tiers", "require_edges", "forbid_edges", "latent")
"""Entries without an option: the argument of the command, and those that only a file can have."""

Model = Annotated[
    str,
    typer.Argument(
        help=(
            "A specification (.toml, .json), a graph (.dot, or a text such as 'A, B -> C -> Y'), a model (.json, "
            ".bif, .xml), or an example environment such as email_campaign."
        )
    ),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(metavar="m=3", help="A parameter of an example environment, in TOML syntax; repeatable."),
]


class CommandTarget(NamedTuple):
    """The target of a command: a problem or an environment, and its file."""

    problem_or_environment: Problem | Environment
    file: SpecFile | None = None

    @property
    def problem(self) -> Problem:
        """The problem of the target, without the reward mechanism."""
        return (
            self.problem_or_environment.problem
            if isinstance(self.problem_or_environment, Environment)
            else self.problem_or_environment
        )

    def simulation_setting(self, name: str, option: int | None, default: int) -> int:
        """A number of [simulation]: from the option, else the file, else the default."""
        return option if option is not None else self.file.simulation.get(name, default) if self.file else default


@dataclass(frozen=True)
class OptionTerms(SpecTerms):
    """Names of entries as options; entries that only a file can have are named as in the file."""

    option_entries: Collection[str]
    has_file: bool

    def _in_file(self, entry: str) -> bool:
        return entry in FILE_ENTRIES or (self.has_file and entry not in self.option_entries)

    def name(self, entry: str) -> str:
        """The name of an entry."""
        return super().name(entry) if self._in_file(entry) or entry not in OPTIONS else OPTIONS[entry].flag

    def parameter_example(self, name: str) -> str:
        """A parameter of an environment of the zoo, with a placeholder for its value."""
        return super().parameter_example(name) if self.has_file else f"--parameter {name}=..."

    def example(self, entry: str, value: Any = None) -> str:
        """An example of an entry with a value."""
        if self._in_file(entry) or value is not None:
            return super().example(entry, value)
        return f"{self.name(entry)} {OPTIONS[entry].example}"

    def assignment(self, entry: str, value: str) -> str:
        """An option with a value that an error shows as Python code."""
        if self._in_file(entry):
            return super().assignment(entry, value)
        plain = re.sub(r"[^.,:=/ A-Za-z0-9_-]", "", value)
        return f"{self.name(entry)} {re.sub(r', (?=[0-9.-])', ',', plain.replace(': ', '='))}".rstrip()


def parse_target(
    model: str, parameters: Sequence[str], options: Mapping[str, Any], *, inspecting: bool = False
) -> CommandTarget:
    """The problem or environment that the arguments of a command describe.

    With `inspecting`, a graph needs neither manipulable variables nor their values; see `parse_environment`.
    """
    entries = {entry: OPTIONS[entry].parse(argument) for entry, argument in options.items() if argument is not None}
    values = {n: _parse_parameter(n, value) for n, value in parse_assignments(parameters, "--parameter").items()}
    if _is_spec(model):
        file = read_spec_file(Path(model))
        if values:
            file = replace(file, environment={**(file.environment or {}), **values})
        return CommandTarget(file.parse_environment(entries, OptionTerms(entries, has_file=True)), file)
    terms = OptionTerms(entries, has_file=False)
    if model in zoo.__all__:
        return CommandTarget(parse_environment(entries, {"zoo": model, **values}, terms=terms))
    if parameters:
        raise CausalBanditsError(f"--parameter is for example environments; {model} is a model.")
    is_text = "->" in model or "<-" in model
    if "." not in Path(model).name and not is_text:
        raise CausalBanditsError(
            unknown_name_message("example environment (and not a file name with an extension):", model, zoo.__all__)
        )
    return CommandTarget(
        parse_environment({"graph" if is_text else "model": model, **entries}, terms=terms, inspecting=inspecting)
    )


@contextmanager
def translate_errors(*arguments: str) -> Iterator[None]:
    """Translate errors of a call whose arguments are options of the command into terms of these options.

    >>> with translate_errors("default_reward", "seed"):
    ...     raise CausalBanditsError("default_reward must be a reward; got seed=3.")
    Traceback (most recent call last):
    causalbandits.errors.CausalBanditsError: --default-reward must be a reward; got --seed 3.
    """
    try:
        yield
    except CausalBanditsError as error:
        names = "|".join(arguments)
        # A name without an underscore may be an ordinary word.
        pattern = rf"\b({names})=|\b((?=\w*_)(?:{names}))\b|^({names})(?= must\b|:| and \w+ belong)"

        def flag(match: re.Match[str]) -> str:
            name = next(filter(None, match.groups())).replace("_", "-")
            is_assignment = match[0].endswith("=") and re.match(r"[^\s,.;)]", match.string[match.end() :])
            return f"--{name}{' ' if is_assignment else ''}"

        error.args = (re.sub(pattern, flag, str(error)), *error.args[1:])
        raise


def _is_spec(model: str) -> bool:
    """Whether an argument is the file name of a specification; JSON models and graphs state their format."""
    suffix = Path(model).suffix.lower()
    if suffix != ".json" or not Path(model).is_file():
        return suffix == ".toml"
    content = read_spec_content(Path(model))
    return "format" not in content and not content.keys().isdisjoint((*SPEC_ENTRIES, *EXPERIMENT_TABLES))


def _parse_parameter(name: str, text: str) -> Any:
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, ValueError):
        raise CausalBanditsError(
            f"--parameter {name}: expected a value as in TOML, such as 3, 0.5 or [1, 0]; got {text!r}."
        ) from None
    return value


def with_problem_options(command: Callable[..., None], *, inspecting: bool = False) -> Callable[..., None]:
    """Add the argument and the options that describe a problem to a command whose first parameter is `target`."""
    _, *command_parameters = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def run(*, model: str, parameter: list[str] | None, **values: Any) -> None:
        problem_options = {entry: values.pop(entry) for entry in OPTIONS}
        target = parse_target(model, parameter or [], problem_options, inspecting=inspecting)
        command(target, **values)

    options = {entry: _option_annotation(option) for entry, option in OPTIONS.items()} | {"parameter": Parameter}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by Typer
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
