"""The bakeoff's official word scores with GNU diff, beside those of `score_words`.

    python benchmarks/official_word_scorer.py DATA [--diff diff]

DATA/sighan2005 holds `{pku,msr}_test_gold.utf8` and `{pku,msr}_training_words.utf8`, perhaps gzip
(`.gz`). The official script writes the words of a sentence one per line and takes as correct the
lines that `diff` pairs up. Here just that is done, with plain `diff` and with `diff --minimal`, for
segmentations by maximal matching and by moving a share of the borders at random. A row is a set of
counts: correct words, and those of them that are out of vocabulary.
"""

import argparse
import random
import subprocess
import tempfile
from pathlib import Path

from keras_crf.corpora import read_words
from keras_crf.scoring import score_words

ONLY_PAIRED = ["--unchanged-line-format=%L", "--old-line-format=", "--new-line-format="]


def paired(truth, guess, folder, command):
    """The words of the lines that `diff` pairs up."""
    paths = [folder / "truth", folder / "guess"]
    for path, words in zip(paths, (truth, guess), strict=True):
        path.write_text("".join(word + "\n" for word in words), encoding="utf-8")
    done = subprocess.run([*command, *ONLY_PAIRED, *paths], capture_output=True, check=False)
    return done.stdout.decode("utf-8").split("\n")[:-1]


def official_counts(gold, predicted, known, command):
    """Correct words, and how many of these are out of vocabulary."""
    correct = oov = 0
    with tempfile.TemporaryDirectory() as folder:
        for truth, guess in zip(gold, predicted, strict=True):
            same = truth == guess
            found = truth if same else paired(truth, guess, Path(folder), command)
            correct += len(found)
            oov += sum(word not in known for word in found)
    return correct, oov


def longest_match(text, known, longest):
    """Cut a text greedily from the left into the longest known words."""
    words = []
    while text:
        size = next((n for n in range(longest, 1, -1) if text[:n] in known), 1)
        words.append(text[:size])
        text = text[size:]
    return words


def moved(words, share, rng):
    """The text of the words, a share of its places turned from border to none or back."""
    text, ends, end = "".join(words), set(), 0
    for word in words:
        end += len(word)
        ends.add(end)
    cuts = [i for i in range(1, len(text)) if (i in ends) != (rng.random() < share)]
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def segmentations(gold, known):
    """Named predictions for a gold standard."""
    longest, rng = max(map(len, known)), random.Random(0)
    yield "maximal matching", [longest_match("".join(words), known, longest) for words in gold]
    for share in (0.02, 0.05, 0.2):
        yield f"{share:.0%} flipped", [moved(words, share, rng) for words in gold]


def words_of(folder, name):
    """The sentences of a file, plain or gzip."""
    path = folder / "sighan2005" / name
    return list(read_words(path if path.exists() else path.with_name(name + ".gz")))


def main():
    """Print the table; fail if `diff --minimal` ever counts otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--diff", default="diff", help="GNU diff")
    options = parser.parse_args()
    print("| set | segmentation | score_words | diff --minimal | diff |\n|---|---|---|---|---|")
    equal = True
    for name in ("pku", "msr"):
        gold = words_of(options.data, f"{name}_test_gold.utf8")
        lists = words_of(options.data, f"{name}_training_words.utf8")
        known = {word for line in lists for word in line}
        for title, predicted in segmentations(gold, known):
            score = score_words(gold, predicted, known)
            commands = [options.diff, "--minimal"], [options.diff]
            ours = score.correct, score.oov_correct
            theirs = [official_counts(gold, predicted, known, command) for command in commands]
            equal &= ours == theirs[0]
            print(f"| {name} | {title} | {ours} | {theirs[0]} | {theirs[1]} |", flush=True)
    raise SystemExit(0 if equal else "score_words and diff --minimal differ")


if __name__ == "__main__":
    main()
