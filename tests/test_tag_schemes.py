"""Tag schemes against truth tables, against each other, against seqeval and on real corpora."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_corpora import NER, needs_data, read_tags
from seqeval import scheme as seqeval_schemes
from seqeval.metrics.sequence_labeling import get_entities

from keras_crf.constraints import legal, reach
from keras_crf.spans import Span, word_spans
from keras_crf.tag_schemes import SCHEMES, TagSet

relaxed = settings(max_examples=60, deadline=None)  # a busy machine is no failure
TYPED = [name for name in SCHEMES if name != "SBME"]


def tag_set(scheme, types=("X", "Y")):
    return TagSet((), scheme) if scheme == "SBME" else TagSet(types, scheme)


# Rows: in front; columns: behind. + may follow, . may not. "^" and "$" are the ends of the text.
# The four letters of the last table are written as in BIOES.
TRUTH = {
    "BIO": """
               O  B-X I-X B-Y I-Y  $
        ^      +   +   .   +   .   +
        O      +   +   .   +   .   +
        B-X    +   +   +   +   .   +
        I-X    +   +   +   +   .   +
        B-Y    +   +   .   +   +   +
        I-Y    +   +   .   +   +   +""",
    "IOB1": """
               O  B-X I-X B-Y I-Y  $
        ^      +   .   +   .   +   +
        O      +   .   +   .   +   +
        B-X    +   +   +   .   +   +
        I-X    +   +   +   .   +   +
        B-Y    +   .   +   +   +   +
        I-Y    +   .   +   +   +   +""",
    "IOE1": """
               O  I-X E-X I-Y E-Y  $
        ^      +   +   +   +   +   +
        O      +   +   +   +   +   +
        I-X    +   +   +   +   +   +
        E-X    .   +   +   .   .   .
        I-Y    +   +   +   +   +   +
        E-Y    .   .   .   +   +   .""",
    "IOE2": """
               O  I-X E-X I-Y E-Y  $
        ^      +   +   +   +   +   +
        O      +   +   +   +   +   +
        I-X    .   +   +   .   .   .
        E-X    +   +   +   +   +   +
        I-Y    .   .   .   +   +   .
        E-Y    +   +   +   +   +   +""",
    "BIOES": """
               O  B-X I-X E-X S-X B-Y I-Y E-Y S-Y  $
        ^      +   +   .   .   +   +   .   .   +   +
        O      +   +   .   .   +   +   .   .   +   +
        B-X    .   .   +   +   .   .   .   .   .   .
        I-X    .   .   +   +   .   .   .   .   .   .
        E-X    +   +   .   .   +   +   .   .   +   +
        S-X    +   +   .   .   +   +   .   .   +   +
        B-Y    .   .   .   .   .   .   +   +   .   .
        I-Y    .   .   .   .   .   .   +   +   .   .
        E-Y    +   +   .   .   +   +   .   .   +   +
        S-Y    +   +   .   .   +   +   .   .   +   +""",
    "SBME": """
               s  b  m  e  $
        ^      +  +  .  .  +
        s      +  +  .  .  +
        b      .  .  +  +  .
        m      .  .  +  +  .
        e      +  +  .  .  +""",
}
TRUTH["BILOU"] = TRUTH["BIOES"].replace("E-", "L-").replace("S-", "U-")
TRUTH["BMES"] = TRUTH["BIOES"].replace("I-", "M-")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_truth_table(scheme):
    head, *rows = (line.split() for line in TRUTH[scheme].strip().splitlines())
    tags = tag_set(scheme)
    table = np.array([row[1:] for row in rows]) == "+"
    assert tags.names == head[:-1] == [row[0] for row in rows[1:]]
    np.testing.assert_array_equal(tags.allowed_transitions, table[1:, :-1])
    np.testing.assert_array_equal(tags.allowed_starts, table[0, :-1])
    np.testing.assert_array_equal(tags.allowed_ends, table[1:, -1])


def test_rows_are_in_front_and_columns_behind():
    tags = TagSet(["PER"], "BIO")
    allowed = tags.allowed_transitions
    assert not allowed[tags.ids["O"], tags.ids["I-PER"]]
    assert allowed[tags.ids["I-PER"], tags.ids["O"]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sequence_is_legal_exactly_if_it_is_the_spelling_of_its_own_reading(scheme):
    tags = tag_set(scheme)
    for length in range(4 if len(tags) > 5 else 5):
        for path in product(range(len(tags)), repeat=length):
            spans = tags.decode(path)
            legal = tags.encode(spans, length).tolist() == list(path)
            assert legal == (tags.check(path) == [])
            assert legal == by_arrays(tags, path)
            if legal:
                assert tags.decode(path, strict=True) == spans


def by_arrays(tags, path):
    steps = all(tags.allowed_transitions[i, j] for i, j in zip(path, path[1:], strict=False))
    return not path or bool(steps and tags.allowed_starts[path[0]] and tags.allowed_ends[path[-1]])


@st.composite
def span_lists(draw, types=("X", "Y")):
    """A length and spans that fit into it; for types=None words that cover it."""
    cuts = sorted(draw(st.sets(st.integers(1, 11), max_size=8)))
    pieces = list(zip([0, *cuts], [*cuts, 12], strict=True))
    if types is None:
        return 12, [Span(*piece) for piece in pieces]
    labels = draw(st.lists(st.sampled_from([None, *types]), min_size=len(pieces)))
    pairs = zip(pieces, labels, strict=False)
    return 12, [Span(*piece, label) for piece, label in pairs if label is not None]


@pytest.mark.parametrize("scheme", TYPED)
@relaxed
@given(case=span_lists(types=["PER-X", "組織"]))
def test_spans_survive_every_scheme(scheme, case):
    length, spans = case
    tags = TagSet(["PER-X", "組織"], scheme)
    ids = tags.encode(reversed(spans), length)
    assert ids.dtype == np.int32 and ids.shape == (length,)
    assert tags.decode(ids) == tags.decode(ids, strict=True) == spans
    assert tags.decode(tags.to_names(ids)) == spans
    assert tags.check(ids) == []


@relaxed
@given(case=span_lists(types=None))
def test_words_survive_segmentation(case):
    length, words = case
    tags = TagSet(scheme="SBME")
    ids = tags.encode([word[:2] for word in words], length)
    assert tags.decode(ids) == tags.decode(ids, strict=True) == words


@relaxed
@given(case=span_lists(), source=st.sampled_from(TYPED), target=st.sampled_from(TYPED))
def test_conversion_equals_spelling_in_the_other_scheme(case, source, target):
    length, spans = case
    source, target = tag_set(source), tag_set(target)
    ids = source.encode(spans, length)
    np.testing.assert_array_equal(source.convert(ids, target), target.encode(spans, length))
    names = source.convert(source.to_names(ids), target.scheme)
    assert names == target.to_names(target.encode(spans, length))


def test_conversion_by_example():
    iob1 = TagSet(["PER", "LOC"], "IOB1")
    names = ["I-PER", "I-PER", "B-PER", "O", "I-LOC"]
    assert iob1.convert(names, "IOB2") == ["B-PER", "I-PER", "B-PER", "O", "B-LOC"]
    assert iob1.convert(names, "BILOU") == ["B-PER", "L-PER", "U-PER", "O", "U-LOC"]
    assert iob1.convert(names, "IOE1") == ["I-PER", "E-PER", "I-PER", "O", "I-LOC"]
    bio = TagSet(["PER"], "BIO")
    assert bio.convert([-1, 1, -100, 2, 0, -1], "BIOES").tolist() == [-1, 1, -100, 3, 0, -1]


@pytest.mark.parametrize("scheme", TYPED)
@relaxed
@given(case=span_lists(types=None))
def test_words_are_bare_letters_of_every_other_scheme(scheme, case):
    length, words = case
    sbme, bare = TagSet(scheme="SBME"), TagSet([""], scheme)
    ids = sbme.encode(words, length)
    assert sbme.convert(ids, scheme).tolist() == bare.encode(words, length).tolist()
    assert bare.convert(sbme.convert(ids, bare), "SBME").tolist() == ids.tolist()
    assert (
        bare.encode([(*word[:2], "") for word in words], length).tolist()
        == bare.encode(words, length).tolist()
    )


def test_outside_of_bare_letters_is_padding_in_segmentation():
    bare = TagSet([""], "BIO")
    assert bare.convert(["B", "I", "O", "B"], "SBME") == ["b", "e", None, "s"]
    assert TagSet(scheme="SBME").convert(["b", "e", None, "s"], "BIO") == ["B", "I", None, "B"]


# The lenient reading


@pytest.mark.parametrize("scheme", SCHEMES)
@relaxed
@given(data=st.data())
def test_lenient_reading_never_fails_and_gives_each_tagged_position_to_one_span(scheme, data):
    tags = tag_set(scheme)
    ids = data.draw(st.lists(st.sampled_from([-100, -1, *range(len(tags))]), max_size=12))
    spans = tags.decode(np.array(ids, "int64"))
    owners = [sum(start <= i < end for start, end, _ in spans) for i in range(len(ids))]
    for i, owned in zip(ids, owners, strict=True):
        assert i < 0 or owned == (tags.names[i] != "O")
    if scheme != "SBME":
        assert set(tags.decode(ids, strict=True)) <= set(spans)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "IOE1", "IOE2", "BIOES"])
@relaxed
@given(data=st.data())
def test_lenient_reading_equals_conlleval_as_seqeval_states_it(scheme, data):
    tags = tag_set(scheme)
    names = data.draw(st.lists(st.sampled_from(tags.names), max_size=12))
    expected = [(start, last + 1, label) for label, start, last in get_entities(names)]
    assert [tuple(span) for span in tags.decode(names)] == expected


@pytest.mark.parametrize("scheme", ["BILOU", "BMES"])
@relaxed
@given(data=st.data())
def test_lenient_reading_does_not_depend_on_the_names_of_the_letters(scheme, data):
    tags, bioes = tag_set(scheme), tag_set("BIOES")
    ids = data.draw(st.lists(st.integers(0, 8), max_size=12))
    assert tags.decode(ids) == bioes.decode(ids)
    assert tags.decode(ids, strict=True) == bioes.decode(ids, strict=True)


@relaxed
@given(st.text("sbme", max_size=12))
def test_lenient_words_are_those_of_bert4keras(tags):
    words = []
    for tag in tags:
        if tag in "sb" or not words:
            words.append("")
        words[-1] += tag
    assert TagSet(scheme="SBME").decode(tags) == word_spans(words)


# The strict reading


@pytest.mark.parametrize(
    "scheme, reference", [("BIO", "IOB2"), ("IOE2",) * 2, ("BIOES", "IOBES"), ("BILOU",) * 2]
)
@relaxed
@given(data=st.data())
def test_strict_reading_equals_seqeval(scheme, reference, data):
    tags = tag_set(scheme)
    names = data.draw(st.lists(st.sampled_from(tags.names), max_size=12))
    entities = seqeval_schemes.Tokens(names, getattr(seqeval_schemes, reference)).entities
    expected = [(entity.start, entity.end, entity.tag) for entity in entities]
    assert [tuple(span) for span in tags.decode(names, strict=True)] == expected


def test_strict_reading_drops_a_misspelled_span_as_a_whole():
    iob1 = TagSet(["X"], "IOB1")
    names = ["O", "B-X", "I-X", "O", "I-X", "B-X"]
    assert iob1.decode(names, strict=True) == [(4, 5, "X"), (5, 6, "X")]
    assert TagSet(scheme="SBME").decode("ebmsbe", strict=True) == [(3, 4, None), (4, 6, None)]


# Padding


def test_padding_is_taken_out_before_reading():
    bio = TagSet(["PER"], "BIO")
    assert bio.decode([-1, 1, -100, 2, 0, 1, -1]) == [(1, 4, "PER"), (5, 6, "PER")]
    assert bio.decode([-1, -1]) == bio.decode([]) == []
    assert TagSet(scheme="SBME").decode([-1, 1, 3, -1, 0, -1]) == [(1, 3, None), (4, 5, None)]


def test_padding_has_no_place_among_illegal_pairs():
    bio = TagSet(["PER"], "BIO")
    assert bio.check([-1, 1, -1, 2]) == []
    assert [place.index for place in bio.check([-1, 0, -1, 2])] == [3]
    assert bio.to_names([-1, 1]) == [None, "B-PER"]
    assert bio.to_ids([None, "B-PER"]).tolist() == [-100, 1]


def test_a_position_in_no_word_is_padding():
    tags = TagSet(scheme="SBME")
    ids = tags.encode([(0, 2), (3, 4)], 5)
    assert ids.tolist() == [1, 3, -100, 0, -100]
    assert tags.decode(ids) == [(0, 2, None), (3, 4, None)]


# Check


def test_check_names_place_pair_and_reason():
    tags = TagSet(["PER", "LOC"], "BIOES")
    found = tags.check(["I-PER", "E-PER", "B-LOC", "O", "B-LOC"])
    assert [(place.index, place.pair) for place in found] == [
        (0, (None, "I-PER")),
        (3, ("B-LOC", "O")),
        (4, ("B-LOC", None)),
    ]
    assert found[0].reason == "I-PER may not begin a span here, BIOES needs B or S"
    assert found[1].reason == "B-LOC may not end a span here, BIOES needs E or S"
    assert TagSet(["PER"], "IOB1").check(["O", "B-PER"])[0].reason.endswith("IOB1 needs I")


def test_check_corpus_counts_sequences_and_places_of_names_or_ids():
    tags = TagSet(["PER"], "BIO")
    corpus = [["I-PER", "O", "I-PER"], ["O", "I-PER"], ["B-PER"], []]
    expected = {(None, "I-PER"): 1, ("O", "I-PER"): 2}
    found = tags.check_corpus(corpus)
    assert found.pairs == expected
    assert (found.sequences, found.illegal_sequences, found.places) == (4, 2, 3)
    assert tags.check_corpus(tags.to_ids(names) for names in corpus) == found
    assert str(found).splitlines() == [
        "2 of 4 sequences are illegal, at 3 places",
        "       2  O -> I-PER",
        "       1  border -> I-PER",
    ]


def test_check_corpus_names_the_sequence_of_an_unknown_tag():
    with pytest.raises(ValueError, match=r"Sequence 1: Unknown tag 'B-LOC' at position 2"):
        TagSet(["PER"], "BIO").check_corpus([["O"], ["O", "O", "B-LOC"]])


# From tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_from_tags_finds_the_scheme_it_was_spelled_in(scheme):
    tags = tag_set(scheme)
    labels = [None] * 4 if scheme == "SBME" else ["X", "X", "Y", "Y"]
    pieces = zip([0, 3, 4, 6], [3, 4, 6, 9], labels, strict=True)
    spans, length = list(pieces), 9 if scheme == "SBME" else 11
    names = tags.to_names(tags.encode(spans, length))
    found = TagSet.from_tags(iter([names, names[:0]]))
    assert found == tags
    assert f"{scheme} 0" in found.reason


def test_from_tags_tolerates_some_illegal_places():
    corpus = [["B-X", "I-X", "O"]] * 5 + [["O", "I-X"]]
    found = TagSet.from_tags(corpus)
    assert found.scheme == "BIO"
    assert "BIO 1" in found.reason and "IOB1 5" in found.reason


def test_from_tags_refuses_one_sequence_that_is_no_corpus():
    with pytest.raises(ValueError, match="Expected a corpus"):
        TagSet.from_tags(["O", "B-PER", "I-PER"])


def test_from_tags_reads_separators_and_bare_letters():
    found = TagSet.from_tags([["B_PER-NAM", "I_PER-NAM", "O"]])
    assert (found.types, found.separator) == (("PER-NAM",), "_")
    assert found.names == ["O", "B_PER-NAM", "I_PER-NAM"]
    assert TagSet.from_tags([["B", "I", "O"]]) == TagSet([""], "BIO")
    assert TagSet.from_tags(["SBEBME"]) == TagSet(scheme="SBME")
    assert TagSet.from_tags([list("SBEOBME")]) == TagSet([""], "BMES")


def test_names_are_understood_in_other_spellings():
    tags = TagSet(["PER.NAM", "組-織"], "BIO")
    assert tags.to_ids(["B_PER.NAM", "I-組-織", "b-PER.NAM", "O"]).tolist() == [1, 4, 1, 0]
    assert TagSet(scheme="SBME").to_ids("SbmE").tolist() == [0, 1, 2, 3]


# Config, names, errors


@pytest.mark.parametrize("scheme", SCHEMES)
def test_config_goes_through_json(scheme):
    tags = tag_set(scheme)
    copy = TagSet.from_config(json.loads(json.dumps(tags.get_config())))
    assert copy == tags and copy.names == tags.names
    assert eval(repr(tags)) == tags
    assert len({tags, copy}) == 1


@pytest.mark.parametrize("separator", ["-", "_"])
def test_separators_that_names_are_read_with(separator):
    tags = TagSet(["A-B"], "BIO", separator)
    assert tags.names == ["O", f"B{separator}A-B", f"I{separator}A-B"]
    with pytest.raises(ValueError, match="Unknown tag '!!!' at position 0"):
        tags.to_ids(["!!!"])


def test_order_of_ids_is_that_of_bert4keras():
    assert TagSet(["LOC", "PER"]).names == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert TagSet(scheme="SBME").ids == {"s": 0, "b": 1, "m": 2, "e": 3}
    assert TagSet(["X"], "iob2") == TagSet(["X"], "BIO")


def test_a_tag_set_cannot_be_changed_through_its_arrays():
    tags = TagSet(["X"], "BIO")
    tags.allowed_transitions[:] = True
    assert tags.check(["O", "I-X"])


BIO = TagSet(["PER", "LOC"], "BIO")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: BIO.decode(["O", "B-ORG"]), "'B-ORG' at position 1.*B-PER"),
        (lambda: BIO.decode([0, 0, 5]), "5 at position 2"),
        (lambda: BIO.decode([[0, 1], [0, 1]]), r"ONE sequence.*\[\[0, 1\], "),
        (lambda: BIO.decode([["O"], ["O", "O"]]), "Loop over the sequences"),
        (lambda: BIO.decode(np.zeros((2, 3), int)), "ONE sequence"),
        (lambda: BIO.decode([0.5]), "whole numbers"),
        (lambda: BIO.encode([(2, 9, "PER")], 8), r"\(2, 9, 'PER'\).*end <= 8"),
        (lambda: BIO.encode([(2, 2, "PER")], 8), r"\(2, 2, 'PER'\) is empty"),
        (lambda: BIO.encode([(-1, 2, "PER")], 8), "outside the text"),
        (lambda: BIO.encode([(0, 3, "PER"), (2, 4, "LOC")], 8), "overlap at position 2"),
        (
            lambda: BIO.encode([(0, 3, "ORG")], 8),
            r"\(0, 3, 'ORG'\).*expected one of \['PER', 'LOC'\]",
        ),
        (lambda: BIO.encode([(0, 3)], 8), r"\(0, 3, None\).*expected one of \['PER', 'LOC'\]"),
        (lambda: BIO.convert(["B-PER"], TagSet(["LOC"], "BIOES")), r"expected one of \['LOC'\]"),
        (lambda: BIO.convert(["B-PER"], "SBME"), "Segmentation"),
        (lambda: TagSet(["PER"], "IOB"), "'IOB', expected one of BIO"),
        (lambda: TagSet("PER"), "list of different names"),
        (lambda: TagSet(["PER", "PER"]), "list of different names"),
        (lambda: TagSet([], "BIO"), "every other scheme one or more"),
        (lambda: TagSet(["PER"], "BIO", "+"), r"""separator "-" or "_". Received: '\+'"""),
        (lambda: TagSet(["PER"], "BIO", ""), "separator"),
        (lambda: TagSet({"PER", "LOC"}), "that of a set changes from run to run"),
        (lambda: TagSet(frozenset({"PER"})), "that of a set changes from run to run"),
        (lambda: TagSet([1, 2]), r"different names.*Received: \(1, 2\)"),
        (lambda: TagSet(b"PER"), "list of different names"),
        (lambda: BIO.encode([(0,)], 8), r"Expected a span \(start, end, label\).*\(0,\)"),
        (lambda: BIO.encode([(0, 1, "PER", 2)], 8), r"Expected a span.*'PER', 2\)"),
        (lambda: BIO.encode([(0.0, 1.0, "PER")], 8), r"whole numbers. Received: \(0.0"),
        (lambda: BIO.encode(["PER"], 8), r"Expected a span .* Received: 'PER'"),
        (lambda: BIO.decode([b"O", b"B-PER"]), "decode bytes"),
        (lambda: TagSet.from_tags([]), "No scheme shows: all tags are O"),
        (lambda: TagSet.from_tags([["O"], ["O", "PER"]]), "'PER' in sequence 1 at position 1"),
        (lambda: TagSet.from_tags([["O", "O"]]), "No scheme"),
        (lambda: TagSet.from_tags([["B-X", "Q-X"]]), r"\['B', 'Q'\]"),
    ],
)
def test_errors_say_what_where_and_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Labels in any order, and how far they reach


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legality_follows_the_order_of_the_labels(scheme, rng):
    tags = tag_set(scheme)
    for size in range(1, len(tags) + 1):
        ids = rng.permutation(len(tags))[:size]
        transitions, starts, ends = legal([tags.names[i] for i in ids], scheme)
        for i, j in product(range(size), repeat=2):
            assert transitions[i, j] == tags.allowed_transitions[ids[i], ids[j]]
        np.testing.assert_array_equal(starts, tags.allowed_starts[ids])
        np.testing.assert_array_equal(ends, tags.allowed_ends[ids])


def test_spellings_of_labels():
    expected = legal(["O", "B-PER", "I-PER"], "BIO")
    for labels, scheme in ((["o", "b_PER", "I_PER"], "iob2"), (("O", "B", "I"), "BIO")):
        for array, same in zip(legal(labels, scheme), expected, strict=True):
            np.testing.assert_array_equal(array, same)
    words = legal("BMES", "SBME")
    for array, same in zip(legal("BMES", "BMES"), words, strict=True):
        np.testing.assert_array_equal(array, same)
    assert words.transitions[0].tolist() == [False, True, True, False]


def test_a_border_is_where_a_new_span_may_begin():
    words = TagSet(scheme="SBME")
    np.testing.assert_array_equal(words.borders, [[1, 1, 0, 0], [0] * 4, [0] * 4, [1, 1, 0, 0]])
    iob1 = TagSet(["X"], "IOB1")
    assert iob1.borders[iob1.ids["I-X"], iob1.ids["B-X"]]
    assert not iob1.borders[iob1.ids["I-X"], iob1.ids["I-X"]]


def test_reach_of_every_scheme():
    reaches = {scheme: reach(tag_set(scheme).allowed_transitions) for scheme in SCHEMES}
    assert reaches == dict.fromkeys(SCHEMES, 2) | {"BIOES": 3, "BILOU": 3, "BMES": 3}


def by_walking(allowed):
    walked = allowed.astype(int)
    for steps in range(1, (len(allowed) - 1) ** 2 + 2):
        if walked.all():
            return steps
        walked = np.minimum(walked @ allowed, 1)
    return None


def test_reach_is_what_walking_step_by_step_finds(rng):
    for density in rng.random(500):
        k = rng.integers(1, 7)
        allowed = rng.random((k, k)) < density
        assert reach(allowed) == by_walking(allowed)


def test_reach_at_its_limits():
    assert reach(np.ones((5, 5), bool)) == reach(np.ones((1, 1), bool)) == 1
    assert reach(np.zeros((1, 1), bool)) is None
    ring = np.roll(np.eye(6, dtype=bool), 1, axis=1)
    assert reach(ring) is None  # after d steps from one label there is one label only
    ring[5, 1] = True
    assert reach(ring) == 26  # no matrix of six labels needs more (Wielandt)


@pytest.mark.parametrize(
    "labels, scheme, message",
    [
        (["O", "B-X", "[CLS]"], "BIO", r"tags of BIO, such as .*'\[CLS\]' at position 2. Mask"),
        (["O", "B-X", "B_X"], "BIO", "different tags.*'B_X' at position 2"),
        (["O", "S-X"], "BIO", "'S-X' at position 1"),
        (["s", "O"], "SBME", "'O' at position 1"),
        (["O", None], "BIO", "None at position 1"),
        (["O", "B-X"], "IOB", "Unknown scheme 'IOB', expected one of"),
    ],
)
def test_labels_that_are_no_tags(labels, scheme, message):
    with pytest.raises(ValueError, match=message):
        legal(labels, scheme)


# Real corpora


@needs_data
@pytest.mark.parametrize("path", NER)
def test_real_corpora_have_the_entities_and_flaws_that_are_known(path):
    scheme, entities, illegal = NER[path]
    corpus = read_tags(path)
    tags = TagSet.from_tags(corpus)
    assert tags.scheme == scheme
    assert tags.check_corpus(corpus).places == illegal
    assert sum(len(tags.decode(sentence)) for sentence in corpus) == entities


@needs_data
def test_illegal_places_of_weibo_are_of_the_known_kinds():
    corpus = read_tags("weibo_ner/weiboNER_2nd_conll.train.gz")
    counts = TagSet.from_tags(corpus).check_corpus(corpus).pairs
    from_outside = sum(n for (left, _), n in counts.items() if left == "O")
    assert from_outside == 9
    assert counts["I-PER.NAM", "I-PER.NOM"] == 1


@needs_data
@pytest.mark.parametrize("scheme", ["BIO", "IOE1", "BIOES"])
def test_real_corpus_survives_conversion_and_back(scheme):
    corpus = read_tags("conll2003_en/eng.testb.gz")
    iob1 = TagSet.from_tags(corpus)
    there = TagSet(iob1.types, scheme)
    for sentence in corpus:
        assert there.convert(iob1.convert(sentence, there), iob1) == sentence
