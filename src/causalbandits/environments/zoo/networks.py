"""Small networks from the literature, with the published probabilities."""

from __future__ import annotations

from causalbandits.model import CausalModel, Variable

YES_NO, TRUE_FALSE = ("yes", "no"), ("True", "False")


def asia() -> CausalModel:
    """Shortness of breath after a visit to Asia: Lauritzen and Spiegelhalter (1988).

    >>> asia()
    CausalModel(8 variables, 8 edges)
    """
    return CausalModel(
        [
            Variable("asia", YES_NO, table=[0.01, 0.99]),
            Variable("tub", YES_NO, parents=["asia"], table=[[0.05, 0.95], [0.01, 0.99]]),
            Variable("smoke", YES_NO, table=[0.5, 0.5]),
            Variable("lung", YES_NO, parents=["smoke"], table=[[0.1, 0.9], [0.01, 0.99]]),
            Variable("bronc", YES_NO, parents=["smoke"], table=[[0.6, 0.4], [0.3, 0.7]]),
            Variable("either", YES_NO, parents=["lung", "tub"], table=[[[1, 0], [1, 0]], [[1, 0], [0, 1]]]),
            Variable("xray", YES_NO, parents=["either"], table=[[0.98, 0.02], [0.05, 0.95]]),
            Variable(
                "dysp", YES_NO, parents=["bronc", "either"], table=[[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]
            ),
        ]
    )


def cancer() -> CausalModel:
    """Causes and signs of lung cancer: Korb and Nicholson (2010), section 2.2.

    >>> cancer()
    CausalModel(5 variables, 4 edges)
    """
    of_both = [[[0.03, 0.97], [0.001, 0.999]], [[0.05, 0.95], [0.02, 0.98]]]
    return CausalModel(
        [
            Variable("Pollution", ("low", "high"), table=[0.9, 0.1]),
            Variable("Smoker", TRUE_FALSE, table=[0.3, 0.7]),
            Variable("Cancer", TRUE_FALSE, parents=["Pollution", "Smoker"], table=of_both),
            Variable("Xray", ("positive", "negative"), parents=["Cancer"], table=[[0.9, 0.1], [0.2, 0.8]]),
            Variable("Dyspnoea", TRUE_FALSE, parents=["Cancer"], table=[[0.65, 0.35], [0.3, 0.7]]),
        ]
    )


def earthquake() -> CausalModel:
    """An alarm, and two neighbours who call: Pearl (1988), as in Korb and Nicholson (2010), section 2.5.1.

    >>> earthquake()
    CausalModel(5 variables, 4 edges)
    """
    of_both = [[[0.95, 0.05], [0.94, 0.06]], [[0.29, 0.71], [0.001, 0.999]]]
    return CausalModel(
        [
            Variable("Burglary", TRUE_FALSE, table=[0.01, 0.99]),
            Variable("Earthquake", TRUE_FALSE, table=[0.02, 0.98]),
            Variable("Alarm", TRUE_FALSE, parents=["Burglary", "Earthquake"], table=of_both),
            Variable("JohnCalls", TRUE_FALSE, parents=["Alarm"], table=[[0.9, 0.1], [0.05, 0.95]]),
            Variable("MaryCalls", TRUE_FALSE, parents=["Alarm"], table=[[0.7, 0.3], [0.01, 0.99]]),
        ]
    )
