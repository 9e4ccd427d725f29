"""Made-up dialogues and their summaries, as JSON lines of token ids."""

import json
import random

NAMES = "anna ben carla david elena felix greta hugo ivan julia".split()
THINGS = "keys phone wallet umbrella bag book ticket jacket".split()
PLACES = "bus kitchen office car park school cafe garden".split()
DAYS = "monday tuesday wednesday thursday friday".split()

_TEMPLATES = [
    ("{a} : hi {b} , i lost my {thing} . {b} : where were you ? {a} : in the "
     "{place} . {b} : i will look for it on {day} .",
     "{a} lost a {thing} in the {place} . {b} will look for it on {day} ."),
    ("{a} : are you free on {day} ? {b} : yes , why ? {a} : let us meet in "
     "the {place} . {b} : i will bring the {thing} .",
     "{a} and {b} meet in the {place} on {day} . {b} brings a {thing} ."),
    ("{a} : the {thing} is not in the {place} . {b} : i took it on {day} . "
     "{a} : please bring it back , {b} .",
     "{b} took the {thing} on {day} . {a} wants it back in the {place} ."),
]
PREFIX = "summarize :"
PAD, END = 0, 1


def vocabulary():
    """Word to id; 0 pads and 1 ends a text."""
    words = set(PREFIX.split()) | set(NAMES + THINGS + PLACES + DAYS)
    for texts in _TEMPLATES:
        for text in texts:
            words |= {word for word in text.split() if "{" not in word}
    return {word: i + 2 for i, word in enumerate(sorted(words))}


def encode(text, words):
    return [words[word] for word in text.split()] + [END]


def example(rng):
    """(dialogue, summary)"""
    a, b = rng.sample(NAMES, 2)
    slots = {"a": a, "b": b, "thing": rng.choice(THINGS),
             "place": rng.choice(PLACES), "day": rng.choice(DAYS)}
    dialogue, summary = rng.choice(_TEMPLATES)
    return f"{PREFIX} {dialogue.format(**slots)}", summary.format(**slots)


def write(path, count, seed):
    rng = random.Random(seed)
    words = vocabulary()
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            dialogue, summary = example(rng)
            json.dump({"input_ids": encode(dialogue, words),
                       "labels": encode(summary, words)}, file)
            file.write("\n")
