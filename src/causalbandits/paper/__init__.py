"""The experiments of Lu, Meisami, Tewari and Yan (UAI 2020), one file per figure; settings are constants."""

from causalbandits.paper.experiment import Experiment
from causalbandits.paper.registry import EXPERIMENTS
from causalbandits.paper.reproduce import QUICK, REPLICATIONS, reproduce

__all__ = ["EXPERIMENTS", "QUICK", "REPLICATIONS", "Experiment", "reproduce"]
