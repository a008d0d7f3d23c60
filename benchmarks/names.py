"""Company-like names: about 23 trigrams each, the words heavy-tailed as in a real register."""

from __future__ import annotations

import numpy as np

SYLLABLES = [
    "ba",
    "be",
    "bi",
    "bo",
    "bra",
    "bre",
    "car",
    "cen",
    "cor",
    "da",
    "del",
    "den",
    "dor",
    "el",
    "en",
    "er",
    "fal",
    "fen",
    "for",
    "gal",
    "gen",
    "gra",
    "ha",
    "hel",
    "hol",
    "in",
    "is",
    "jo",
    "ka",
    "kel",
    "kor",
    "la",
    "lan",
    "lem",
    "lin",
    "lo",
    "mar",
    "mer",
    "min",
    "mon",
    "na",
    "nel",
    "nor",
    "o",
    "or",
    "pal",
    "per",
    "pol",
    "qua",
    "ra",
    "ren",
    "ri",
    "ros",
    "sa",
    "sel",
    "sil",
    "sol",
    "ta",
    "tel",
    "ter",
    "tor",
    "tri",
    "u",
    "ul",
    "va",
    "ven",
    "ver",
    "vi",
    "vol",
    "wen",
    "wes",
    "xan",
    "yar",
    "zen",
    "zo",
]
SECTORS = [
    "shipping",
    "logistics",
    "capital",
    "trading",
    "energy",
    "foods",
    "media",
    "motors",
    "mining",
    "textile",
    "software",
    "pharma",
    "steel",
    "timber",
    "aviation",
    "insurance",
    "optics",
    "robotics",
    "partners",
    "holdings",
    "maritime",
    "chemicals",
    "paper",
    "consulting",
    "brewing",
    "packaging",
    "cables",
    "ceramics",
    "finance",
    "farming",
]
# As in a real register, a few legal forms end most names: their trigrams are in
# hundreds of thousands of a million names, which is what an index has to bear.
FORMS = ["limited", "ltd", "gmbh", "inc", "holdings", "llc", "plc", "ag", "sa", "bv", "oy", "ab"]
FORM_SHARE = 0.85
SECOND_WORD_SHARE = 0.4

# Of every hundred names, so many are another name with one letter wrong: what
# an extractor writes, and what a search by similarity is there to find.
MISSPELT_SHARE = 0.02


def vocabulary(size: int, random: np.random.Generator) -> list[str]:
    """Make `size` different pseudo-words, most of two syllables, some of three.

    Parameters
    ----------
    size : int
        How many words, at most 100,000.
    random : numpy.random.Generator
        Where the choices come from.
    """
    words: dict[str, None] = {}
    while len(words) < size:
        picks = random.integers(0, len(SYLLABLES), size=(size, 3))
        counts = np.where(random.random(size) < 0.9, 2, 3)
        for row, count in zip(picks.tolist(), counts.tolist(), strict=True):
            words["".join(SYLLABLES[number] for number in row[:count])] = None
    return list(words)[:size]


def zipf_choices(
    choices: int, count: int, exponent: float, random: np.random.Generator
) -> np.ndarray:
    """Draw `count` numbers below `choices`; number r is drawn in proportion to (r + 1)^-exponent.

    The inverse of the cumulative distribution is looked up by bisection: O(choices + count log
    choices) time.
    """
    cumulative = np.cumsum(np.arange(1, choices + 1, dtype=np.float64) ** -exponent)
    drawn = np.searchsorted(cumulative, random.random(count) * cumulative[-1], side="right")
    return np.minimum(drawn, choices - 1)


def company_names(count: int, seed: int, *, distinct: bool = True) -> np.ndarray:
    """Make `count` folded company-like names.

    Parameters
    ----------
    count : int
        How many names, up to a million or so.
    seed : int
        The same seed gives the same names.
    distinct : bool
        Whether no two names may be equal.

    Returns
    -------
    numpy.ndarray
        Byte strings (ASCII).
    """
    random = np.random.default_rng([seed, 7001])
    words = vocabulary(max(200, min(20_000, count // 5)), random)
    names: dict[str, None] = {}
    made: list[str] = []
    while len(made) < count:
        wanted = int((count - len(made)) * 1.05) + 16
        batch = _batch(words, wanted, random)
        if not distinct:
            made.extend(batch)
            continue
        names.update(dict.fromkeys(batch))
        made = list(names)
    made = made[:count]
    _misspell(made, random, distinct)
    return np.array([name.encode() for name in made])


def _batch(words: list[str], count: int, random: np.random.Generator) -> list[str]:
    first = zipf_choices(len(words), count, 0.5, random).tolist()
    second = zipf_choices(len(words), count, 0.5, random).tolist()
    sector = zipf_choices(len(SECTORS), count, 0.6, random).tolist()
    form = zipf_choices(len(FORMS), count, 1.0, random).tolist()
    with_second = (random.random(count) < SECOND_WORD_SHARE).tolist()
    with_form = (random.random(count) < FORM_SHARE).tolist()
    return [
        words[a]
        + (f" {words[b]}" if two else "")
        + f" {SECTORS[c]}"
        + (f" {FORMS[d]}" if formed else "")
        for a, b, c, d, two, formed in zip(
            first, second, sector, form, with_second, with_form, strict=True
        )
    ]


def _misspell(names: list[str], random: np.random.Generator, distinct: bool) -> None:
    """Overwrite some names, in place, by others with one letter wrong."""
    known = set(names) if distinct else set()
    many = int(len(names) * MISSPELT_SHARE)
    places = random.choice(len(names), size=(many, 2), replace=True).tolist()
    draws = random.random((many, 2)).tolist()
    for (place, origin), (at, letter) in zip(places, draws, strict=True):
        wrong = one_letter_wrong(names[origin], at, letter)
        if wrong not in known:
            names[place] = wrong
            known.add(wrong)


def one_letter_wrong(name: str, at: float, letter: float) -> str:
    """Replace one letter: `at` and `letter`, both in [0, 1), say which and by what."""
    place = int(at * len(name))
    while name[place] == " ":
        place -= 1
    written = chr(ord("a") + int(letter * 26))
    return name[:place] + written + name[place + 1 :]


# Words that real registers repeat hundreds of thousands of times, and that share their
# trigrams with each other besides.
COMMON_WORDS = (
    "international", "global", "national", "general", "united", "american", "european",
    "asian", "atlantic", "pacific", "northern", "southern", "eastern", "western", "central",
    "continental", "universal", "standard", "first", "premier", "royal", "imperial", "golden",
    "silver", "blue", "green", "red", "white", "black", "star", "sun", "river", "ocean",
    "mountain", "valley", "island", "harbour", "marine", "maritime", "shipping", "transport",
    "transportation", "logistics", "freight", "trading", "traders", "trade", "commercial",
    "commerce", "industrial", "industries", "industry", "manufacturing", "manufacturers",
    "engineering", "engineers", "construction", "contractors", "consulting", "consultants",
    "management", "investment", "investments", "capital", "financial", "finance", "insurance",
    "holding", "holdings", "properties", "property", "development", "developments",
    "enterprise", "enterprises", "services", "service", "solutions", "systems",
    "technologies", "technology", "information", "communications", "media", "marketing",
    "advertising", "design", "energy", "petroleum", "chemical", "chemicals", "pharmaceutical",
    "medical", "health", "foods", "food", "beverage", "farming", "agricultural", "textile",
    "fashion", "furniture", "electric", "electrical", "electronics", "automotive", "motors",
    "aviation", "aerospace", "research", "education", "training", "partners", "associates",
    "brothers", "sons", "group", "union", "alliance", "network", "resources", "materials",
    "metals", "mining", "minerals", "timber", "paper", "packaging", "printing", "publishing",
    "water", "environmental", "recycling",
)  # fmt: skip
COMPANY_FORMS = (
    "limited", "company limited", "corporation", "incorporated", "private limited", "gmbh", "plc",
    "llc", "sa", "bv",
)  # fmt: skip


def common_names(count: int, seed: int) -> np.ndarray:
    """Make `count` different company-like names of words that all of them share.

    No word is rare but a short one in four: every trigram of most names is in tens or
    hundreds of thousands of a million, which is the worst that a register holds.

    Parameters
    ----------
    count : int
        How many names, up to a few million.
    seed : int
        The same seed gives the same names.

    Returns
    -------
    numpy.ndarray
        Byte strings (ASCII), of some 25 trigrams.
    """
    random = np.random.default_rng([seed, 7003])
    words = COMMON_WORDS
    rare = vocabulary(max(200, min(5_000, count // 50)), random)
    names: dict[str, None] = {}
    while len(names) < count:
        wanted = int((count - len(names)) * 1.1) + 16
        first = zipf_choices(len(words), wanted, 0.4, random).tolist()
        second = zipf_choices(len(words), wanted, 0.4, random).tolist()
        other = zipf_choices(len(rare), wanted, 0.5, random).tolist()
        form = zipf_choices(len(COMPANY_FORMS), wanted, 1.0, random).tolist()
        mixed = random.random((wanted, 2)).tolist()
        for a, b, c, d, (with_rare, with_form) in zip(
            first, second, other, form, mixed, strict=True
        ):
            name = f"{words[a]} {words[b]}"
            if with_rare < 0.9:
                name = f"{rare[c]} {words[b]}" if with_rare < 0.3 else f"{rare[c]} {name}"
            names[f"{name} {COMPANY_FORMS[d]}" if with_form < FORM_SHARE else name] = None
    return np.array([name.encode() for name in list(names)[:count]])
