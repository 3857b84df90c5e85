"""Seconds to search a long text for a long word list: `python benchmarks/dictionary_speed.py`.

The data are made up: 100,000 words of one to six of 4,000 characters, the frequent ones much more
frequent than the rare ones, and a text of 1,000,000 characters (3 MB in UTF-8) in which every other
word is from the list. One process, best of three runs.
"""

import random
import time

from keras_crf.alignment import CharacterAligner
from keras_crf.dictionary import Dictionary
from keras_crf.tag_schemes import TagSet

WORDS, LENGTH = 100_000, 1_000_000
ALPHABET = [chr(0x4E00 + i) for i in range(4000)]


def best_of_three(function):
    """Seconds of the fastest of three calls, and what the last one returned."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def made_up_word(rng):
    """One to six characters, two most often."""
    length = rng.choices(range(1, 7), weights=(5, 50, 25, 15, 3, 2))[0]
    return "".join(ALPHABET[int(len(ALPHABET) * rng.random() ** 3)] for _ in range(length))


def made_up_data():
    """Different words, and a text of which they are half."""
    rng = random.Random(5)
    words = {}
    while len(words) < WORDS:
        words[made_up_word(rng)] = None
    listed, parts = [*words], []
    while len(parts) < LENGTH:  # every part has at least one character
        parts += rng.choice(listed), made_up_word(rng)
    return listed, "".join(parts)[:LENGTH]


def main():
    words, text = made_up_data()
    tags = TagSet(scheme="SBME")
    seconds, dictionary = best_of_three(lambda: Dictionary(words))
    print(f"{len(words):,} words, {len(text):,} characters; best of three, seconds")
    print(f"build           {seconds:5.2f}")
    seconds, found = best_of_three(lambda: dictionary.find(text))
    print(f"find            {seconds:5.2f}  {len(found):,} matches")
    seconds, _ = best_of_three(lambda: dictionary.bonus(text, tags, weight=2.0))
    print(f"bonus           {seconds:5.2f}  with find")
    seconds, _ = best_of_three(lambda: dictionary.allowed_labels(text, tags))
    print(f"allowed_labels  {seconds:5.2f}  with find")
    tokens = CharacterAligner(["[UNK]", "[CLS]", "[SEP]", "[PAD]", *ALPHABET])(text)
    seconds, _ = best_of_three(lambda: dictionary.bonus(tokens, tags, weight=2.0))
    print(f"bonus           {seconds:5.2f}  with find, on tokens")


if __name__ == "__main__":
    main()
