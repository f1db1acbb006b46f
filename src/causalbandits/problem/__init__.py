"""What a learner may know: the actions, P(z | do(a)), and what can be read off them before a decision."""

from causalbandits.problem.actions import Action, ActionSpace
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation

__all__ = ["Action", "ActionSpace", "CausalBandit", "Scores", "Situation"]
