"""The references of what you ran."""

from __future__ import annotations

from causalbandits.errors import CausalBanditsError
from causalbandits.policies import AnyPolicy, as_policy
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

CITATIONS_OF_POLICY: dict[str, tuple[str, ...]] = {
    "c-gittins-beta": ("lu2020", "brezzi2002"),
    "c-gittins-effects": ("lu2020", "brezzi2002"),
    "c-gittins-gaussian": ("lu2020", "brezzi2002"),
    "c-gittins-scaled": ("lu2020", "brezzi2002"),
    "c-screen-beta": ("lu2020", "brezzi2002"),
    "c-screen-gaussian": ("lu2020", "brezzi2002"),
    "c-screen-scaled": ("lu2020", "brezzi2002"),
    "c-ids-beta": ("lu2020", "russo2014"),
    "c-ids-gaussian": ("lu2020", "russo2014"),
    "c-ids-scaled": ("lu2020", "russo2014"),
    "c-ts-models": ("lu2020", "ortega2014"),
    "c-ts-ucb-beta": ("lu2020", "baek2023"),
    "c-ts-ucb-gaussian": ("lu2020", "baek2023"),
    "c-ts-ucb-scaled": ("lu2020", "baek2023"),
    "c-ucb": ("lu2020",),
    "c-track-and-stop": ("garivier2016", "shahverdikondori2025"),
    "c-design": ("lattimore2016",),
    "c-elimination": ("lattimore2016",),
    "c-kl-ucb": ("lu2020", "garivier2011"),
    "c-ts-beta": ("lu2020",),
    "c-ts-beta-scaled": ("lu2020",),
    "c-ts-effects": ("lu2020",),
    "c-ts-gaussian-scaled": ("lu2020",),
    "c-ucb-scaled": ("lu2020",),
    "c-ts-beta-guarded": ("lu2020",),
    "c-ts-gaussian": ("lu2020",),
    "c-ts-beta-learnt": ("lu2020", "osband2013"),
    "c-ts-gaussian-learnt": ("lu2020", "osband2013"),
    "c-ts-gaussian-learnt-scaled": ("lu2020", "osband2013"),
    "c-ts-gaussian-guarded": ("lu2020",),
    "cl-ucb": ("lu2020", "abbasi2011"),
    "cl-ucb-observed": ("lu2020", "abbasi2011"),
    "cl-ts": ("lu2020",),
    "cl-ts-ucb": ("lu2020", "baek2023"),
    "cl-ts-ucb-observed": ("lu2020", "baek2023"),
    "cl-ts-observed": ("lu2020",),
    "cl-ts-observed-scaled": ("lu2020",),
    "cl-ts-scaled": ("lu2020",),
    "lin-ts": ("agrawal2013",),
    "lin-ucb": ("li2010", "abbasi2011"),
    "ucb": ("auer2002",),
    "hac-ucb": ("bilodeau2022",),
    "kl-ucb": ("garivier2011",),
    "ts-beta": ("thompson1933", "agrawal2012"),
    "ts-gaussian": ("thompson1933", "agrawal2012"),
    "ts-beta-scaled": ("thompson1933", "agrawal2012"),
    "ts-gaussian-scaled": ("thompson1933", "agrawal2012"),
    "ucb-scaled": ("auer2002",),
    "uniform": (),
}


def citation(*subjects: AnyPolicy | str | Run) -> str:
    """BibTeX for policies (objects or ids) or for all policies of a run.

    >>> print(citation("ucb").splitlines()[0])
    @article{auer2002finite,
    """
    keys: dict[str, None] = {}
    for subject in subjects:
        for id in _policy_ids(subject) if isinstance(subject, Run) else [as_policy(subject).id]:
            keys |= dict.fromkeys(CITATIONS_OF_POLICY.get(id, ()))
    return "\n\n".join(BIBTEX[key] for key in keys)


def _policy_ids(run: Run) -> list[str]:
    """The ids of what was played; where the run did not note them, names are trusted that begin with one."""
    if run.origin is not None and run.origin.ids is not None:
        return [run.origin.ids[name] for name in run.policies]
    ids = {name: name.split("(")[0].strip() for name in run.policies}
    for name, id in ids.items():
        if id not in CITATIONS_OF_POLICY:
            raise CausalBanditsError(
                f"This run does not say which policy {name!r} is. Give citation() the policies themselves."
            )
    return list(ids.values())
