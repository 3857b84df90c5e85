"""The conditional random field as a Keras layer."""

import uuid
import warnings

import keras
import numpy as np
from keras import ops

from keras_crf import binding, linear_chain
from keras_crf.chains import check_axes
from keras_crf.checks import (
    are_probabilities,
    check_arguments,
    checked_weights,
    made_by_softmax,
)
from keras_crf.compilation import is_concrete
from keras_crf.constraints import Constraints
from keras_crf.metrics import Observers
from keras_crf.objectives import Objectives
from keras_crf.values import Values

OUTPUTS = ("emissions", "tags", "marginals")


@keras.saving.register_keras_serializable("keras_crf")
class ConditionalRandomField(Objectives, Values, keras.layers.Layer):
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
    norms and saved files do not depend on m; `get_weights` and `set_weights`, which carry W, do.
    LAMB and Adafactor scale their step by the norm of the weight itself and cancel the effect.

    Constraints: with `labels` and `scheme`, decoding, tags, marginals and all other values never
    give weight to an illegal start, transition or end. They live in the config, not in the weights.
    The losses ignore them, unless `constrain_loss=True`: then log Z runs over legal paths only, and
    a sequence whose own labels are illegal is named in an error where values can be looked at, and
    contributes 0 in a compiled graph.

    The CRF always computes in float32, under every dtype policy.

    Args:
        lr_multiplier: effective learning rate of the transitions (and of start and end scores)
            relative to the optimizer's.
        use_boundary: learn scores of the first and last label. False gives exactly the parameters
            of bert4keras: the transitions alone.
        transitions_initializer: initializer of the effective transitions `(k, k)`.
        transitions_regularizer: regularizer of the effective transitions.
        labels: names of the k labels in their order.
        scheme: "BIO", "BIOES", "BMES", "SBME"... (see `TagSet`), by which the names say what may
            follow what; or three boolean arrays: allowed transitions `(k, k)`, starts `(k,)` and
            ends `(k,)`.
        constrain_loss: whether the losses obey the constraints as well.
        label_weights: `(k,)` positive weights against imbalance, or None. Training sees the
            emissions less the logarithm of the weight, so that a label of weight w must score
            log w higher to be as probable; decoding sees them as they are (logit adjustment: Menon
            et al., ICLR 2021). Weights of 1 change nothing.
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
        labels=None,
        scheme=None,
        constrain_loss=False,
        label_weights=None,
        ignore_index=-100,
        pad_value=-1,
        **kwargs,
    ):
        kwargs["dtype"] = "float32"  # the only policy that keeps float32 under all mixed ones
        super().__init__(**kwargs)
        check_arguments(lr_multiplier, ignore_index, constrain_loss, scheme)
        self.lr_multiplier = float(lr_multiplier)
        self.use_boundary = use_boundary
        self.transitions_initializer = keras.initializers.get(transitions_initializer)
        self.transitions_regularizer = keras.regularizers.get(transitions_regularizer)
        self.labels = None if labels is None else list(labels)
        self.scheme = scheme
        self.constraints = None if scheme is None else Constraints(labels, scheme)
        self.constrain_loss = constrain_loss
        self.label_weights = checked_weights(label_weights)
        self.ignore_index = int(ignore_index)
        self.pad_value = pad_value
        self.supports_masking = True
        self.num_labels = None
        self._looks_left = 3  # batches whose emissions are looked at for probabilities
        self._observers = Observers()
        self._enter(uuid.uuid4().hex)

    def _enter(self, key):
        self.key = key
        binding.enter(self)

    def build(self, input_shape):
        """Create the scores for the number of labels in `input_shape`, `(b, t, k)`."""
        if len(input_shape) != 3 or input_shape[-1] is None:
            raise ValueError(
                "ConditionalRandomField takes emissions of the shape (batch, time, labels), with a "
                f"known number of labels. Received: {tuple(input_shape)}"
            )
        self.num_labels = input_shape[-1]
        self._check_number_of_labels()
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: self.num_labels})
        initializers = {"transitions": self.transitions_initializer}
        for name, shape in self.score_shapes().items():
            self._add_scores(name, shape, initializers.get(name, keras.initializers.Zeros()))
        for metric in self._observers:
            metric.prepare(self.score_shapes())

    def _check_number_of_labels(self):
        sizes = {
            "labels": self.labels and len(self.labels),
            "scheme": self.constraints and len(self.constraints.starts),
            "label_weights": self.label_weights and len(self.label_weights),
        }
        for name, size in sizes.items():
            if size not in (None, self.num_labels):
                raise ValueError(
                    f"Layer {self.name!r} was given `{name}` for {size} labels, and emissions of "
                    f"{self.num_labels}. Both must be the same number: see the units of `Dense`."
                )

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
        rest = ops.where(ops.isinf(weight), ops.zeros_like(weight), weight)  # 0 * inf is NaN
        return weight + ops.stop_gradient((self.lr_multiplier - 1.0) * rest)

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
        return self.scores()[1] if self.use_boundary else ops.zeros((self.num_labels,), "float32")

    @property
    def end_scores(self):
        """Effective scores of the last label `(k,)`; zeros without boundary."""
        return self.scores()[2] if self.use_boundary else ops.zeros((self.num_labels,), "float32")

    # --- Call ---

    def call(self, inputs, mask=None, output="emissions"):
        """Emissions, tags or marginals; see the class."""
        _check_output(output)
        emissions = self._masked(inputs, mask)
        if output == "tags":
            return self._viterbi(emissions)
        if output == "marginals":
            return linear_chain.marginals(emissions, *self.decoding_scores(), reach=self.reach)
        return emissions

    def compute_mask(self, inputs, mask=None):
        """None: the rows of minus infinity are the mask, and Keras must not apply another."""
        return None

    def compute_output_spec(self, inputs, mask=None, output="emissions"):
        """Shape and dtype of the output."""
        _check_output(output)
        if mask is not None:
            check_axes("mask", mask, inputs)
        if made_by_softmax(inputs):
            self._warn_of_softmax()
        if output == "tags":
            return keras.KerasTensor(inputs.shape[:2], dtype="int32")
        return keras.KerasTensor(inputs.shape, dtype="float32")

    def compute_output_shape(self, input_shape, output="emissions"):
        """Shape of the output."""
        return input_shape[:2] if output == "tags" else input_shape

    def _masked(self, emissions, mask=None):
        """Emissions in float32, minus infinity where masked."""
        if isinstance(emissions, keras.KerasTensor):
            raise ValueError(
                "This method takes values, not symbolic tensors. Inside a model call the layer: "
                '`crf(x)`, `crf(x, output="tags")`, `crf(x, output="marginals")`, or wrap the '
                "method in a layer of your own."
            )
        emissions = ops.cast(ops.convert_to_tensor(emissions), "float32")
        self._look_for_probabilities(emissions)
        if mask is None:
            return emissions
        mask = ops.convert_to_tensor(mask)
        check_axes("mask", mask, emissions)
        return ops.where(ops.cast(mask, "bool")[..., None], emissions, -float("inf"))

    def _look_for_probabilities(self, emissions):
        """In the first batches whose values can be looked at."""
        if self._looks_left and is_concrete(emissions):
            self._looks_left -= 1
            if are_probabilities(ops.convert_to_numpy(emissions)):
                self._warn_of_softmax()

    def _warn_of_softmax(self):
        self._looks_left = 0
        warnings.warn(
            f"The emissions that reach layer {self.name!r} are probabilities that sum to 1. A CRF "
            "needs raw scores: remove the softmax, as in `Dense(num_labels)` with no activation.",
            stacklevel=4,
        )

    # --- Saving ---

    def save_own_variables(self, store):
        """Store effective scores, so that a file loads at any `lr_multiplier`.

        In float64, from which the stored weight comes back bit by bit. The key goes with them, for
        models that build their layers themselves and keep no configs.
        """
        for name in self.score_shapes():
            weight = ops.convert_to_numpy(getattr(self, f"_{name}"))
            store[name] = weight.astype("float64") * self.lr_multiplier
        store["key"] = np.frombuffer(self.key.encode(), "uint8")

    def load_own_variables(self, store):
        """Load effective scores."""
        expected, found = self.score_shapes(), sorted(set(store.keys()) - {"key"})
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
        if "key" in store.keys():  # noqa: SIM118, stores are no mappings
            self._enter(bytes(np.asarray(store["key"])).decode())
        binding.loaded(self)

    def get_config(self):
        """Arguments of the layer, and the key by which its losses find it after loading."""
        scheme = self.scheme
        if self.constraints and not isinstance(scheme, str):
            scheme = [table.tolist() for table in self.constraints.tables()]
        return {
            **super().get_config(),
            "lr_multiplier": self.lr_multiplier,
            "use_boundary": self.use_boundary,
            "transitions_initializer": keras.initializers.serialize(self.transitions_initializer),
            "transitions_regularizer": keras.regularizers.serialize(self.transitions_regularizer),
            "labels": self.labels,
            "scheme": scheme,
            "constrain_loss": self.constrain_loss,
            "label_weights": self.label_weights,
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


def _check_output(output):
    if output not in OUTPUTS:
        raise ValueError(f"`output` must be one of {OUTPUTS}. Received: output={output!r}")
