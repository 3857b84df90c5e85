"""Bucketed batches: static shapes, every text exactly once, the same on each run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf.alignment import CharacterAligner
from keras_crf.batching import (
    BucketedBatches,
    as_tf_dataset,
    bucket_lengths,
    pad,
    predict_tokens,
)
from keras_crf.tokenized_text import TokenizedText

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"雨停了鸟在叫"]
SIZES = [1, 30, 4, 7, 100, 12, 3, 3, 64, 2, 25, 9, 0, 17]


def texts_of(sizes, add_special=False):
    align = CharacterAligner(VOCABULARY)
    return [align("雨停了鸟在叫"[i % 6] * size, add_special) for i, size in enumerate(sizes)]


def labels_of(sizes):
    return [[i] * size for i, size in enumerate(sizes)]


def test_bucket_lengths_hold_equal_shares():
    assert bucket_lengths(range(1, 101), count=4, multiple=8) == [32, 56, 80, 104]
    assert bucket_lengths([5, 5, 5]) == [8]
    assert bucket_lengths([0]) == [8]
    assert bucket_lengths([3, 500], count=2, multiple=1) == [3, 500]


@pytest.mark.parametrize("arguments", [([],), ([1], 0), ([1], 1, 0)])
def test_bucket_lengths_reports_bad_input(arguments):
    with pytest.raises(ValueError, match="Expected one length or more"):
        bucket_lengths(*arguments)


def test_pad_writes_rows():
    assert pad([[1, 2], []], (3, 3), -1).tolist() == [[1, 2, -1], [-1] * 3, [-1] * 3]
    assert pad([np.ones((1, 2))], (1, 2, 2), 0, "float32").tolist() == [[[1, 1], [0, 0]]]


@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=40),
    batch_size=st.integers(1, 9),
    shuffle=st.booleans(),
)
def test_every_text_comes_once_in_a_full_shape(sizes, batch_size, shuffle):
    batches = BucketedBatches(
        texts_of(sizes), labels_of(sizes), batch_size, shuffle=shuffle, seed=1
    )
    lengths = bucket_lengths(sizes)
    seen, partial = [], 0
    for i in range(len(batches)):
        features, labels = batches[i]
        rows = batches.rows(i)
        partial += len(rows) < batch_size
        for array in (*features.values(), labels):
            assert array.shape[0] == batch_size and array.shape[1] in lengths
            assert array.dtype == np.int32
        counts = features["label_mask"].sum(axis=1)
        assert counts.tolist() == [sizes[row] for row in rows] + [0] * (batch_size - len(rows))
        assert ((labels != -100) == features["label_mask"]).all()
        assert all(set(labels[j][labels[j] >= 0]) <= {row} for j, row in enumerate(rows))
        seen += rows.tolist()
    assert sorted(seen) == list(range(len(sizes)))
    assert partial == (len(sizes) % batch_size > 0)


@pytest.mark.parametrize("rows", [[[1], [2], [3]], [[1, 2, 3]]])
def test_pad_refuses_what_does_not_fit(rows):
    with pytest.raises(ValueError, match="at most 2 rows of at most 2 items. Received:"):
        pad(rows, (2, 2))


def test_features_of_a_batch():
    batches = BucketedBatches(texts_of([2, 1], True), [[5, 6], [7]], 3, shuffle=False)
    features, labels = batches[0]
    rest = [0] * 4
    assert features["token_ids"].tolist() == [[2, 4, 4, 3, *rest], [2, 5, 3, 0, *rest], [0] * 8]
    assert features["segment_ids"].tolist() == [[0] * 8] * 3
    assert features["padding_mask"].tolist() == [
        [1, 1, 1, 1, *rest],
        [1, 1, 1, 0, *rest],
        [1, 0, 0, 0, *rest],  # fills up: one visible padding token, no label
    ]
    assert features["label_mask"].tolist() == [[0, 1, 1, 0, *rest], [0, 1, 0, 0, *rest], [0] * 8]
    none = [-100] * 4
    assert labels.tolist() == [[-100, 5, 6, -100, *none], [-100, 7, -100, -100, *none], [-100] * 8]


def test_features_can_be_chosen_and_labels_left_out():
    batches = BucketedBatches(texts_of([2]), batch_size=1, features=["label_mask"], pad_id=9)
    (features,) = batches[0]
    assert list(features) == ["label_mask"]


def test_padding_is_the_one_of_the_vocabulary():
    align = CharacterAligner(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "雨"])
    texts = [align("雨", add_special=True)]
    texts += [window.tokens for window in align.windows(align("雨雨"), 4)]
    for text in texts:
        ((features,),) = [BucketedBatches([text], batch_size=2)[0]]
        assert (features["token_ids"][features["padding_mask"] == 0] == 3).all()
        assert (features["token_ids"][1] == 3).all()
    plain = TokenizedText(*texts[0][:4])
    assert BucketedBatches([plain], batch_size=1)[0][0]["token_ids"][0, -1] == 0
    assert BucketedBatches([plain], batch_size=1, pad_id=7)[0][0]["token_ids"][0, -1] == 7


def test_order_is_fixed_by_the_seed_and_changes_with_the_epoch():
    def epochs(seed):
        batches = BucketedBatches(texts_of(SIZES), labels_of(SIZES), batch_size=3, seed=seed)
        orders = []
        for _ in range(3):
            orders.append([batches.rows(i).tolist() for i in range(len(batches))])
            batches.on_epoch_end()
        return orders

    assert epochs(1) == epochs(1) != epochs(2)
    first, second, third = epochs(1)
    assert first != second != third
    assert len(first) == len(second) == len(third)


@pytest.mark.parametrize("arguments", [{"labels": labels_of(SIZES), "shuffle": False}, {}])
def test_without_shuffling_each_epoch_is_the_same(arguments):
    batches = BucketedBatches(texts_of(SIZES), batch_size=3, **arguments)
    before = [batches.rows(i).tolist() for i in range(len(batches))]
    batches.on_epoch_end()
    assert before == [batches.rows(i).tolist() for i in range(len(batches))]


def test_given_lengths_are_used():
    batches = BucketedBatches(texts_of(SIZES), batch_size=2, lengths=[128, 16, 4_000])
    assert {batches[i][0]["token_ids"].shape for i in range(len(batches))} == {(2, 16), (2, 128)}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"lengths": [8, 64]},
            r"at most 64 tokens, .* Received: 100 tokens in text 4\. Cut it .*`Window.labels`",
        ),
        ({"lengths": []}, r"length of one bucket or more. Received: lengths=\[\]"),
        ({"batch_size": 0}, r"Received: 14 texts, batch_size=0"),
        ({"labels": [[0]]}, r"Received: 14 texts and 1 sequences of labels"),
        ({"labels": [[0]] * 14}, r"Expected 30 labels, one per true position .* Received: 1 for"),
    ],
)
def test_bad_input_is_reported(arguments, message):
    with pytest.raises(ValueError, match=message):
        BucketedBatches(texts_of(SIZES), **arguments)


def tagger():
    import keras

    ids = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype="int32", name="label_mask")
    scores = keras.layers.Embedding(len(VOCABULARY), 6)(ids)
    scores = scores * keras.ops.cast(mask, "float32")[..., None]
    model = keras.Model({"token_ids": ids, "label_mask": mask}, scores)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-100)
    model.compile("sgd", loss)
    return model


@pytest.mark.parametrize("batch_size, lengths", [(3, None), (5, [128]), (64, [16, 128])])
def test_predictions_come_in_the_order_of_the_texts(batch_size, lengths):
    model, texts = tagger(), texts_of(SIZES, add_special=True)
    chosen = ["token_ids", "label_mask"]
    predicted = predict_tokens(model, texts, batch_size, lengths, features=chosen)
    for text, values in zip(texts, predicted, strict=True):
        alone = {"token_ids": text.ids[None], "label_mask": text.mask[None].astype("int32")}
        np.testing.assert_allclose(values, model.predict_on_batch(alone)[0], rtol=1e-6)
    assert predict_tokens(model, []) == []


def test_windows_are_trained_on_the_labels_of_the_whole_text():
    align = CharacterAligner(VOCABULARY)
    text = align("雨停了鸟在叫" * 4)
    labels = np.arange(24) % 6
    windows = align.windows(text, 12, 4)
    batches = BucketedBatches(
        [window.tokens for window in windows],
        [window.labels(text.place(labels)) for window in windows],
        batch_size=len(windows),
        lengths=[12],
        shuffle=False,
    )
    _, placed = batches[0]
    for window, row in zip(windows, placed, strict=True):
        assert row[1:-1].tolist() == labels[window.start : window.stop].tolist()
        assert row[[0, -1]].tolist() == [-100, -100]


def batches_for_training():
    labels = [[i % 6] * size for i, size in enumerate(SIZES)]
    return BucketedBatches(
        texts_of(SIZES), labels, 3, lengths=[16, 128], features=["token_ids", "label_mask"]
    )


def test_keras_trains_on_the_batches():
    batches, model = batches_for_training(), tagger()
    history = model.fit(batches, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert batches.epoch >= 2  # Keras ends an epoch before the first one, too
    assert model.predict_on_batch(batches[0][0]).shape[:2] == batches[0][1].shape


@pytest.mark.parametrize("sizes", [[3] * 9 + [20] * 9, [3] * 9, [20]])
def test_keras_sees_that_the_length_varies(sizes):
    batches = BucketedBatches(
        texts_of(sizes),
        [[0] * size for size in sizes],
        batch_size=3,
        shuffle=False,
        features=["token_ids", "label_mask"],
    )
    assert np.isfinite(tagger().fit(batches, shuffle=False, verbose=0).history["loss"]).all()


def test_tf_data_gives_the_same_batches():
    pytest.importorskip("tensorflow")
    expected = batches_for_training()
    dataset = as_tf_dataset(batches_for_training())
    assert int(dataset.cardinality()) == len(expected)
    for _ in range(2):
        for i, (features, labels) in enumerate(dataset.as_numpy_iterator()):
            assert (features["token_ids"] == expected[i][0]["token_ids"]).all()
            assert (labels == expected[i][1]).all()
        expected.on_epoch_end()


def test_keras_trains_on_tf_data():
    pytest.importorskip("tensorflow")
    dataset = as_tf_dataset(batches_for_training())
    history = tagger().fit(dataset, epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
