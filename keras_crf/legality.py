"""What breaks a tag scheme: the report on one place, and the report on a corpus."""

from collections import Counter
from typing import NamedTuple


class IllegalPlace(NamedTuple):
    """A place where a tag sequence breaks its scheme, and what the scheme asks for there."""

    index: int  # position of the second tag of the pair, or of the last if the text ends too early
    pair: tuple[str | None, str | None]  # the tags that must not meet; None = border of the text
    reason: str


class CorpusCheck(NamedTuple):
    """What `TagSet.check_corpus` found; print it for a table."""

    sequences: int
    illegal_sequences: int
    pairs: Counter  # how often two tags meet that must not, by pair; None = border of the text

    @property
    def places(self) -> int:
        """Number of illegal places."""
        return self.pairs.total()

    def __str__(self):
        """The counts, and the pairs from the most frequent on."""
        head = f"{self.illegal_sequences:,} of {self.sequences:,} sequences are illegal, "
        names = {pair: [tag or "border" for tag in pair] for pair in self.pairs}
        rows = [f"{n:>8,}  {' -> '.join(names[pair])}" for pair, n in self.pairs.most_common()]
        return "\n".join([f"{head}at {self.places:,} places", *rows])
