"""Where the real corpora lie on this machine, if at all, and the tags in them."""

import functools
import gzip
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("KERAS_CRF_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="the real corpora are not here")


def read_lines(path):
    with gzip.open(FOLDER / path, "rt", encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\r\n") for line in lines]


@functools.cache
def read_tags(path):
    """The last column of a column file, one list per sentence."""
    sentences = [[]]
    for line in read_lines(path):
        if line.strip() and not line.startswith("-DOCSTART-"):
            sentences[-1].append(sys.intern(line.split()[-1]))
        elif sentences[-1]:
            sentences.append([])
    return [tags for tags in sentences if tags]


# file: scheme, entities as conlleval reads them, illegal places
NER = {
    "weibo_ner/weiboNER_2nd_conll.train.gz": ("BIO", 1895, 10),
    "weibo_ner/weiboNER_2nd_conll.dev.gz": ("BIO", 389, 0),
    "weibo_ner/weiboNER_2nd_conll.test.gz": ("BIO", 418, 4),
    "resume_ner/train.char.bmes.gz": ("BMES", 13440, 4),
    "resume_ner/dev.char.bmes.gz": ("BMES", 1497, 0),
    "resume_ner/test.char.bmes.gz": ("BMES", 1630, 0),
    "msra_ner/msra_train.dh.bio.gz": ("BIO", 74709, 6),
    "msra_ner/msra_test.dh.bio.gz": ("BIO", 6192, 11),
    "msra_ner/msra_test_bio.txt.gz": ("BIO", 6190, 0),
    "people_daily_ner/example.dev.gz": ("BIO", 3819, 0),
    "people_daily_ner/example.test.gz": ("BIO", 7707, 0),
    "conll2003_en/eng.train.gz": ("IOB1", 23499, 2),
    "conll2003_en/eng.testa.gz": ("IOB1", 5942, 0),
    "conll2003_en/eng.testb.gz": ("IOB1", 5648, 0),
    "wikigold/wikigold.conll.txt.gz": ("IOB1", 3558, 0),
    "wnut17/wnut17train.conll.gz": ("BIO", 1975, 0),
    "wnut17/emerging.dev.conll.gz": ("BIO", 836, 0),
    "wnut17/emerging.test.annotated.gz": ("BIO", 1079, 0),
    "bc5cdr/train.tsv.gz": ("BIO", 9385, 0),
    "bc5cdr/devel.tsv.gz": ("BIO", 9593, 0),
    "bc5cdr/test.tsv.gz": ("BIO", 9809, 0),
    "ncbi_disease/train.tsv.gz": ("BIO", 5134, 0),
    "ncbi_disease/devel.tsv.gz": ("BIO", 787, 0),
    "ncbi_disease/test.tsv.gz": ("BIO", 960, 0),
}
