"""Scores that stand beside published ones: words as in the SIGHAN bakeoffs, spans as in CoNLL.

Precision is the share of the predicted words (or spans) that are correct, recall the share of the
gold ones that were found, F1 = 2 correct / (gold + predicted). All are fractions; all are 0.0,
never NaN, when there is nothing to divide by. The reports print percent.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from unicodedata import east_asian_width


@dataclass(frozen=True)
class Score:
    """How many there are in the gold standard, how many were predicted, how many are correct."""

    correct: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float:
        """Correct / predicted."""
        return _ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """Correct / gold."""
        return _ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(2 * self.correct, self.gold + self.predicted)


@dataclass(frozen=True)
class WordScore(Score):
    """The score of a segmentation; `score_words` makes it.

    Attributes:
        oov: Gold words that are not among the training words; None without training words.
        oov_correct: How many of these were found.
    """

    oov: int | None = None
    oov_correct: int | None = None

    @property
    def oov_rate(self) -> float | None:
        """Share of the gold words that are out of vocabulary."""
        return None if self.oov is None else _ratio(self.oov, self.gold)

    @property
    def oov_recall(self) -> float | None:
        """Recall of the words out of vocabulary; None if there is no such word."""
        return self.oov_correct / self.oov if self.oov else None

    @property
    def iv_recall(self) -> float | None:
        """Recall of the words in the vocabulary; None if there is no such word."""
        if self.oov is None or self.oov == self.gold:
            return None
        return (self.correct - self.oov_correct) / (self.gold - self.oov)

    def report(self) -> str:
        """A few lines to read."""
        text = f"gold {self.gold:,}   predicted {self.predicted:,}   correct {self.correct:,}\n"
        text += "P {}   R {}   F1 {}"
        shares = [self.precision, self.recall, self.f1]
        if self.oov is not None:
            text += "\nOOV rate {}   OOV recall {}   IV recall {}"
            shares += [self.oov_rate, self.oov_recall, self.iv_recall]
        return text.format(*map(_percent, shares))

    __str__ = report


class Average(NamedTuple):
    """Unweighted means over the types."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class SpanScore(Score):
    """The score of spans; `score_spans` makes it. Its own figures are the micro average.

    Attributes:
        per_type: A `Score` for every type in the gold standard or the prediction, by name.
    """

    per_type: dict[str, Score]

    @property
    def micro(self) -> Score:
        """All types counted together."""
        return Score(self.correct, self.gold, self.predicted)

    @property
    def macro(self) -> Average:
        """Means of the precision, the recall and the F1 of the types."""
        scores = [(s.precision, s.recall, s.f1) for s in self.per_type.values()] or [(0, 0, 0)]
        return Average(*(sum(column) / len(scores) for column in zip(*scores, strict=True)))

    def report(self) -> str:
        """A table with one row per type."""
        names = [_name(label) for label in self.per_type]
        width = max(map(_width, [*names, "micro"]))
        head = " " * width + "".join(f"{h:>10}" for h in ("P", "R", "F1", "gold", "predicted"))
        scores = [*self.per_type.values(), self.micro, self.macro]
        rows = [_row(n, width, s) for n, s in zip([*names, "micro", "macro"], scores, strict=True)]
        return "\n".join([head, *rows])

    __str__ = report


def score_words(gold, predicted, train_words=None) -> WordScore:
    """Scores a word segmentation as the official `score` script of the SIGHAN bakeoffs does.

    That script (Sproat and Emerson 2003; Emerson 2005, "The Second International Chinese Word
    Segmentation Bakeoff") writes the words of a sentence one per line, aligns gold and prediction
    with `diff -y` and counts the lines that pair up. So a word is correct if it is part of the
    longest common subsequence of the two lists of words, and this function computes just that. (It
    is more generous than equal positions, by one or two words in 100,000: cut `aaa` as `a aa` in
    place of `aa a` and one word is correct. For positions use `score_spans` on `word_spans`.)

    How the equality was checked: `benchmarks/official_word_scorer.py` runs the script's logic with
    GNU diff (3.8) on the PKU and MSR test sets of 2005, for segmentations by maximal matching and
    with 2, 5 and 20 % of the borders flipped. With `diff --minimal` all counts, those of OOV and IV
    included, are the same. With plain `diff`, whose heuristics miss a few pairs in long, bad
    sentences, they are the same at 2 and 5 %; the script's recall is 0.01 points lower for maximal
    matching, up to 0.06 at 20 %.
    Maximal matching with the PKU word list gives P .843, R .907, F .874, OOV rate .058, OOV recall
    .069, IV recall .958, which are the figures published for it. Not imitated: the script misreads
    words that are a bare <, > or | and cuts words of more than 60 bytes.

    Args:
        gold: Sentences, each a list of words.
        predicted: The same sentences, cut in another way.
        train_words: The words of the training data, for the OOV figures; any iterable, or None.

    Returns:
        A `WordScore`; print it, or take `.precision`, `.recall`, `.f1`, and `.oov_rate`,
        `.oov_recall`, `.iv_recall`: these are None without training words, and the recalls if
        there is no word to find.
    """
    known = None if train_words is None else _vocabulary(train_words)
    correct = oov = oov_correct = 0
    gold, predicted = _same_number(gold, predicted)
    for n, (truth, guess) in enumerate(zip(gold, predicted, strict=True)):
        truth, guess = _sentence(truth, n), _sentence(guess, n)
        found = truth if truth == guess else _common(truth, guess, n)
        correct += len(found)
        if known is not None:
            oov += sum(word not in known for word in truth)
            oov_correct += sum(word not in known for word in found)
    counts = correct, sum(map(len, gold)), sum(map(len, predicted))
    return WordScore(*counts, *((oov, oov_correct) if known is not None else ()))


def score_spans(gold, predicted) -> SpanScore:
    """Scores entities (or any spans): correct means the same start, end and label.

    On spans that `TagSet.decode` reads leniently this is the score of `conlleval`, with
    `strict=True` on both sides that of seqeval's strict mode.

    Args:
        gold: Sentences, each an iterable of `(start, end, label)`. A span given twice counts once.
        predicted: The same for the prediction.

    Returns:
        A `SpanScore`: `.precision`, `.recall`, `.f1` over all spans, `.per_type[label]`, `.macro`;
        print it for a table.
    """
    gold, predicted = _same_number(gold, predicted)
    counts = Counter(), Counter(), Counter()  # correct, gold, predicted spans by label
    for n, (truth, guess) in enumerate(zip(gold, predicted, strict=True)):
        truth, guess = _span_set(truth, n), _span_set(guess, n)
        for counter, spans in zip(counts, (truth & guess, truth, guess), strict=True):
            counter.update(label for _, _, label in spans)
    labels = sorted(counts[1].keys() | counts[2].keys(), key=_name)
    per_type = {label: Score(*(counter[label] for counter in counts)) for label in labels}
    return SpanScore(*(counter.total() for counter in counts), per_type)


def _common(truth, guess, n):
    """The words of a longest common subsequence of two lists, in time n * m / 64.

    The rows of the table of its lengths are integers (Hyyro 2004, "Bit-parallel LCS-length
    computation revisited"): bit j of row i is 0 where the subsequence of `truth[:i]` and
    `guess[:j + 1]` is longer than that of `truth[:i]` and `guess[:j]`.
    """
    _require_same_text(truth, guess, n)
    every, places = (1 << len(guess)) - 1, defaultdict(int)
    for j, word in enumerate(guess):
        places[word] |= 1 << j

    def next_row(row, word):
        met = row & places.get(word, 0)
        return (row + met | row - met) & every

    rows = [*accumulate(truth, next_row, initial=every)]
    found, i, j = [], len(truth), len(guess)
    while i and j:  # from the last word back to the first
        if rows[i] >> j - 1 & 1:  # as long without guess[j - 1]
            j -= 1
        elif not rows[i - 1] >> j - 1 & 1:  # as long without truth[i - 1]
            i -= 1
        else:
            i, j = i - 1, j - 1
            found.append(truth[i])
    return found


def _vocabulary(words):
    words = [[words]] if isinstance(words, str) else list(words)
    wrong = next((word for word in words if not isinstance(word, str)), None)
    if wrong is not None:
        raise ValueError(
            "Expected train_words to hold single words, as (word for sentence in sentences for "
            f"word in sentence) does. Received: {wrong!r:.60}"
        )
    return frozenset(words)


def _require_same_text(truth, guess, n):
    a, b = "".join(truth), "".join(guess)
    if a == b:
        return
    pairs = enumerate(zip(a, b, strict=False))
    i = next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
    raise ValueError(
        f"Sentence {n}: gold and predicted words must make up the same text. They differ at "
        f"character {i}: gold {a[i : i + 10]!r}, predicted {b[i : i + 10]!r}. Cut the words out of "
        "the raw text; do not join the tokens of a tokenizer."
    )


def _sentence(words, n):
    if isinstance(words, str):
        raise ValueError(
            f"Sentence {n} is one text, {words[:20]!r}; expected a list of words: text.split()."
        )
    words = list(words)
    if "" in words:
        raise ValueError(
            f"Sentence {n} has an empty word at place {words.index('')}: leave it out."
        )
    return words


def _same_number(gold, predicted):
    gold, predicted = list(gold), list(predicted)
    if len(gold) != len(predicted):
        raise ValueError(
            f"Expected the same sentences twice, received {len(gold)} gold and {len(predicted)} "
            "predicted ones. Keep an empty list for a sentence in which nothing was found."
        )
    return gold, predicted


def _span_set(spans, n):
    spans = {tuple(span)[:3] for span in spans}  # a probability may follow
    wrong = [span for span in spans if len(span) != 3]
    if wrong:
        raise ValueError(f"Sentence {n}: expected spans (start, end, label), received {wrong[0]}.")
    return spans


def _ratio(part, whole):
    return part / whole if whole else 0.0


def _percent(share):
    return "--" if share is None else f"{100 * share:.2f}"


def _name(label):
    return "word" if label is None else str(label)


def _width(name):
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in name)


def _row(name, width, score):
    shares = "".join(f"{_percent(x):>10}" for x in (score.precision, score.recall, score.f1))
    counts = f"{score.gold:>10,}{score.predicted:>10,}" if isinstance(score, Score) else ""
    return name + " " * (width - _width(name)) + shares + counts
