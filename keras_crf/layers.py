"""The conditional random field as a Keras layer."""

import uuid
import warnings
import weakref

import keras
import numpy as np
from keras import ops

from keras_crf import binding, linear_chain
from keras_crf.checks import are_probabilities, check_labels, check_mask, integer_labels
from keras_crf.compilation import is_concrete
from keras_crf.losses import DenseLoss, SparseLoss
from keras_crf.metrics import DenseAccuracy, SparseAccuracy, ViterbiAccuracy
from keras_crf.viterbi import ViterbiDecoder

OUTPUTS = ("emissions", "tags", "marginals")


@keras.saving.register_keras_serializable("keras_crf")
class ConditionalRandomField(keras.layers.Layer):
    """Linear-chain CRF on top of emissions, with a learning rate of its own.

    The layer takes raw scores `(b, t, k)` (from `Dense(k)`, no softmax), holds the transitions and
    returns the emissions, so that one model is trained, decoded and saved:

        emissions = keras.layers.Dense(num_labels)(features)
        crf = keras_crf.ConditionalRandomField(lr_multiplier=100)
        model = keras.Model(inputs, crf(emissions, mask=padding_mask))
        model.compile("adam", loss=crf.sparse_loss, metrics=[crf.sparse_accuracy])

        tags = crf.decode(model.predict(x))                                # outside the graph
        tagger = keras.Model(inputs, crf(emissions, mask, output="tags"))  # inside the graph

    Masks: masked positions are removed from the chain. Loss, gradients, tags and marginals equal
    those of the sequence without them, wherever they stand: padding on either side, `[CLS]` in
    front, word pieces in between. The output holds minus infinity in all places of a masked row,
    and that is the mask from there on; Keras's implicit mask ends here.

    Learning rate: the transitions of a CRF on top of a pretrained network need a larger rate than
    the network (Su, https://kexue.fm/archives/7196). With `lr_multiplier=m` the stored weight is
    W = T / m while the chain uses T = m W, and the gradient of W is that of T: under SGD, Adam and
    their kin T moves exactly as if its learning rate were m times larger. Start values, gradient
    norms and saved files do not depend on m. LAMB and Adafactor scale their step by the norm of the
    weight itself and cancel the effect.

    The CRF always computes in float32, under every dtype policy.

    Args:
        lr_multiplier: effective learning rate of the transitions (and of start and end scores)
            relative to the optimizer's.
        use_boundary: learn scores of the first and last label. False gives exactly the parameters
            of bert4keras: the transitions alone.
        transitions_initializer: initializer of the effective transitions `(k, k)`.
        transitions_regularizer: regularizer of the effective transitions.
        ignore_index: labels of this value are masked out.
        pad_value: what decoding returns at masked positions.
        **kwargs: `name`, `trainable`. `dtype` is always float32.

    Call arguments:
        inputs: emissions `(b, t, k)`, raw scores in nats; k is the number of labels.
        mask: `(b, t)`, true or non-zero = keep, of any dtype. Without one, Keras's implicit mask
            and rows of minus infinity count.
        output: "emissions" gives `(b, t, k)` float32; "tags" the Viterbi path, `(b, t)` int32;
            "marginals" the label probabilities `(b, t, k)` float32.

    References:
        Lafferty, McCallum and Pereira, "Conditional Random Fields", ICML 2001.
    """

    def __init__(
        self,
        lr_multiplier=1.0,
        use_boundary=True,
        transitions_initializer="glorot_uniform",
        transitions_regularizer=None,
        ignore_index=-100,
        pad_value=-1,
        **kwargs,
    ):
        kwargs["dtype"] = "float32"  # the only policy that keeps float32 under all mixed ones
        super().__init__(**kwargs)
        if not lr_multiplier > 0:
            raise ValueError(
                "`lr_multiplier` must be positive. To freeze the transitions set "
                f"`trainable=False`. Received: lr_multiplier={lr_multiplier}"
            )
        self.lr_multiplier = float(lr_multiplier)
        self.use_boundary = use_boundary
        self.transitions_initializer = keras.initializers.get(transitions_initializer)
        self.transitions_regularizer = keras.regularizers.get(transitions_regularizer)
        self.ignore_index = ignore_index
        self.pad_value = pad_value
        self.supports_masking = True
        self.num_labels = None
        self._emissions_checked = False
        observers = weakref.WeakSet()
        self._observers = lambda: observers  # in a closure, so that Keras does not walk it
        self._enter(uuid.uuid4().hex)

    def _enter(self, key):
        self.key = key
        binding.register(key, self)

    def build(self, input_shape):
        """Create the scores for the number of labels in `input_shape`, `(b, t, k)`."""
        if len(input_shape) != 3 or input_shape[-1] is None:
            raise ValueError(
                "ConditionalRandomField takes emissions of the shape (batch, time, labels), with a "
                f"known number of labels. Received: {tuple(input_shape)}"
            )
        self.num_labels = input_shape[-1]
        initializers = {"transitions": self.transitions_initializer}
        for name, shape in self.score_shapes().items():
            self._add_scores(name, shape, initializers.get(name, keras.initializers.Zeros()))

    def _add_scores(self, name, shape, initializer):
        """Store T / m, so that the effective start values do not depend on m."""
        regularizer = self.transitions_regularizer if name == "transitions" else None
        weight = self.add_weight(
            name=name,
            shape=shape,
            initializer=lambda *args, **kwargs: initializer(*args, **kwargs) / self.lr_multiplier,
            regularizer=regularizer and (lambda weight: regularizer(self._effective(weight))),
        )
        setattr(self, f"_{name}", weight)

    def score_shapes(self):
        """Shapes of the weights by name, in their order."""
        k = self.num_labels
        if k is None:
            raise ValueError(
                f"Layer {self.name!r} has no transitions yet. Call it once on emissions of the "
                "shape (batch, time, labels) first."
            )
        boundary = {"start_scores": (k,), "end_scores": (k,)}
        return {"transitions": (k, k), **(boundary if self.use_boundary else {})}

    # --- Effective scores ---

    def _effective(self, weight):
        """The value m W with the gradient of W: dL/dT reaches the stored weight as it is."""
        weight = ops.convert_to_tensor(weight)
        return weight + ops.stop_gradient((self.lr_multiplier - 1.0) * weight)

    def scores(self):
        """Effective transitions, and start and end scores where there are any."""
        return [self._effective(getattr(self, f"_{name}")) for name in self.score_shapes()]

    @property
    def transitions(self):
        """Effective transition scores `(k, k)`: `[i, j]` scores label i followed by label j."""
        return self.scores()[0]

    @property
    def trans(self):
        """Alias of `transitions`, the name in bert4keras."""
        return self.transitions

    @property
    def start_scores(self):
        """Effective scores of the first label `(k,)`; zeros without boundary."""
        return self.scores()[1] if self.use_boundary else ops.zeros((self.num_labels,))

    @property
    def end_scores(self):
        """Effective scores of the last label `(k,)`; zeros without boundary."""
        return self.scores()[2] if self.use_boundary else ops.zeros((self.num_labels,))

    # --- Call ---

    def call(self, inputs, mask=None, output="emissions"):
        """Emissions, tags or marginals; see the class."""
        emissions = self._masked(inputs, mask)
        if output == "tags":
            return self._viterbi(emissions)
        if output == "marginals":
            return linear_chain.marginals(emissions, *self.scores())
        if output == "emissions":
            return emissions
        raise ValueError(f"`output` must be one of {OUTPUTS}. Received: output={output!r}")

    def compute_mask(self, inputs, mask=None):
        """None: the rows of minus infinity are the mask, and Keras must not apply another."""
        return None

    def compute_output_spec(self, inputs, mask=None, output="emissions"):
        """Shape and dtype of the output."""
        if output not in OUTPUTS:
            raise ValueError(f"`output` must be one of {OUTPUTS}. Received: output={output!r}")
        if output == "tags":
            return keras.KerasTensor(inputs.shape[:2], dtype="int32")
        return keras.KerasTensor(inputs.shape, dtype="float32")

    def compute_output_shape(self, input_shape, output="emissions"):
        """Shape of the output."""
        return input_shape[:2] if output == "tags" else input_shape

    def _masked(self, emissions, mask=None):
        """Emissions in float32, minus infinity where masked."""
        emissions = ops.cast(ops.convert_to_tensor(emissions), "float32")
        self._warn_of_probabilities(emissions)
        if mask is None:
            return emissions
        mask = ops.convert_to_tensor(mask)
        check_mask(mask, emissions)
        return ops.where(ops.cast(mask, "bool")[..., None], emissions, -float("inf"))

    def _viterbi(self, emissions):
        return linear_chain.viterbi(emissions, *self.scores(), pad_value=self.pad_value)

    def _warn_of_probabilities(self, emissions):
        """Once per layer, on the first values that can be looked at."""
        if self._emissions_checked or not is_concrete(emissions):
            return
        self._emissions_checked = True
        if are_probabilities(ops.convert_to_numpy(emissions)):
            warnings.warn(
                f"All emissions that reach layer {self.name!r} are probabilities that sum to 1. A "
                "CRF needs raw scores: remove the softmax, as in `Dense(num_labels)` without an "
                "activation.",
                stacklevel=2,
            )

    # --- Losses and metrics, for `compile` ---

    @property
    def sparse_loss(self):
        """Loss for integer labels `(b, t)` or `(b, t, 1)`: nats per sequence, batch mean."""
        return SparseLoss(self)

    @property
    def dense_loss(self):
        """Loss for one-hot or soft labels `(b, t, k)`: nats per sequence, batch mean."""
        return DenseLoss(self)

    @property
    def loss(self):
        """Alias of `sparse_loss`."""
        return self.sparse_loss

    @property
    def sparse_accuracy(self):
        """Token accuracy of the emission argmax, as in bert4keras; integer labels."""
        return SparseAccuracy(ignore_index=self.ignore_index)

    @property
    def dense_accuracy(self):
        """Token accuracy of the emission argmax, as in bert4keras; labels `(b, t, k)`."""
        return DenseAccuracy(ignore_index=self.ignore_index)

    @property
    def viterbi_accuracy(self):
        """Token accuracy of the Viterbi path; integer labels."""
        return ViterbiAccuracy(self, ignore_index=self.ignore_index)

    def add_observer(self, metric):
        """Let the losses of this layer copy its scores into `metric` (see `ViterbiAccuracy`)."""
        self._observers().add(metric)

    def show_to_metrics(self):
        """Copy the scores into the metrics that cannot read them (see `ViterbiAccuracy`)."""
        if keras.backend.backend() == "jax":
            for metric in list(self._observers()):
                metric.copy_scores(self.scores())

    # --- Values ---

    def decode(self, y, mask=None):
        """Viterbi path of emissions `(b, t, k)`: `(b, t)` int32, `pad_value` where masked."""
        if isinstance(y, keras.KerasTensor):
            return self(y, mask=mask, output="tags")
        return self._viterbi(self._masked(y, mask))

    def decoder(self):
        """A `ViterbiDecoder` in NumPy that holds the scores of this moment."""
        transitions, *boundary = (ops.convert_to_numpy(scores) for scores in self.scores())
        return ViterbiDecoder(
            transitions, **dict(zip(("start_scores", "end_scores"), boundary, strict=False))
        )

    def marginals(self, y, mask=None):
        """Label probabilities `(b, t, k)` of emissions `(b, t, k)`; 0 where masked."""
        if isinstance(y, keras.KerasTensor):
            return self(y, mask=mask, output="marginals")
        return linear_chain.marginals(self._masked(y, mask), *self.scores())

    def log_partition(self, y, mask=None):
        """`(b,)` log of the sum of exp(score) over all paths, in nats."""
        return linear_chain.log_partition(self._masked(y, mask), *self.scores())

    def log_probability(self, y, tags, mask=None):
        """`(b,)` log-probability of label paths `tags` `(b, t)` or `(b, t, 1)`, in nats.

        Positions whose label is `ignore_index` are masked out. Any other label outside `0..k-1` at
        an unmasked position raises a `ValueError` where values can be looked at, and gives NaN in a
        compiled graph.
        """
        emissions = self._masked(y, mask)
        tags = integer_labels(tags)
        emissions = ops.where((tags == self.ignore_index)[..., None], -float("inf"), emissions)
        check_labels(tags, emissions, self.ignore_index)
        transitions, *boundary = self.scores()
        return linear_chain.log_likelihood(emissions, tags, transitions, *boundary)

    def dense_log_likelihood(self, y, weights, mask=None):
        """`(b,)` expected log-probability for label weights `(b, t, k)`, in nats."""
        if len(ops.shape(weights)) != 3 or ops.shape(weights)[-1] != self.num_labels:
            raise ValueError(
                f"`dense_loss` takes labels of the shape (batch, time, {self.num_labels}). "
                f"Received: {tuple(ops.shape(weights))}. For integer labels use `sparse_loss`."
            )
        transitions, *boundary = self.scores()
        return linear_chain.log_likelihood(self._masked(y, mask), weights, transitions, *boundary)

    # --- Saving ---

    def save_own_variables(self, store):
        """Store effective scores, so that a file loads at any `lr_multiplier`.

        In float64, from which the stored weight comes back bit by bit.
        """
        for name in self.score_shapes():
            weight = ops.convert_to_numpy(getattr(self, f"_{name}"))
            store[name] = weight.astype("float64") * self.lr_multiplier

    def load_own_variables(self, store):
        """Load effective scores."""
        expected, found = self.score_shapes(), sorted(store.keys())
        if sorted(expected) != found:
            raise ValueError(
                f"Layer {self.name!r} expects the weights {sorted(expected)}. The file holds "
                f"{found}. Build the layer with the `use_boundary` it was saved with."
            )
        for name, shape in expected.items():
            scores = np.asarray(store[name])
            if scores.shape != shape:
                raise ValueError(
                    f"Layer {self.name!r} has {self.num_labels} labels and expects {name!r} of "
                    f"the shape {shape}. The file holds {scores.shape}."
                )
            getattr(self, f"_{name}").assign((scores / self.lr_multiplier).astype("float32"))

    def get_config(self):
        """Arguments of the layer, and the key by which its losses find it after loading."""
        return {
            **super().get_config(),
            "lr_multiplier": self.lr_multiplier,
            "use_boundary": self.use_boundary,
            "transitions_initializer": keras.initializers.serialize(self.transitions_initializer),
            "transitions_regularizer": keras.regularizers.serialize(self.transitions_regularizer),
            "ignore_index": self.ignore_index,
            "pad_value": self.pad_value,
            "key": self.key,
        }

    @classmethod
    def from_config(cls, config):
        """The layer that `get_config` described."""
        config = dict(config)
        key = config.pop("key", None)
        layer = cls(**config)
        if key:
            layer._enter(key)
        return layer
