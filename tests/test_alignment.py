"""Text to tokens to labels to spans, for every string; ids equal to those of Keras-Hub."""

import pickle
import unicodedata
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_crf import corpora, tokenized_text
from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.tokenized_text import stitch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = (
    SPECIAL + "play ##ing un ##able e ##e s ##s 1 ##1 2 . , ! [ ] cls sep 天 空 - fi ##fi".split()
)

ODD_TEXTS = [
    "",
    " \t\n",
    "\u3000天\u3000空\u3000",
    "天\u200b空\ufeff\u00ad",
    "e\u0301te\u0301 ete\u0301",
    "été",
    "👩\u200d👩\u200d👧 🇨🇳 ❤\ufe0f",
    "𠀀𪜀\U0010ffff",
    "Straße GROẞ",
    "İstanbul ıi",
    "１２ａＡ％。",
    "ﬁne ﷺ ㎏ ½ …",
    "각\u1100\u1161\u11a8",
    "[CLS] [SEP] [UNK]##ing",
    "a" * 300 + "é" * 60 + "\ufe0f" * 500 + "é",
    "\ufe0fe",
    "\x00\x1f\x7f\x85\u2028",
]


@pytest.fixture(autouse=True)
def _nothing_is_lost_yet(monkeypatch):
    monkeypatch.setattr(tokenized_text, "_lost", Counter())


@pytest.fixture(autouse=True)
def _unknown_tokens_are_expected():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*tokens are unknown.*")
        yield


@pytest.fixture(scope="module", params=["characters", "pieces", "cased pieces"])
def align(request):
    if request.param == "characters":
        return CharacterAligner(PIECES)
    return WordPieceAligner(PIECES, lowercase=request.param == "pieces")


def pieces_of(tokens):
    return [tokens.text[start:end] for start, end in tokens.offsets.tolist()]


# --- character mode


def assert_one_token_per_character(tokens):
    n = len(tokens.text)
    assert tokens.ids.shape == tokens.mask.shape == (n,)
    assert tokens.mask.all()
    assert tokens.offsets.tolist() == [[i, i + 1] for i in range(n)]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_have_one_token_per_character(text):
    assert_one_token_per_character(CharacterAligner(PIECES)(text))


@given(st.text())
def test_every_text_has_one_token_per_character(text):
    assert_one_token_per_character(CharacterAligner(PIECES)(text))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("天", "天"),
        ("E", "e"),  # lower case
        ("１", "1"),  # full width
        ("Ｅ", "e"),  # full width, then lower case
        ("ﬁ", "fi"),  # one entry of the vocabulary for one character
        ("é", "[UNK]"),
        (" ", "[UNK]"),
        ("\u200b", "[UNK]"),
    ],
)
def test_characters_are_looked_up_in_their_forms(text, expected):
    assert CharacterAligner(PIECES)(text).ids.tolist() == [PIECES.index(expected)]


def test_upper_case_is_kept_where_the_vocabulary_has_it():
    assert CharacterAligner(["[UNK]", "a", "A"])("aA").ids.tolist() == [1, 2]


def test_blanks_can_have_a_token():
    ids = CharacterAligner([*SPECIAL, "a"], blank="[MASK]")("a a\u3000?").ids.tolist()
    assert ids == [5, 4, 5, 4, 1]


# --- word pieces


@pytest.mark.parametrize(
    "text, pieces, mask",
    [
        ("playing!", ["play", "ing", "!"], [1, 0, 1]),
        (" Unable  天空", ["Un", "able", "天", "空"], [1, 0, 1, 1]),
        ("xyz, play", ["xyz", ",", "play"], [1, 1, 1]),
        ("ß１1", ["ß", "ß", "１", "1"], [1, 0, 0, 0]),
        ("e\ufe0f e", ["e\ufe0f", "e"], [1, 1]),
        ("a\u200bb", ["a", "b"], [1, 1]),
        ("[SEP]", ["[", "SEP", "]"], [1, 1, 1]),
    ],
)
def test_pieces_carry_their_offsets(text, pieces, mask):
    tokens = WordPieceAligner(PIECES, lowercase=True)(text)
    assert pieces_of(tokens) == pieces
    assert tokens.mask.tolist() == mask


def test_words_over_a_hundred_bytes_are_unknown():
    align = WordPieceAligner(PIECES)
    assert len(align("e" * 100).ids) == 100
    assert align("e" * 101).ids.tolist() == [PIECES.index("[UNK]")]
    assert align("e" * 101).offsets.tolist() == [[0, 101]]


def test_letters_that_fold_together_are_covered_together():
    tokens = WordPieceAligner([*SPECIAL, "x", "##é"], lowercase=True)("xe\u0301")
    assert tokens.ids.tolist() == [5, 6]
    assert tokens.offsets.tolist() == [[0, 1], [1, 3]]


def test_literal_special_tokens_stay_text(align):
    special = {PIECES.index(token) for token in ("[CLS]", "[SEP]", "[PAD]", "[MASK]")}
    assert not special & set(align("[CLS] a [SEP][MASK] [PAD]").ids.tolist())


def assert_sound(tokens):
    starts, ends = tokens.offsets[:, 0], tokens.offsets[:, 1]
    assert tokens.ids.shape == tokens.mask.shape == starts.shape
    assert (np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all()
    assert ((starts >= 0) & (starts < ends) & (ends <= len(tokens.text))).all()
    words = tokens.label_offsets()
    assert (words[1:, 0] >= words[:-1, 1]).all()  # words never overlap
    assert len(words) == tokens.mask.sum()


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_have_sound_offsets(align, text):
    assert_sound(align(text))


@given(text=st.text())
def test_every_text_has_sound_offsets(align, text):
    assert_sound(align(text))


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_characters_between_words_are_never_lost_letters(text):
    tokens = WordPieceAligner(PIECES, lowercase=True)(text)
    covered = {i for start, end in tokens.offsets.tolist() for i in range(start, end)}
    outside = {text[i] for i in range(len(text)) if i not in covered}
    assert all(char == " " or unicodedata.category(char) in ("Cc", "Cf") for char in outside)


# --- special tokens, given words


def test_special_tokens_are_masked_and_empty(align):
    tokens = align(" 天空 ", add_special=True)
    assert tokens.ids[[0, -1]].tolist() == [PIECES.index("[CLS]"), PIECES.index("[SEP]")]
    assert not tokens.mask[[0, -1]].any()
    assert (tokens.offsets[[0, -1], 0] == tokens.offsets[[0, -1], 1]).all()
    plain = align(" 天空 ")
    assert tokens.ids[1:-1].tolist() == plain.ids.tolist()
    assert tokens.label_offsets().tolist() == plain.label_offsets().tolist()


def test_special_tokens_around_nothing(align):
    tokens = align("", add_special=True)
    assert tokens.offsets.tolist() == [[0, 0], [0, 0]]
    assert tokens.label_offsets().shape == (0, 2)


def test_given_words_have_one_label_each():
    tokens = WordPieceAligner(PIECES, lowercase=True).words(["Playing", "\u200b", "a-b", "1"])
    assert tokens.text == "Playing \u200b a-b 1"
    assert pieces_of(tokens) == ["Play", "ing", "\u200b", "a", "-", "b", "1"]
    assert tokens.mask.tolist() == [1, 0, 1, 1, 0, 0, 1]


@given(
    words=st.lists(st.text(min_size=1, max_size=5), max_size=6), blank=st.sampled_from(["", " "])
)
def test_given_words_are_the_label_offsets(align, words, blank):
    tokens = align.words(words, separator=blank, add_special=True)
    assert tokens.text == blank.join(words)
    assert [tokens.text[start:end] for start, end in tokens.label_offsets()] == words


# --- labels and spans


def test_blanks_at_the_ends_of_a_span_are_left_out():
    tokens = WordPieceAligner(PIECES, lowercase=True)("天  playing  空")
    aligned = tokens.align([(2, 12, "X")])
    assert aligned == ([(1, 2, "X")], [])
    assert tokens.restore(aligned.spans) == [(3, 10, "X")]


def test_spans_that_cut_a_word_are_reported():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    spans = [(0, 4, "A"), (3, 10, "B"), (7, 9, "C"), (9, 10, "D")]
    with pytest.warns(UserWarning, match=r"3 span\(s\) begin .* A 'play' at \(0, 4\)"):
        aligned = tokens.align(spans)
    assert aligned.spans == [(1, 2, "D")]
    assert aligned.lost == spans[:3]


def test_lost_spans_are_counted_over_all_texts():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(120):
            tokens.align([(0, 4, "X")])
    counts = [str(warning.message).partition(" ")[0] for warning in caught]
    assert counts == ["1", "10", "100"]


def test_a_lost_span_of_blanks_is_said_to_be_one():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    with pytest.warns(UserWarning, match=r"1 span\(s\) .* hold no word \(1 hold blanks only\)"):
        assert tokens.align([(7, 9, "X")]).lost == [(7, 9, "X")]


def test_spans_without_labels():
    tokens = CharacterAligner(PIECES)("天空")
    aligned = tokens.align([(0, 2)])
    assert aligned.spans == [(0, 2, None)]
    assert tokens.restore([(0, 2)]) == [(0, 2, None)]


def test_labels_are_placed_at_first_pieces():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing 空", add_special=True)
    placed = tokens.place([7, 8])
    assert placed.tolist() == [-100, 7, -100, 8, -100]
    assert placed.dtype == np.int32
    assert tokens.place([7, 8], fill=0).tolist() == [0, 7, 0, 8, 0]
    padded = np.arange(20).reshape(10, 2)
    assert tokens.pick(padded).tolist() == [[2, 3], [6, 7]]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: t.align([(1, 4, "X")]), r"<= 2, the length of the text. Received: span \(1, 4"),
        (lambda t: t.align([(1, 1, "X")]), r"start < end"),
        (lambda t: t.align([(0.0, 1.0, "X")]), r"with whole numbers. Received: \(0.0, 1.0"),
        (lambda t: t.restore([(0, 3, "X")]), r"last <= 2, the number of labels"),
        (lambda t: t.place([1]), r"Expected 2 labels.*Received: 1 for '天空'"),
        (lambda t: t.pick(np.zeros(1)), r"values for 2 tokens. Received: shape \(1,\)"),
    ],
)
def test_bad_positions_are_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call(CharacterAligner(PIECES)("天空"))


# --- windows


@given(
    length=st.integers(0, 60),
    max_length=st.integers(4, 20),
    overlap=st.integers(0, 20),
    special=st.booleans(),
)
def test_stitched_windows_give_the_whole_text(length, max_length, overlap, special):
    align = CharacterAligner(PIECES)
    tokens = align("".join(map(chr, range(0x4E00, 0x4E00 + length))))
    overlap = min(overlap, max_length - 2 * special - 1)
    windows = align.windows(tokens, max_length, overlap, add_special=special)
    assert all(len(window.tokens.ids) <= max_length for window in windows)
    seen = [np.pad(window.tokens.offsets, [(0, 3), (0, 0)]) for window in windows]
    assert stitch(windows, seen).tolist() == tokens.offsets.tolist()
    shared = [a.stop - b.start for a, b in zip(windows, windows[1:], strict=False)]
    assert all(count >= overlap for count in shared)


@given(length=st.integers(1, 60), max_length=st.integers(1, 20), overlap=st.integers(0, 19))
def test_each_token_comes_from_where_it_is_farthest_from_an_edge(length, max_length, overlap):
    align = CharacterAligner(PIECES)
    overlap = min(overlap, max_length - 1)
    windows = align.windows(align("天" * length), max_length, overlap, add_special=False)

    def distance(t):
        """To the nearest edge; the ends of the text are none."""
        sides = []
        for window in windows:
            left = t - window.start if window.start else length
            right = window.stop - 1 - t if window.stop < length else length
            sides.append(min(left, right) if window.start <= t < window.stop else -1)
        return sides

    values = [np.full(window.stop - window.start, i) for i, window in enumerate(windows)]
    for t, chosen in enumerate(stitch(windows, values)):
        assert distance(t)[chosen] == max(distance(t))


@given(data=st.data(), text=st.text("e天 \u200b-", max_size=40), special=st.booleans())
def test_labels_of_windows_are_slices_of_those_of_the_text(align, data, text, special):
    tokens = align(text)
    labels = np.arange(tokens.mask.sum())
    placed = tokens.place(labels)
    windows = align.windows(tokens, data.draw(st.integers(5, 20)), 2, add_special=special)
    for window in windows:
        again = window.tokens.place(window.labels(placed))
        inner = again[window.lead : len(again) - window.lead]
        assert inner.tolist() == placed[window.start : window.stop].tolist()
        assert (np.delete(again, np.s_[window.lead : len(again) - window.lead]) == -100).all()


@pytest.mark.filterwarnings("ignore:.*begin or end inside a word")
@given(data=st.data(), text=st.text("e天 -", min_size=1, max_size=30))
def test_a_window_aligns_the_spans_that_are_whole_in_it(align, data, text):
    tokens = align(text)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    if start == end:
        return
    whole = tokens.align([(start, end)])
    for window in align.windows(tokens, data.draw(st.integers(5, 12)), 2):
        before = int(tokens.mask[: window.start].sum())
        here = window.tokens.align([(start, end)]).spans
        moved = [(first + before, last + before, None) for first, last, _ in here]
        assert moved in ([], whole.spans)
        inside = tokens.part(window.start, window.stop).extent
        assert bool(here) == (bool(whole.spans) and inside[0] <= start and end <= inside[1])


def test_a_span_cut_by_a_window_is_lost_there():
    align = CharacterAligner(PIECES)
    tokens, span = align("天" * 20), (5, 15, "PER")
    windows = align.windows(tokens, 12, 4)
    with pytest.warns(UserWarning, match=r"reach beyond a window.* train with `Window.labels`"):
        aligned = [window.tokens.align([span]) for window in windows]
    assert all(found == ([], [span]) for found in aligned)
    assert align.windows(tokens, 17, 4)[0].tokens.align([span]).spans == [span]


def test_window_labels_want_the_whole_text():
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    with pytest.raises(ValueError, match="each token of the whole text, 20 or more. Received: 10"):
        windows[-1].labels(np.zeros(10))


def test_a_short_text_is_one_window():
    align = WordPieceAligner(PIECES, lowercase=True)
    (window,) = align.windows(align("playing 天空"), 512)
    whole = align("playing 天空", add_special=True)
    assert window.tokens.ids.tolist() == whole.ids.tolist()
    assert (window.start, window.stop, window.lead) == (0, 4, 1)


def test_an_entity_across_a_window_border_is_found():
    align = CharacterAligner(PIECES)
    text = "空" * 9 + "天" * 4 + "空" * 9
    windows = align.windows(align(text), max_length=12, overlap=4)
    # A stand-in for a model: it scores 天 one, but sees nothing at the edges of a window.
    scores = [(window.tokens.ids == PIECES.index("天")).astype(float) for window in windows]
    for row, window in zip(scores, windows, strict=True):
        row[: window.lead + 1] = row[-window.lead - 1 :] = 0
    assert np.flatnonzero(stitch(windows, scores)).tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize("max_length, overlap", [(10, 8), (10, -1), (2, 0)])
def test_windows_that_cannot_move_are_refused(max_length, overlap):
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="Expected 0 <= overlap < tokens in a window"):
        align.windows(align("天" * 30), max_length, overlap)


def test_windows_of_a_text_with_special_tokens_are_refused():
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="without special tokens.* Received: first token 2 "):
        align.windows(align("天空", add_special=True), 8)


def test_stitch_wants_one_array_per_window():
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="1 windows and 2 arrays"):
        stitch(align.windows(align("天"), 9), [np.zeros(3)] * 2)
    with pytest.raises(ValueError, match="0 windows and 0 arrays"):
        stitch([], [])


@pytest.mark.parametrize("size", [0, 5, 11])
def test_stitch_refuses_arrays_that_are_too_short(size):
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    values = [np.zeros((12, 3)) for _ in windows]
    values[1] = np.zeros((size, 3))
    with pytest.raises(ValueError, match=rf"12 tokens of window 1.* shape \({size}, 3\)"):
        stitch(windows, values)


def test_stitch_refuses_windows_of_several_texts():
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    for mixed in (windows * 2, windows[::-1], windows[1:]):
        with pytest.raises(ValueError, match="all windows of ONE text, in order"):
            stitch(mixed, [np.zeros((12, 3))] * len(mixed))


# --- vocabularies


def test_vocabularies_of_all_kinds(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    expected = CharacterAligner(PIECES)("天空").ids.tolist()
    for vocabulary in (path, str(path), {token: i for i, token in enumerate(PIECES)}):
        assert CharacterAligner(vocabulary)("天空").ids.tolist() == expected


def test_missing_special_tokens_are_named():
    with pytest.raises(ValueError, match=r"special token '\[UNK\]' in the vocabulary of 1 entries"):
        CharacterAligner(["a"])
    with pytest.raises(ValueError, match=r"special token '\[CLS\]'"):
        CharacterAligner(["[UNK]"])("a", add_special=True)
    assert CharacterAligner(["<unk>", "<s>", "</s>", "a"], None, "<unk>", "<s>", "</s>")(
        "a", add_special=True
    ).ids.tolist() == [1, 3, 2]
    assert CharacterAligner(PIECES).pad_id == 0


def test_blanks_are_no_unknown_tokens():
    align = CharacterAligner([*SPECIAL, *"playing"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        align("pl ay in g\u3000\t" * 20)


@pytest.mark.parametrize("text", [b"abc", None, 5, ["a"]])
def test_what_is_no_text_is_refused(align, text):
    with pytest.raises(ValueError, match="Expected one text, a str. Received: "):
        align(text)


@pytest.mark.parametrize("words, message", [(["a", ""], "one character or more"), ("ab", "'ab'")])
def test_what_are_no_words_is_refused(align, words, message):
    with pytest.raises(ValueError, match=message):
        align.words(words)


def test_a_set_is_no_vocabulary():
    with pytest.raises(ValueError, match="in the order of their ids. Received: a set"):
        CharacterAligner({"[UNK]", "a"})


@pytest.mark.parametrize("kind", [CharacterAligner, WordPieceAligner])
def test_many_unknown_tokens_are_warned_about_once(kind):
    align = kind(PIECES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        align("? ? ?")  # too few to judge
        kind(PIECES)("天空" * 20 + "? ? ? ")
    with pytest.warns(UserWarning, match=r"of the first \d+ tokens are unknown. Check"):
        align("? " * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        align("? " * 20)


def test_aligners_can_be_pickled(align):
    align("playing 天")
    again = pickle.loads(pickle.dumps(align))
    assert again("playing 空 é").ids.tolist() == align("playing 空 é").ids.tolist()


# --- equal to Keras-Hub


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip("keras_hub").tokenizers


@pytest.fixture(scope="module")
def real_texts(data):
    chinese = [s for s in corpora.read_words(data("sighan2005/pku_test_gold.utf8.gz"))]
    mixed = [s.text for s in corpora.read_cluener(data("cluener2020/dev.json.gz"))]
    english = [
        " ".join(sentence.tokens)
        for name in ("wnut17/emerging.dev.conll.gz", "bc5cdr/devel.tsv.gz")
        for sentence in corpora.read_conll(data(name))
    ]
    return ["".join(words) for words in chinese] + mixed + english[:3000]


@pytest.mark.parametrize(
    "name, lowercase",
    [("chinese", True), ("chinese", False), ("uncased", True), ("cased", False)],
)
def test_ids_equal_keras_hub(hub, bert_vocabulary, real_texts, name, lowercase):
    tokenizer = hub.BertTokenizer(bert_vocabulary(name), lowercase=lowercase)
    align = WordPieceAligner(tokenizer)
    for text, ids in zip(real_texts, tokenizer.tokenize(real_texts), strict=True):
        tokens = align(text)
        assert tokens.ids.tolist() == ids
        assert_sound(tokens)


@settings(max_examples=300)
@given(text=st.text() | st.text(alphabet="".join(ODD_TEXTS) + "Ae ##"), lowercase=st.booleans())
def test_ids_of_any_text_equal_keras_hub(hub, text, lowercase):
    # Characters newer than Python's tables may be punctuation to the tables of Keras-Hub.
    text = "".join(char for char in text if unicodedata.category(char) != "Cn")
    tokenizer = hub.BertTokenizer(PIECES, lowercase=lowercase)
    assert WordPieceAligner(tokenizer)(text).ids.tolist() == tokenizer.tokenize([text])[0]


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_is_split_as_by_keras_hub(hub, lowercase):
    tokenizer = hub.BertTokenizer(PIECES, lowercase=lowercase)
    align = WordPieceAligner(tokenizer)
    known = (chr(c) for c in range(0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs"))
    texts = [f"e{char}e" for i, char in enumerate(known) if i % 3 == 0]
    assert [align(text).ids.tolist() for text in texts] == tokenizer.tokenize(texts)


def test_settings_come_from_the_tokenizer(hub):
    tokenizer = hub.BertTokenizer(PIECES, lowercase=True)
    assert WordPieceAligner(tokenizer).lowercase
    assert not WordPieceAligner(tokenizer, lowercase=False).lowercase
    whole = hub.BertTokenizer(PIECES, split_on_cjk=False)
    assert WordPieceAligner(whole)("天空").ids.tolist() == whole.tokenize(["天空"])[0]
    with pytest.raises(ValueError, match="strip_accents=False. Received: strip_accents=True"):
        WordPieceAligner(hub.BertTokenizer(PIECES, strip_accents=True))
