"""Policies of one's own in a specification: found beside the file, and refused with the reason."""

import itertools
import sys

import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.planning.experiment_spec import read_spec

SPEC = """
[environment]
zoo = "email_campaign"

[simulation]
horizon = 50
replications = 2

[policies]
c-ucb = {}
mine = %s
"""

POLICY = """
from dataclasses import dataclass

import causalbandits as cb
from causalbandits.policies.statistics import Cells


@dataclass(frozen=True, kw_only=True)
class Greedy(cb.Policy):
    epsilon: float = 0.1
    id = "greedy"

    def __post_init__(self):
        if not 0 <= self.epsilon <= 1:
            raise ValueError("epsilon is a probability")

    def init(self, problem):
        return Cells.empty(problem.configurations)

    def score(self, situation, cells, rng):
        explore = rng.random() < self.epsilon
        return situation.project(rng.random(len(cells.count)) if explore else cells.means())

    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)


number = 3
"""

FRESH = (f"module_of_a_test_{i}" for i in itertools.count())
"""Names of modules that nobody has imported."""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with a policy in a folder of its own; what is imported is forgotten again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = next(FRESH)
    (tmp_path / f"{name}.py").write_text(POLICY, encoding="utf-8")
    yield name
    sys.modules.pop(name, None)


def spec_with(folder, policy):
    (folder / "campaign.toml").write_text(SPEC % policy, encoding="utf-8")
    return read_spec(folder / "campaign.toml")


def test_a_policy_beside_the_file_is_played_with_its_parameters(tmp_path, module):
    spec = spec_with(tmp_path, f'{{ policy = "{module}:Greedy", epsilon = 0.3 }}')
    assert spec.policies["mine"] == sys.modules[module].Greedy(epsilon=0.3)
    run = spec.run()
    assert run.policies == ("c-ucb", "mine")
    own = {"mine": sys.modules[module].Greedy(epsilon=0.3)}
    again = cb.simulate(cb.zoo.email_campaign(), own, horizon=50, replications=2)
    assert (run.regret("mine") == again.regret("mine")).all()


def test_workers_find_it_too_even_those_that_were_there_before_the_file_was_read(tmp_path, module):
    cb.simulate(cb.zoo.email_campaign(), "uniform", horizon=5, replications=2, workers=2)
    spec = spec_with(tmp_path, f'{{ policy = "{module}:Greedy" }}')
    assert spec.run(workers=2) == spec.run()


def test_an_installed_policy_is_found_by_its_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = spec_with(tmp_path, '{ policy = "causalbandits.policies.cells.ucb:CausalUCB", noise_scale = 0.5 }')
    assert spec.policies["mine"] == cb.policies.CausalUCB(noise_scale=0.5)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("NAME:Gredy", r"Unknown policy of .*NAME.py: 'Gredy'. Did you mean 'Greedy'\?"),
        ("NAME:number", r"number in .*NAME.py must be a subclass of causalbandits.Policy; it is 3"),
        ("NAME:", r'is written "module:Class", such as "my_module:MyPolicy"; got \'NAME:\''),
        (":Greedy", r'is written "module:Class"'),
        ("../NAME:Greedy", r'is written "module:Class"'),
        ("no_such_module:Greedy", r"There is no module 'no_such_module', neither in .* nor installed"),
        ("no_such.module:Greedy", r"There is no module 'no_such.module', neither in .* nor installed"),
    ],
)
def test_what_cannot_be_found_is_said_with_the_entry(tmp_path, module, policy, message):
    with pytest.raises(PolicyError, match=r"^\[policies\] mine: .*" + message.replace("NAME", module)):
        spec_with(tmp_path, f'{{ policy = "{policy.replace("NAME", module)}" }}')


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("epsilom = 0.1", r"Unknown parameter of Greedy: 'epsilom'. Did you mean 'epsilon'\?"),
        ("epsilon = 3", "Greedy raised ValueError: epsilon is a probability"),
        ('epsilon = "x"', "Greedy raised TypeError"),
    ],
)
def test_wrong_parameters_are_said_with_the_entry(tmp_path, module, parameters, message):
    with pytest.raises(PolicyError, match=r"^\[policies\] mine: " + message):
        spec_with(tmp_path, f'{{ policy = "{module}:Greedy", {parameters} }}')


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "raised ZeroDivisionError when imported: division by zero"),
        ("def f(:", "raised SyntaxError when imported"),
        ("import no_such_library", "needs 'no_such_library', which is not installed"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(tmp_path, module, code, message):
    (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
    with pytest.raises(CausalBanditsError, match=message):
        spec_with(tmp_path, f'{{ policy = "{module}:Greedy" }}')


def test_a_module_that_hides_behind_another_of_its_name_is_refused(tmp_path, module):
    (tmp_path / "json.py").write_text(POLICY, encoding="utf-8")
    with pytest.raises(PolicyError, match=r"json.py cannot be imported: 'json' is another module, .* Rename it"):
        spec_with(tmp_path, '{ policy = "json:Greedy" }')
