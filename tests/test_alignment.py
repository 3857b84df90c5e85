"""Text to tokens to labels to spans, for every string; ids equal to those of Keras-Hub."""

import pickle
import unicodedata
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_crf import corpora
from keras_crf.alignment import CharacterAligner, WordPieceAligner

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
