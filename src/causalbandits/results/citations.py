"""BibTeX of the software, of policies and of runs."""

from __future__ import annotations

from importlib.metadata import version

from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.policies import AnyPolicy, as_policy, is_auto, parse_policy_text
from causalbandits.results.run import Run

BIBTEX = {
    "lu2020": """@inproceedings{lu2020regret,
  title     = {Regret Analysis of Bandit Problems with Causal Background Knowledge},
  author    = {Lu, Yangyi and Meisami, Amirhossein and Tewari, Ambuj and Yan, William},
  booktitle = {Conference on Uncertainty in Artificial Intelligence (UAI)},
  year      = {2020}
}""",
    "auer2002": """@article{auer2002finite,
  title   = {Finite-time Analysis of the Multiarmed Bandit Problem},
  author  = {Auer, Peter and Cesa-Bianchi, Nicol{\\`o} and Fischer, Paul},
  journal = {Machine Learning},
  volume  = {47},
  pages   = {235--256},
  year    = {2002}
}""",
    "thompson1933": """@article{thompson1933likelihood,
  title   = {On the Likelihood that One Unknown Probability Exceeds Another in View of the Evidence of Two Samples},
  author  = {Thompson, William R.},
  journal = {Biometrika},
  volume  = {25},
  pages   = {285--294},
  year    = {1933}
}""",
    "agrawal2012": """@inproceedings{agrawal2012analysis,
  title     = {Analysis of Thompson Sampling for the Multi-armed Bandit Problem},
  author    = {Agrawal, Shipra and Goyal, Navin},
  booktitle = {Conference on Learning Theory (COLT)},
  year      = {2012}
}""",
    "garivier2011": """@inproceedings{garivier2011klucb,
  title     = {The {KL-UCB} Algorithm for Bounded Stochastic Bandits and Beyond},
  author    = {Garivier, Aur{\\'e}lien and Capp{\\'e}, Olivier},
  booktitle = {Conference on Learning Theory (COLT)},
  year      = {2011}
}""",
    "osband2013": """@inproceedings{osband2013more,
  title     = {(More) Efficient Reinforcement Learning via Posterior Sampling},
  author    = {Osband, Ian and Russo, Daniel and Van Roy, Benjamin},
  booktitle = {Advances in Neural Information Processing Systems (NIPS)},
  year      = {2013}
}""",
    "bilodeau2022": """@inproceedings{bilodeau2022adaptively,
  title     = {Adaptively Exploiting d-Separators with Causal Bandits},
  author    = {Bilodeau, Blair and Wang, Linbo and Roy, Daniel M.},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year      = {2022}
}""",
    "abbasi2011": """@inproceedings{abbasi2011improved,
  title     = {Improved Algorithms for Linear Stochastic Bandits},
  author    = {Abbasi-Yadkori, Yasin and P{\\'a}l, D{\\'a}vid and Szepesv{\\'a}ri, Csaba},
  booktitle = {Advances in Neural Information Processing Systems (NIPS)},
  year      = {2011}
}""",
    "baek2023": """@article{baek2023ts,
  title   = {{TS-UCB}: Improving on {Thompson} Sampling With Little to No Additional Computation},
  author  = {Baek, Jackie and Farias, Vivek F.},
  journal = {International Conference on Artificial Intelligence and Statistics (AISTATS)},
  year    = {2023}
}""",
    "ortega2014": """@article{ortega2014generalized,
  title   = {Generalized {Thompson} Sampling for Sequential Decision-Making and Causal Inference},
  author  = {Ortega, Pedro A. and Braun, Daniel A.},
  journal = {Complex Adaptive Systems Modeling},
  volume  = {2},
  number  = {2},
  year    = {2014}
}""",
    "russo2014": """@inproceedings{russo2014learning,
  title     = {Learning to Optimize via Information-Directed Sampling},
  author    = {Russo, Daniel and Van Roy, Benjamin},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2014}
}""",
    "brezzi2002": """@article{brezzi2002optimal,
  title   = {Optimal Learning and Experimentation in Bandit Problems},
  author  = {Brezzi, Monica and Lai, Tze Leung},
  journal = {Journal of Economic Dynamics and Control},
  year    = {2002},
  volume  = {27},
  number  = {1},
  pages   = {87--108}
}""",
    "li2010": """@inproceedings{li2010contextual,
  title     = {A Contextual-Bandit Approach to Personalized News Article Recommendation},
  author    = {Li, Lihong and Chu, Wei and Langford, John and Schapire, Robert E.},
  booktitle = {International Conference on World Wide Web (WWW)},
  year      = {2010}
}""",
    "lattimore2016": """@inproceedings{lattimore2016causal,
  title     = {Causal Bandits: Learning Good Interventions via Causal Inference},
  author    = {Lattimore, Finnian and Lattimore, Tor and Reid, Mark D.},
  booktitle = {Advances in Neural Information Processing Systems (NIPS)},
  year      = {2016}
}""",
    "garivier2016": """@inproceedings{garivier2016optimal,
  title     = {Optimal Best Arm Identification with Fixed Confidence},
  author    = {Garivier, Aur{\\'e}lien and Kaufmann, Emilie},
  booktitle = {Conference on Learning Theory (COLT)},
  year      = {2016}
}""",
    "shahverdikondori2025": """@misc{shahverdikondori2025optimal,
  title  = {Optimal Best Arm Identification with Post-Action Context},
  author = {Shahverdikondori, Mohammad and Abouei, Amir Mohammad and Rezaeimoghadam, Alireza and Kiyavash, Negar},
  eprint = {2502.03061},
  archiveprefix = {arXiv},
  year   = {2025}
}""",
    "agrawal2013": """@inproceedings{agrawal2013thompson,
  title     = {Thompson Sampling for Contextual Bandits with Linear Payoffs},
  author    = {Agrawal, Shipra and Goyal, Navin},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2013}
}""",
}

SOFTWARE = """@software{causalbandits,
  title   = {causalbandits: best interventions in few trials, by a causal graph},
  author  = {{The causalbandits authors}},
  version = {VERSION},
  year    = {2026},
  note    = {Python package}
}"""

TITLES = {
    "lattimore2016": "Lattimore, Lattimore, Reid (NIPS 2016)",
    "garivier2016": "Garivier, Kaufmann (COLT 2016)",
    "shahverdikondori2025": "Shahverdikondori, Abouei, Rezaeimoghadam, Kiyavash (2025)",
    "li2010": "Li, Chu, Langford, Schapire (WWW 2010)",
    "agrawal2013": "Agrawal, Goyal (ICML 2013)",
    "baek2023": "Baek, Farias (AISTATS 2023)",
    "ortega2014": "Ortega, Braun (2014)",
    "russo2014": "Russo, Van Roy (NIPS 2014)",
    "brezzi2002": "Brezzi, Lai (2002)",
    "lu2020": "Lu, Meisami, Tewari, Yan (UAI 2020)",
    "auer2002": "Auer, Cesa-Bianchi, Fischer (2002)",
    "thompson1933": "Thompson (1933)",
    "osband2013": "Osband, Russo, Van Roy (NIPS 2013)",
    "agrawal2012": "Agrawal, Goyal (COLT 2012)",
    "garivier2011": "Garivier, Cappe (COLT 2011)",
    "bilodeau2022": "Bilodeau, Wang, Roy (NeurIPS 2022)",
    "abbasi2011": "Abbasi-Yadkori, Pal, Szepesvari (NIPS 2011)",
}

CITATIONS_OF_FAMILY: dict[str, tuple[str, ...]] = {
    "c-ts": ("lu2020",),
    "c-ucb": ("lu2020",),
    "c-kl-ucb": ("lu2020", "garivier2011"),
    "c-gittins": ("lu2020", "brezzi2002"),
    "c-screen": ("lu2020", "brezzi2002"),
    "c-ts-ucb": ("lu2020", "baek2023"),
    "c-ids": ("lu2020", "russo2014"),
    "cl-ts": ("lu2020",),
    "cl-ucb": ("lu2020", "abbasi2011"),
    "cl-ts-ucb": ("lu2020", "baek2023"),
    "c-track-and-stop": ("garivier2016", "shahverdikondori2025"),
    "c-elimination": ("lattimore2016",),
    "c-design": ("lattimore2016",),
    "c-ts-guarded": ("lu2020",),
    "c-ts-models": ("lu2020", "ortega2014"),
    "hac-ucb": ("bilodeau2022",),
    "lin-ucb": ("li2010", "abbasi2011"),
    "lin-ts": ("agrawal2013",),
    "ts": ("thompson1933", "agrawal2012"),
    "ucb": ("auer2002",),
    "kl-ucb": ("garivier2011",),
    "uniform": (),
}

CITATIONS_OF_LEARNED_CPTS = ("osband2013",)


def citation(*subjects: AnyPolicy | str | Run) -> str:
    """BibTeX entries of this software, or of the publications behind policies or a run.

    >>> print(citation().splitlines()[0])
    @software{causalbandits,
    >>> print(citation("ucb").splitlines()[0])
    @article{auer2002finite,

    Args:
        *subjects: Policies (objects or texts) and runs. Default: the software.

    Returns:
        The BibTeX text.

    Raises:
        PolicyError: If a subject is neither a policy nor a run.
    """
    if not subjects:
        return SOFTWARE.replace("VERSION", version("causalbandits"))
    keys: dict[str, None] = {}
    for subject in subjects:
        for id in _policy_ids(subject) if isinstance(subject, Run) else [_policy_id(subject)]:
            keys |= dict.fromkeys(_citation_keys(id))
    return "\n\n".join(BIBTEX[key] for key in keys)


def _policy_id(policy: AnyPolicy | str) -> str:
    if is_auto(policy):
        raise PolicyError(
            "'auto' is a different policy for each problem. Pass the run or the agent's policy to citation()."
        )
    return as_policy(policy).id


def _citation_keys(id: str) -> tuple[str, ...]:
    """The citation keys of a policy's text; none for policies outside this library."""
    try:
        text = parse_policy_text(id)
    except PolicyError:
        return ()
    keys = CITATIONS_OF_FAMILY.get(text.family, ())
    return keys + CITATIONS_OF_LEARNED_CPTS if text.options.get("cpts") == "learned" else keys


def _policy_ids(run: Run) -> list[str]:
    """The ids of the played policies; if the run did not record them, names that begin with a policy's family are
    used."""
    if run.origin is not None and run.origin.ids is not None:
        return [run.origin.ids[name] for name in run.policies]
    ids = {name: name if _citation_keys(name) else name.split("(")[0].strip() for name in run.policies}
    for name, id in ids.items():
        if parse_policy_text(id).family not in CITATIONS_OF_FAMILY:
            raise CausalBanditsError(
                f"This run does not record the policy of {name!r}. Pass the policies themselves to citation()."
            )
    return list(ids.values())
