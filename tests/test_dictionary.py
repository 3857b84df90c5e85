"""Dictionaries: what is found, what a word is worth, and that forced words come out whole."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf import Dictionary, TagSet, ViterbiDecoder
from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.dictionary import leftmost_longest
from keras_crf.spans import Span
from keras_crf.tag_schemes import SCHEMES

WORDS = TagSet(scheme="SBME")
TEXT = "新的量子点显示屏很亮"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

short_texts = st.text("abc", max_size=9)
short_words = st.lists(st.text("abc", min_size=1, max_size=4), max_size=5)


def tag_set(scheme):
    return TagSet((), scheme) if scheme == "SBME" else TagSet(["X", "Y"], scheme)


def typed(words, tags):
    """The words, every other of the second type, for tags that have types."""
    return {word: tags.types[n % 2] if tags.types else None for n, word in enumerate(words)}


# Finding


@given(short_words, short_texts)
def test_find_is_what_looking_everywhere_finds(words, text):
    bounds = product(range(len(text)), range(1, len(text) + 1))
    expected = [(i, j, None) for i, j in bounds if i < j and text[i:j] in words]
    assert Dictionary(words).find(text) == expected


def test_types_and_overlaps():
    dictionary = Dictionary({"冯家坪": "LOC", "冯家": "PER", "坪口镇": "LOC"})
    assert len(dictionary) == 3
    assert dictionary.find("在冯家坪口镇") == [
        Span(1, 3, "PER"),
        Span(1, 4, "LOC"),
        Span(3, 6, "LOC"),
    ]
    assert pickle.loads(pickle.dumps(dictionary)).words == dictionary.words


def test_what_is_not_in_the_list_is_not_found():
    dictionary = Dictionary(["𠮷野屋", "NASA", "量子点灯"])
    assert dictionary.find("nasa 量子点") == []
    assert dictionary.find("去𠮷野屋") == [Span(1, 4)]
    assert Dictionary([]).find(TEXT) == dictionary.find("") == []


def test_leftmost_longest():
    spans = [Span(2, 3), Span(0, 2), Span(1, 6), Span(0, 1), Span(3, 5), Span(2, 4), Span(4, 5)]
    assert leftmost_longest(spans) == [Span(0, 2), Span(2, 4), Span(4, 5)]
    assert leftmost_longest([]) == []


# Soft


def test_a_word_alone_is_worth_its_weight():
    for word in ("亮", "很亮", "显示屏", "量子点显示屏"):
        bonus = Dictionary([word]).bonus(TEXT, WORDS, weight=2.5)
        assert bonus.shape == (len(TEXT), 4) and bonus.dtype == np.float32
        start = TEXT.index(word)
        ids = WORDS.encode([(start, start + len(word))], len(TEXT))
        spelled = np.flatnonzero(ids >= 0)
        np.testing.assert_allclose(bonus[spelled, ids[spelled]], 2.5 / len(word), rtol=1e-6)
        np.testing.assert_allclose(bonus.sum(), 2.5, rtol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(words=short_words, text=short_texts)
def test_every_listed_word_gains_its_weight_and_no_label_more(scheme, words, text):
    tags = tag_set(scheme)
    dictionary = Dictionary(typed(words, tags))
    bonus = dictionary.bonus(text, tags, weight=3.0)
    assert bonus.shape == (len(text), len(tags))
    assert bonus.min(initial=0) >= 0 and bonus.max(initial=0) <= 3
    for span in dictionary.find(text):
        ids = tags.encode([span], len(text))[span.start : span.end]
        assert bonus[np.arange(span.start, span.end), ids].sum() >= 3 - 1e-5
    if not dictionary.find(text):
        assert not bonus.any()


def test_where_words_overlap_the_largest_score_counts():
    bonus = Dictionary(["量子", "量子点", "子点", "点"]).bonus(TEXT, WORDS, weight=6)
    s, b, m, e = range(4)
    expected = np.zeros((10, 4))
    expected[2, b] = expected[3, b] = expected[3, e] = expected[4, e] = 3
    expected[3, m], expected[4, s] = 2, 6
    np.testing.assert_allclose(bonus, expected)


def test_where_a_span_of_the_type_touches_its_letter_gains_too():
    tags = TagSet(["X"], "IOB1")
    bonus = Dictionary({"ab": "X", "cd": "X"}).bonus("abcd", tags, weight=2)
    path = tags.encode([(0, 2, "X"), (2, 4, "X")], 4)
    assert tags.to_names(path) == ["I-X", "I-X", "B-X", "I-X"]
    assert bonus[np.arange(4), path].sum() == 4


def test_a_soft_word_wins_when_near_and_only_then():
    decoder = ViterbiDecoder.from_labels("sbme", "SBME")
    nodes = np.zeros((3, 4))
    nodes[:, 0] = 1.0  # three words, by 3 nats
    dictionary = Dictionary(["显示屏"])
    for weight, expected in ((2.9, [0, 0, 0]), (3.1, [1, 2, 3])):
        bonus = dictionary.bonus("显示屏", WORDS, weight)
        assert decoder.decode(nodes, bonus=bonus).tolist() == expected


# Hard


@pytest.mark.parametrize("scheme", SCHEMES)
@given(words=short_words, text=short_texts, seed=st.integers(0, 2**32 - 1))
def test_forced_words_come_out_whole_over_any_emissions(scheme, words, text, seed):
    tags = tag_set(scheme)
    dictionary = Dictionary(typed(words, tags))
    allowed = dictionary.allowed_labels(text, tags)
    assert allowed.shape == (len(text), len(tags)) and allowed.dtype == bool
    nodes = np.random.default_rng(seed).normal(size=(8, *allowed.shape)) * 20
    forced = set(leftmost_longest(dictionary.find(text)))
    legal = ViterbiDecoder.from_labels(tags.names, scheme)
    free = ViterbiDecoder(np.zeros((len(tags), len(tags))))
    for decoder in (legal, free):
        paths, scores = decoder.decode(
            nodes, allowed_labels=np.broadcast_to(allowed, nodes.shape), return_score=True
        )
        assert (scores > -np.inf).all()
        for path in paths:
            assert forced <= set(tags.decode(path))
            assert decoder is free or tags.check(path) == []
    strict = set(tags.decode(legal.decode(nodes[0], allowed_labels=allowed), strict=True))
    assert forced <= strict


def test_positions_away_from_words_stay_free():
    allowed = Dictionary(["显示屏"]).allowed_labels(TEXT, WORDS)
    free = np.ones(len(TEXT), bool)
    free[4:9] = False
    assert allowed[free].all()
    rows = {4: "se", 5: "b", 6: "m", 7: "e", 8: "sb"}
    for row, letters in rows.items():
        assert [name in letters for name in WORDS.names] == allowed[row].tolist()


def test_neighbours_of_the_same_type_do_not_extend_an_entity():
    tags = TagSet(["LOC", "PER"], "BIO")
    nodes = np.zeros((6, 5))
    nodes[:, tags.ids["I-LOC"]] = 9.0  # the model sees one long place
    allowed = Dictionary({"家坪": "LOC"}).allowed_labels("在冯家坪口镇", tags)
    for decoder in (
        ViterbiDecoder.from_labels(tags.names, "BIO"),
        ViterbiDecoder(np.zeros((5, 5))),
    ):
        spans = tags.decode(decoder.decode(nodes, allowed_labels=allowed))
        assert Span(2, 4, "LOC") in spans


# Tokens, types, segmentation with other tag sets


def test_one_token_per_character_with_special_tokens():
    tokens = CharacterAligner([*SPECIAL, *TEXT])(TEXT, add_special=True)
    dictionary = Dictionary(["量子点", "显示屏"])
    bonus = dictionary.bonus(tokens, WORDS, 2.0)
    allowed = dictionary.allowed_labels(tokens, WORDS)
    np.testing.assert_array_equal(tokens.pick(bonus), dictionary.bonus(TEXT, WORDS, 2.0))
    np.testing.assert_array_equal(tokens.pick(allowed), dictionary.allowed_labels(TEXT, WORDS))
    assert not bonus[[0, -1]].any() and allowed[[0, -1]].all()
    decoder = ViterbiDecoder.from_labels("sbme", "SBME")
    path = decoder.decode(np.zeros((12, 4)), tokens.mask, allowed_labels=allowed)
    assert {Span(3, 6), Span(6, 9)} <= set(WORDS.decode(path))


def test_word_pieces_count_as_their_word(recwarn):
    vocabulary = [*SPECIAL, "the", "new", "zor", "##blax", "valley", "cat", "##alog"]
    tokens = WordPieceAligner(vocabulary, lowercase=True)("The new Zorblax valley catalog")
    tags = TagSet(["LOC"], "BIO")
    dictionary = Dictionary({"Zorblax valley": "LOC", "cat": "LOC", "e": "LOC"})
    allowed = dictionary.allowed_labels(tokens, tags)
    assert allowed.shape == (len(tokens.ids), 3) == (7, 3)
    decoder = ViterbiDecoder.from_labels(tags.names, "BIO")
    nodes = np.tile([1.0, 0.0, 0.0], (7, 1))
    path = decoder.decode(nodes, tokens.mask, allowed_labels=allowed)
    spans = tags.decode(tokens.pick(path))
    assert tokens.restore(spans) == [(8, 22, "LOC")]  # "cat" and "e" would cut words
    bonus = tokens.pick(dictionary.bonus(tokens, tags, 2.0))
    np.testing.assert_array_equal(bonus, [[0] * 3, [0] * 3, [0, 1, 0], [0, 0, 1], [0] * 3])
    assert not recwarn.list


def test_types_do_not_matter_to_a_segmentation():
    places, words = Dictionary({"显示屏": "LOC"}), Dictionary(["显示屏"])
    for tags in (WORDS, TagSet([""], "BMES")):
        np.testing.assert_array_equal(
            places.allowed_labels(TEXT, tags), words.allowed_labels(TEXT, tags)
        )
        assert words.bonus(TEXT, tags, 1.0).sum() == 1


def test_texts_without_characters():
    dictionary = Dictionary(["量子点"])
    assert dictionary.bonus("", WORDS, 1.0).shape == (0, 4)
    assert dictionary.allowed_labels("", WORDS).shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Dictionary(["a", ""]), ValueError, "one character or more.*Received: ''"),
        (lambda: Dictionary(["a\n"]), ValueError, r"without blanks .*'a\\n'. `str.strip`"),
        (lambda: Dictionary([7]), ValueError, "Expected words.*Received: 7"),
        (lambda: Dictionary("abc"), TypeError, "Expected a list of words"),
        (
            lambda: Dictionary(["a"]).bonus("a", TagSet(["X"], "BIO"), 1.0),
            ValueError,
            r"words of the types \['X'\].*type \['None'\].*such as \{word: 'X'\}",
        ),
        (
            lambda: Dictionary({"a": "Z"}).allowed_labels("b", TagSet(["X"], "BIO")),
            ValueError,
            r"type \['Z'\]",
        ),
        (lambda: Dictionary(["a"]).bonus("a", WORDS, 0), ValueError, "a weight above 0"),
        (lambda: Dictionary(["a"]).bonus("a", WORDS, np.inf), ValueError, "Received: inf"),
    ],
)
def test_errors_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
