"""Seconds to read and score a million tokens: `python benchmarks/scoring_speed.py`.

The data are made up: 20,000 sentences of 50 tokens, entities of one to six tokens, words of one to
three characters; one prediction in twenty is wrong. Best of three runs, one process.
"""

import random
import time

import numpy as np

from keras_crf.scoring import score_spans, score_words
from keras_crf.spans import word_spans
from keras_crf.tag_schemes import TagSet

SENTENCES, LENGTH = 20_000, 50


def best_of_three(function):
    """Seconds of the fastest of three calls, and what the last one returned."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def made_up_tags(tags, rng):
    """Gold and predicted ids, two arrays (sentences, length)."""
    labels = tags.types
    gold = np.zeros((SENTENCES, LENGTH), "int32")
    for row in gold:
        starts = range(rng.randrange(8), LENGTH - 6, 12)
        spans = [(s, s + rng.randint(1, 6), rng.choice(labels)) for s in starts]
        row[:] = tags.encode(spans, LENGTH)
    noise = np.random.default_rng(0)
    wrong = noise.random(gold.shape) < 0.05
    return gold, np.where(wrong, noise.integers(0, len(tags), gold.shape), gold)


def made_up_words(rng):
    """Gold and predicted sentences of words."""
    text = [chr(0x4E00 + rng.randrange(3000)) for _ in range(SENTENCES * LENGTH)]
    gold, predicted = [], []
    for n in range(0, len(text), LENGTH):
        for sentences, flip in ((gold, 0.0), (predicted, 0.05)):
            cuts = [c for c in range(1, LENGTH) if (c * 7 % 5 < 3) != (rng.random() < flip)]
            borders = zip([0, *cuts], [*cuts, LENGTH], strict=True)
            sentences.append(["".join(text[n + a : n + b]) for a, b in borders])
    return gold, predicted


def main():
    """Prints the table."""
    rng = random.Random(0)
    tags = TagSet(["PER", "LOC", "ORG", "MISC"], "BIOES")
    gold, predicted = made_up_tags(tags, rng)
    decode, spans = best_of_three(lambda: [[tags.decode(r) for r in a] for a in (gold, predicted)])
    spans_time, entities = best_of_three(lambda: score_spans(*spans))
    words = made_up_words(rng)
    train = {word for sentence in words[0][::2] for word in sentence}
    words_time, segmented = best_of_three(lambda: score_words(*words, train))
    illegal, _ = best_of_three(lambda: tags.check_corpus(predicted))
    print(f"| task, {SENTENCES * LENGTH:,} tokens | seconds |\n|---|---|")
    print(f"| TagSet.decode, gold and predicted | {decode:.2f} |")
    print(f"| TagSet.check_corpus, predicted | {illegal:.2f} |")
    print(f"| score_spans, {entities.gold:,} gold spans | {spans_time:.2f} |")
    print(f"| score_words, {segmented.gold:,} gold words | {words_time:.2f} |")
    as_spans = ([word_spans(s) for s in side] for side in words)
    print("\n", entities, "\n\n", segmented, "\n\n", score_spans(*as_spans), sep="")


if __name__ == "__main__":
    main()
