"""The paper's experiments by name."""

from causalbandits.paper import figure1, figure2, figure3, figure4, figure5, figure6, lower_bound
from causalbandits.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (figure1, figure2, figure3, figure4, figure5, figure6, lower_bound)
}
