"""Constraints, label weights, partial labels, spans and their probabilities, in the layer."""

import enumeration
import keras
import numpy as np
import pytest
from backend import BACKEND, compiled, numpy, tensor

from keras_crf import ConditionalRandomField, Dictionary, TagSet, linear_chain, scoring
from keras_crf.label_tables import LabelTables

INF = np.inf
BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def built(rng=None, labels=BIO, scheme="BIO", scale=1.0, **kwargs):
    crf = ConditionalRandomField(labels=labels, scheme=scheme, **kwargs)
    crf.build((None, None, len(labels)))
    if rng is not None:
        for weight in crf.weights:
            weight.assign(rng.normal(size=weight.shape) * scale)
    return crf


def legal_chains(crf, emissions, mask=None):
    """The oracle of each row, with minus infinity for what the scheme forbids."""
    transitions, starts, ends = (
        np.where(table, numpy(scores), -INF)
        for table, scores in zip(
            crf.constraints.tables(),
            (crf.transitions, crf.start_scores, crf.end_scores),
            strict=True,
        )
    )
    mask = np.ones(emissions.shape[:2], bool) if mask is None else mask
    return [
        enumeration.Chain(row, transitions, starts, ends, keep)
        for row, keep in zip(emissions, mask, strict=True)
    ]


# --- Decoding ---


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "IOE1", "IOE2", "BIOES", "BILOU", "BMES"])
def test_ten_thousand_decodes_hold_nothing_illegal(rng, scheme):
    """Random emissions that say anything; labels in shuffled order; gaps in the mask."""
    tags = TagSet(["X", "Y"], scheme)
    labels = [tags.names[i] for i in rng.permutation(len(tags))]
    crf = built(rng, labels, scheme, scale=3)
    emissions = rng.normal(size=(10_000 // 7 + 1, 9, len(labels))) * 5
    mask = rng.random(emissions.shape[:2]) < 0.8
    for paths in (crf.decode(emissions, mask=mask), crf.decoder().decode(emissions, mask)):
        names = [[labels[i] for i in path[keep]] for path, keep in zip(numpy(paths), mask)]  # noqa: B905
        assert tags.check_corpus(names).places == 0


def test_all_values_obey_the_constraints(rng):
    crf = built(rng)
    emissions = rng.normal(size=(3, 4, 5)).astype("float32")
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 1, 0]], bool)
    chains = legal_chains(crf, emissions, mask)
    tags = numpy(crf.decode(emissions, mask=mask))
    for path, chain in zip(tags, chains, strict=True):
        assert path[chain.keep].tolist() == chain.best_path()
    np.testing.assert_allclose(
        numpy(crf.marginals(emissions, mask)), [c.marginals() for c in chains], atol=1e-5
    )
    np.testing.assert_allclose(
        numpy(crf.log_partition(emissions, mask)), [c.log_z for c in chains], atol=1e-4
    )
    np.testing.assert_allclose(
        numpy(crf.entropy(emissions, mask)), [c.entropy() for c in chains], atol=1e-4
    )
    paths, scores = crf.n_best(emissions, 3, mask)
    np.testing.assert_allclose(numpy(scores), [c.n_best(3) for c in chains], atol=1e-4)
    np.testing.assert_array_equal(numpy(paths)[:, 0], tags)
    samples = numpy(crf.sample(emissions, 50, seed=1, mask=mask))
    for drawn, chain in zip(samples, chains, strict=True):
        assert all(np.isfinite(chain.loss(path)) for path in drawn)


def test_tags_and_marginals_in_the_graph_are_constrained_too(rng):
    inputs = keras.Input((6, 5))
    crf = ConditionalRandomField(labels=BIO, scheme="BIO")
    outputs = [crf(inputs, output=name) for name in ("tags", "marginals")]
    model = keras.Model(inputs, outputs)
    emissions = rng.normal(size=(200, 6, 5)) * 5
    tags, marginals = model.predict(emissions, verbose=0)
    names = [[BIO[i] for i in path] for path in tags]
    assert TagSet(["PER", "LOC"], "BIO").check_corpus(names).places == 0
    assert np.all(marginals[:, 0, [2, 4]] == 0)


def test_boolean_arrays_as_constraints(rng):
    allowed = np.array([[1, 1], [0, 1]])
    crf = built(rng, ["a", "b"], (allowed, [1, 0], [0, 1]))
    tags = numpy(crf.decode(rng.normal(size=(100, 5, 2)) * 5))
    assert np.all(tags[:, 0] == 0) and np.all(tags[:, -1] == 1)
    assert np.all(np.diff(tags, axis=1) >= 0)
    again = ConditionalRandomField.from_config(crf.get_config())
    assert again.get_config() == crf.get_config()


def test_constraints_are_no_weights(rng, tmp_path):
    """A file without constraints loads into a layer with them, and back."""
    layers = [built(rng), built(rng, scheme=None)]
    models = []
    for layer in layers:
        inputs = keras.Input((4, 5))
        models.append(keras.Model(inputs, layer(inputs)))
    for one, other in ((0, 1), (1, 0)):
        path = tmp_path / f"{one}.weights.h5"
        models[one].save_weights(path)
        models[other].load_weights(path)
        np.testing.assert_array_equal(
            numpy(layers[other].transitions), numpy(layers[one].transitions)
        )


# --- Confidence ---


def test_decode_with_score_and_log_probability(rng):
    crf = built(rng)
    emissions = rng.normal(size=(4, 4, 5)).astype("float32")
    tags, scores, log_probabilities = crf.decode(emissions, return_score=True)
    chains = legal_chains(crf, emissions)
    np.testing.assert_allclose(numpy(scores), [c.scores.max() for c in chains], rtol=1e-5)
    expected = [-c.loss(path) for c, path in zip(chains, numpy(tags), strict=True)]
    np.testing.assert_allclose(numpy(log_probabilities), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(crf.log_probability(emissions, tags)), expected, atol=1e-5)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOE2", "SBME"])
@pytest.mark.parametrize("constrained", [True, False])
def test_span_probability_of_every_span(rng, scheme, constrained):
    """Against all paths: those that spell the span so, and do not go on with it."""
    tags = TagSet(() if scheme == "SBME" else ["A"], scheme)
    labels = tags.names
    crf = built(rng, labels, scheme)
    if not constrained:
        crf.constraints = None
    t = 4
    emissions = rng.normal(size=(2, t, len(labels))).astype("float32")
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1]], bool)
    label = crf.span_types[0]
    places = [(i, j, label) for i in range(t) for j in range(i + 1, t + 1)]
    values = numpy(crf.span_probability(emissions, [places, places], mask))
    tables = LabelTables(labels, scheme)
    for row in range(2):
        if constrained:
            chain = legal_chains(crf, emissions, mask)[row]
        else:
            scores = (crf.transitions, crf.start_scores, crf.end_scores)
            chain = enumeration.Chain(emissions[row], *map(numpy, scores), mask[row])
        for (start, end, _), value in zip(places, values[row], strict=True):
            where = np.flatnonzero(chain.keep)
            inside = [n for n, place in enumerate(where) if start <= place < end]
            expected = sum(
                p for path, p in zip(chain.paths, chain.probabilities, strict=True)
                if p and inside and is_read(path.tolist(), inside, tables, constrained)
            )  # fmt: skip
            assert value == pytest.approx(expected, abs=2e-5), (start, end)


def is_read(path, inside, tables, legal):
    """Whether the path holds just this span; on legal paths, as the tag scheme reads it."""
    spelled = spells(path, inside, tables)
    if legal:
        read = {span[:2] for span in tables.spans(path)}
        assert spelled == ((inside[0], inside[-1] + 1) in read)
    return spelled


def spells(path, inside, tables):
    single, first, inner, last = tables.spelling[0].tolist()
    n = len(inside)
    wanted = [single] if n == 1 else [first, *[inner] * (n - 2), last]
    behind = inside[-1] + 1
    ends = behind == len(path) or not tables.joins[path[behind - 1], path[behind]]
    before = inside[0] - 1
    begins = before < 0 or not tables.joins[path[before], path[before + 1]]
    return [path[i] for i in inside] == wanted and begins and ends


@pytest.mark.parametrize("scale", [5.0, 300.0, 1e4])
def test_span_probability_at_the_end_of_a_long_sequence(rng, scale):
    """Against the probability of all paths through the spelling of the span, and no more."""
    crf = built(rng)
    t, start, end = 512, 500, 504
    emissions = (rng.normal(size=(1, t, 5)) * scale).astype("float32")
    path = numpy(crf.decode(emissions))[0]
    emissions[0, start:end] = np.where(np.eye(5)[[1, 2, 2, 2]] > 0, scale, -scale)
    sets = np.ones((1, t, 5))
    sets[0, start:end] = np.eye(5)[[1, 2, 2, 2]]
    sets[0, end, 2] = 0
    scores = crf.decoding_scores()
    expected = linear_chain.partial_log_likelihood(emissions, sets, *scores, reach=crf.reach)
    value = numpy(crf.span_probability(emissions, [[(start, end, "PER")]]))
    assert 0 <= value <= 1 and len(path) == t
    np.testing.assert_allclose(value[0], np.exp(numpy(expected)), atol=1e-4)


def test_no_legal_path(rng):
    """Nothing that looks like a healthy distribution, whichever value one asks for."""
    crf = built(rng)
    emissions = rng.normal(size=(2, 3, 5))
    emissions[0, 0] = [-INF, -INF, 0, -INF, -INF]  # I-PER cannot begin
    assert numpy(crf.log_partition(emissions))[0] == -INF
    assert np.all(np.isnan(numpy(crf.marginals(emissions))[0]))
    assert np.isnan(numpy(crf.entropy(emissions))[0])
    assert np.all(numpy(crf.sample(emissions, 5, seed=1))[0] == -1)
    assert np.all(numpy(crf.n_best(emissions, 2)[1])[0] == -INF)
    assert numpy(crf.span_probability(emissions, [[(0, 1, "PER")], []]))[0] == 0
    _, scores, log_probabilities = crf.decode(emissions, return_score=True)
    assert numpy(scores)[0] == numpy(log_probabilities)[0] == -INF
    for value in (crf.log_partition, crf.entropy):
        assert np.isfinite(numpy(value(emissions))[1])


def test_a_dictionary_in_the_order_of_the_layer(rng):
    labels = ["B-X", "I-X", "O"]
    crf = built(rng, labels)
    words = Dictionary({"ab": "X"})
    allowed = words.allowed_labels("cabc", TagSet(["X"], "BIO"), labels=labels)
    tags = numpy(crf.decode(rng.normal(size=(50, 4, 3)), allowed_labels=np.stack([allowed] * 50)))
    assert np.all(tags[:, 1:3] == [0, 1]) and np.all(tags[:, 3] != 1)
    bonus = words.bonus("cabc", TagSet(["X"], "BIO"), 5.0, labels=labels)
    np.testing.assert_allclose(bonus, [[0, 0, 0], [2.5, 0, 0], [0, 2.5, 0], [0, 0, 0]])


def test_spans_of_labels_that_equal_the_pad_value(rng):
    crf = built(rng, ["s", "b", "m", "e"], "SBME", pad_value=0)
    emissions = np.where(np.eye(4)[[[0, 1, 3, 0]]] > 0, 50.0, 0.0)
    assert [span[:2] for span in crf.decode_spans(emissions)[0]] == [(0, 1), (1, 3), (3, 4)]


def test_decoded_spans_with_their_probabilities(rng):
    crf = built(rng)
    emissions = rng.normal(size=(3, 6, 5)) * 3
    mask = rng.random((3, 6)) < 0.9
    found = crf.decode_spans(emissions, mask)
    tags = numpy(crf.decode(emissions, mask=mask))
    for row, spans in enumerate(found):
        names = [BIO[tag] if tag >= 0 else None for tag in tags[row]]
        assert [span[:3] for span in spans] == TagSet(["PER", "LOC"], "BIO").decode(names)
        assert all(0 < probability <= 1 for *_, probability in spans)


def test_span_probability_runs_compiled(rng):
    crf = built(rng)
    emissions = tensor(rng.normal(size=(2, 5, 5)))
    spans = tensor([[[0, 2, 0], [3, 5, 1]], [[1, 2, 1], [-1, -1, -1]]], "int32")
    eager = numpy(crf.span_probability(emissions, spans))
    assert eager[1, 1] == 0
    run = compiled(lambda emissions, spans: crf.span_probability(emissions, spans))
    np.testing.assert_allclose(numpy(run(emissions, spans)), eager, atol=1e-6)


# --- Per-position information ---


def test_allowed_labels_and_bonuses(rng):
    crf = built(rng)
    emissions = rng.normal(size=(20, 4, 5)).astype("float32")
    allowed, bonus = rng.random((20, 4, 5)) < 0.7, rng.normal(size=(20, 4, 5)).astype("float32")
    allowed[..., 0] = True
    tags = numpy(crf.decode(emissions, allowed_labels=allowed, bonus=bonus))
    changed = np.where(allowed, emissions + bonus, -INF)
    for path, chain in zip(tags, legal_chains(crf, changed), strict=True):
        assert path.tolist() == chain.best_path()
    expected = crf.decoder().decode(emissions, bonus=bonus, allowed_labels=allowed)
    np.testing.assert_array_equal(tags, expected)
    for wrong in ({"bonus": bonus[0]}, {"allowed_labels": allowed[:1]}):
        with pytest.raises(ValueError, match=r"must have the shape \(20, 4, 5\)"):
            crf.decode(emissions, **wrong)
    allowed[3, 2] = False
    with pytest.raises(ValueError, match="No label is allowed at sequence 3, position 2"):
        crf.decode(emissions, allowed_labels=allowed)


# --- Constraints in the loss ---


def test_constrained_loss_sums_over_legal_paths(rng):
    crf = built(rng, constrain_loss=True)
    emissions = rng.normal(size=(2, 4, 5)).astype("float32")
    tags = np.array([[0, 1, 2, 0], [3, 4, 0, 1]])
    expected = np.mean([c.loss(y) for c, y in zip(legal_chains(crf, emissions), tags)])  # noqa: B905
    np.testing.assert_allclose(numpy(crf.sparse_loss(tags, crf(emissions))), expected, rtol=1e-5)
    dense = crf.dense_loss(np.eye(5)[tags], crf(emissions))
    np.testing.assert_allclose(numpy(dense), expected, rtol=1e-4)
    free = built(rng)
    for mine, theirs in zip(free.weights, crf.weights, strict=True):
        mine.assign(theirs)
    assert numpy(free.sparse_loss(tags, free(emissions))) > expected


def test_weights_and_sets_that_need_illegal_paths_are_named(rng):
    crf = built(rng, constrain_loss=True)
    emissions = crf(rng.normal(size=(2, 4, 5)))
    legal = np.eye(5)[[[0, 1, 2, 0], [3, 4, 0, 1]]]
    for weights in (0.9 * legal + 0.02, np.eye(5)[[[0, 2, 2, 0]] * 2]):
        with pytest.raises(ValueError, match="give weight to illegal paths"):
            crf.dense_loss(weights, emissions)
    sets = np.eye(5)[[[2, 0, 0, 0]] * 2]
    with pytest.raises(ValueError, match="give weight to illegal paths"):
        crf.partial_loss(sets, emissions)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([0, 2, 0, 0], r"sequence 1 are illegal at position 1: 'O' followed by 'I-PER'"),
        ([4, 0, 0, 0], r"sequence 1 are illegal at position 0: the border followed by 'I-LOC'"),
    ],
)
def test_an_illegal_gold_path_is_named(rng, tags, message):
    crf = built(rng, constrain_loss=True)
    labels = np.array([[0, 0, 0, 0], tags])
    emissions = crf(rng.normal(size=(2, 4, 5)))
    with pytest.raises(ValueError, match=message):
        crf.sparse_loss(labels, emissions)
    assert np.isfinite(numpy(built(rng).sparse_loss(labels, emissions)))


def test_an_illegal_gold_path_contributes_nothing_in_a_graph(rng):
    if BACKEND == "torch":
        pytest.skip("PyTorch runs eagerly, where the path is named")
    inputs = keras.Input((4, 5))
    crf = ConditionalRandomField(labels=BIO, scheme="BIO", constrain_loss=True)
    model = keras.Model(inputs, crf(inputs))
    model.compile("sgd", loss=crf.sparse_loss)
    x, y = rng.normal(size=(2, 4, 5)), np.array([[0, 1, 2, 0], [0, 2, 0, 0]])
    both = model.evaluate(x, y, verbose=0)
    assert both == pytest.approx(model.evaluate(x[:1], y[:1], verbose=0) / 2, rel=1e-5)
    before = numpy(crf.transitions)
    model.fit(x[1:], y[1:], verbose=0)
    np.testing.assert_array_equal(numpy(crf.transitions), before)


# --- Label weights ---


def test_label_weights_of_one_change_nothing_and_others_shift_training_only(rng):
    emissions, tags = rng.normal(size=(3, 4, 5)), rng.integers(0, 5, (3, 4))
    losses = []
    for weights in (None, [1.0] * 5, [1, 2, 2, 3, 3]):
        crf = built(np.random.default_rng(1), label_weights=weights)
        losses.append(float(numpy(crf.sparse_loss(tags, crf(emissions)))))
    assert losses[0] == losses[1]
    plain = built(np.random.default_rng(1))
    shifted = emissions - np.log([1, 2, 2, 3, 3])
    expected = float(numpy(plain.sparse_loss(tags, plain(shifted))))
    assert losses[2] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(numpy(crf.decode(emissions)), numpy(plain.decode(emissions)))


def test_label_weights_raise_the_recall_of_a_rare_label(rng):
    """Emissions carry no information: at weight 1 the rare label is never predicted."""
    shares = []
    for weight in (1.0, 40.0):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((6, 3))
        crf = ConditionalRandomField(label_weights=[1.0, weight], lr_multiplier=1)
        emissions = keras.layers.Dense(2)(inputs)
        model = keras.Model(inputs, crf(emissions))
        model.compile(keras.optimizers.Adam(0.05), loss=crf.sparse_loss)
        x = np.ones((64, 6, 3))
        y = (np.random.default_rng(0).random((64, 6)) < 0.1).astype(int)
        model.fit(x, y, epochs=40, batch_size=64, verbose=0)
        shares.append(np.mean(numpy(crf.decode(model.predict(x, verbose=0))) == 1))
    assert shares[0] == 0
    assert shares[1] > 0.5


# --- Partial labels ---


def test_partial_loss(rng):
    crf = built(rng)
    emissions, tags = crf(rng.normal(size=(3, 4, 5))), rng.integers(0, 5, (3, 4))
    sets = np.eye(5)[tags]
    np.testing.assert_allclose(
        numpy(crf.partial_loss(sets, emissions)), numpy(crf.sparse_loss(tags, emissions)), rtol=1e-5
    )
    assert numpy(crf.partial_loss(np.ones((3, 4, 5)), emissions)) == 0
    sets[2, 1] = 0
    with pytest.raises(ValueError, match="No label is allowed at sequence 2, position 1"):
        crf.partial_loss(sets, emissions)


def test_fit_with_partial_labels(rng):
    inputs = keras.Input((5, 8))
    crf = ConditionalRandomField()
    model = keras.Model(inputs, crf(keras.layers.Dense(3)(inputs)))
    model.compile(keras.optimizers.Adam(0.05), loss=crf.partial_loss)
    x, y = rng.normal(size=(32, 5, 8)), rng.integers(0, 3, (32, 5))
    sets = np.maximum(np.eye(3)[y], rng.random((32, 5, 1)) < 0.5)
    losses = model.fit(x, sets, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


# --- Span F1 in the graph ---


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "IOE1", "IOE2", "BIOES", "BILOU", "SBME"])
def test_span_f1_equals_score_spans(rng, scheme):
    """On random labels, illegal ones included, with gaps, over several batches."""
    tags = TagSet(() if scheme == "SBME" else ["A", "B"], scheme)
    names = [tags.names[i] for i in rng.permutation(len(tags))]
    crf = built(rng, names, scheme)
    metrics = [crf.span_f1(), crf.span_precision(), crf.span_recall()]
    gold, predicted = [], []
    for _ in range(3):
        emissions = rng.normal(size=(8, 7, len(names))) * 2
        mask = rng.random((8, 7)) < 0.8
        labels = rng.integers(0, len(names), (8, 7))
        masked = crf(emissions, mask=mask)
        path = numpy(crf.decode(masked))
        labels = np.where(rng.random((8, 7)) < 0.5, labels, np.maximum(path, 0))
        for metric in metrics:
            metric.update_state(labels, masked)
        for row in range(8):
            kept = [None if not keep else 1 for keep in mask[row]]
            for spans, ids in ((gold, labels[row]), (predicted, path[row])):
                spans.append(tags.decode([k and names[i] for k, i in zip(kept, ids, strict=True)]))
    score = scoring.score_spans(gold, predicted)
    values = [float(numpy(metric.result())) for metric in metrics]
    np.testing.assert_allclose(values, [score.f1, score.precision, score.recall], rtol=1e-6)
    metrics[0].reset_state()
    assert float(numpy(metrics[0].result())) == 0


@pytest.mark.parametrize("jit_compile", ["auto", True])
def test_val_span_f1_drives_checkpoint_and_early_stopping(rng, tmp_path, jit_compile):
    if BACKEND == "torch" and jit_compile is True:
        pytest.skip("compiling the unrolled loop takes minutes there")
    inputs = keras.Input((6, 8))
    crf = ConditionalRandomField(labels=BIO, scheme="BIO", lr_multiplier=10)
    model = keras.Model(inputs, crf(keras.layers.Dense(5)(inputs)))
    model.compile(
        keras.optimizers.Adam(0.05),
        loss=crf.sparse_loss,
        metrics=[crf.span_f1()],
        jit_compile=jit_compile,
    )
    x, y = rng.normal(size=(64, 6, 8)), rng.integers(0, 5, (64, 6))
    path = tmp_path / "best.keras"
    callbacks = [
        keras.callbacks.ModelCheckpoint(path, "val_span_f1", mode="max", save_best_only=True),
        keras.callbacks.EarlyStopping("val_span_f1", mode="max", patience=5),
    ]
    history = model.fit(
        x, y, epochs=3, validation_data=(x, y), callbacks=callbacks, verbose=0
    ).history
    best = keras.models.load_model(path)
    value = best.evaluate(x, y, verbose=0, return_dict=True)["span_f1"]
    assert value == pytest.approx(max(history["val_span_f1"]), abs=1e-6)
    emissions = best.predict(x, verbose=0)
    tags = TagSet(["PER", "LOC"], "BIO")
    paths = numpy(best.layers[-1].decode(emissions))
    spans = [[tags.decode([BIO[i] for i in row]) for row in rows] for rows in (y, paths)]
    assert value == pytest.approx(scoring.score_spans(*spans).f1, abs=1e-6)


# --- From one set of labels to another ---


def test_transfer_transitions(rng):
    old, new = built(rng), built(rng, ["B-LOC", "O", "B-ORG", "I-PER", "B-PER", "I-LOC"])
    start = numpy(new.transitions)
    new.lr_multiplier = 1.0
    shared = new.transfer_transitions(old)
    assert set(shared) == set(BIO)
    for i, a in enumerate(new.labels):
        for j, b in enumerate(new.labels):
            known = a in BIO and b in BIO
            expected = numpy(old.transitions)[BIO.index(a), BIO.index(b)] if known else start[i, j]
            assert numpy(new.transitions)[i, j] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(numpy(new.end_scores)[1], numpy(old.end_scores)[0], rtol=1e-6)


# --- Errors ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConditionalRandomField(scheme="BIO"), "needs `labels`"),
        (lambda: ConditionalRandomField(labels=["O", "X"], scheme="BIO"), "Expected different"),
        (lambda: ConditionalRandomField(scheme=[1, 2, 3]), "three boolean arrays|must hold"),
        (lambda: ConditionalRandomField(constrain_loss=True), "needs constraints"),
        (lambda: ConditionalRandomField(label_weights=[1, 0]), "must be positive"),
        (lambda: ConditionalRandomField(labels=BIO).build((None, None, 4)), "for 5 labels"),
        (lambda: ConditionalRandomField().build((1, 1, 2)) or built().span_probability(
            np.zeros((1, 2, 5)), [[(0, 1, "ORG")]]), "a label out of"),
        (lambda: built(labels=["O", "I-A", "B-A"], scheme="IOB1").span_probability(
            np.zeros((1, 2, 3)), [[(0, 1, "A")]]), "spells a span in one way"),
        (lambda: ConditionalRandomField().span_f1(), "Spans need the names"),
    ],
)  # fmt: skip
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
