"""Counts of secret keys, by a sorting network on secret bits among public markers.

A plane is one bit of all keys, 64 to a word. Of the `place_bits` bits of an element's place, the high 6 are
the lane in a word in layout A, the low 6 in layout B; the others are the word's number.
"""

from __future__ import annotations

from fairshares.protocols.circuits.integers import sum_of_bits

WORD = 64
LANE_BITS = 6
_ONES = (1 << WORD) - 1


def counts_of_keys(secret_integer, names, keys, records: int, cells: int):
    """Count how often each of 0 ... cells - 1 is among the keys, from the lowest bits of each key alone.

    Source: as `MarkerRanks`.
    Guarantees: as `MarkerRanks`.
    [test: tests/programs/test_pi_roc_records.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint.
        names: MP-SPDZ's sbits, sbitvec, regint, for_range, if_ and break_point.
        keys: The secret keys, shape (records,).
        records: The number of keys.
        cells: The number of keys that are counted.
    Returns:
        Secret counts, shape (cells,).
    """
    sbits, sbitvec, *control = names
    ranks = MarkerRanks((sbits, *control), records, cells)
    if ranks.missing:
        keys = secret_integer.concat([keys, secret_integer(ranks.no_key, size=ranks.missing)])
    below = ranks.of(sbitvec(keys, ranks.key_bits, ranks.key_bits).v, secret_integer)
    if cells == 1:
        return below
    return below - secret_integer.concat([secret_integer(0), below.get_vector(0, cells - 1)])


class MarkerRanks:
    """How many keys are smaller than each marker 1 ... cells.

    Source: bitonic sorting on the shuffle network (Batcher 1968; Stone 1971), then a reverse banyan network,
    which monotone compact packets do not congest (Nassimi and Sahni 1981).
    Computes: sorts (key, is a record) with one marker (j, 0) per j, so that marker j is at place j - 1 plus
    the number of keys below j. Each marker then moves to place j and carries that origin.
    Guarantees: operations and addresses depend on the numbers of records and cells only; keys above `cells`
    count nowhere.
    [test: tests/programs/test_pi_roc_records.py]

    Args:
        names: MP-SPDZ's sbits, regint, for_range, if_ and break_point.
        records: The number of keys.
        cells: The number of markers.
    """

    def __init__(self, names, records: int, cells: int) -> None:
        self._sbits, self._regint, self._for_range, self._if, self._break_point = names
        self._cells = cells
        self._record_words = -(-records // WORD)
        needed = WORD * (self._record_words + -(-cells // WORD))
        self.key_bits = cells.bit_length()
        self.no_key = (1 << self.key_bits) - 1  # below no marker, so counted nowhere
        self.missing = -records % WORD
        self.place_bits = max(2 * LANE_BITS, (needed - 1).bit_length())
        self._word_bits = self.place_bits - LANE_BITS
        self._words = 1 << self._word_bits
        self._half = self._words // 2
        self._word = self._sbits.get_type(WORD)
        self._halves = self._sbits.get_type(WORD * self._half)

    def of(self, key, secret_integer):
        """Return the ranks of the markers.

        Args:
            key: The secret bits of the keys, lowest first, each a vector of all keys.
            secret_integer: MP-SPDZ's sint.
        Returns:
            Secret numbers of smaller keys, shape (cells,).
        """
        sorted_planes = 1 + self.key_bits
        routed_planes = 1 + max(self.key_bits, self.place_bits)
        self._memory = self._word.malloc(routed_planes * self._words)
        self._spare = self._word.malloc(routed_planes * self._words)
        self._fill(key)
        self._sort(sorted_planes)
        self._route(sorted_planes)
        words = self._cells // WORD + 1
        outputs = self._sbits.get_type(WORD * words)
        planes = [outputs.load_mem(self._plane(1 + bit)) for bit in range(self.place_bits)]
        places = sum_of_bits([(plane, 1 << bit) for bit, plane in enumerate(planes)], secret_integer)
        return places.get_vector(1, self._cells) - secret_integer(self._regint.inc(self._cells))

    def _plane(self, plane):
        return self._memory + plane * self._words

    def _fill(self, key) -> None:
        constants: dict = {}

        def constant(value: int):
            if value not in constants:
                constants[value] = self._word()
                constants[value].load_int(value)
            return constants[value]

        for bit, lanes in enumerate(key):
            lanes.store_in_mem(self._plane(1 + bit))
        self._break_point()
        for word in range(self._words):
            if word < self._record_words:
                self._plane_word(0, word, constant(_ONES))
                continue
            numbers = [WORD * (word - self._record_words) + lane + 1 for lane in range(WORD)]
            is_record = [number > self._cells for number in numbers]
            keys = [number if number <= self._cells else self.no_key for number in numbers]
            self._plane_word(0, word, constant(_packed(is_record)))
            for bit in range(self.key_bits):
                self._plane_word(1 + bit, word, constant(_packed([k >> bit & 1 for k in keys])))
        self._break_point()

    def _plane_word(self, plane: int, word: int, value) -> None:
        value.store_in_mem(self._plane(plane) + word)

    def _sort(self, planes: int) -> None:
        """Sort in layout A, lowest first; a merge of 2^p places inverts bits if bit p of the place is 1."""
        lanes_from = self._word_bits  # in layout A higher bits of places are lanes

        @self._for_range(1, lanes_from + 1)
        def _(p):
            @self._if(p < lanes_from)
            def _():
                self._rotate(planes, 2 * 2**p)
                self._invert(planes)
                self._shuffle(planes)

            @self._if(p == lanes_from)
            def _():
                self._transpose(planes, to_b=True)
                self._rotate(planes, self._words >> (LANE_BITS - 1))
                self._invert(planes)
                self._rotate(planes, 1 << (LANE_BITS - 1))
                self._transpose(planes, to_b=False)

            @self._if(p > 1)
            def _():
                self._invert(planes)  # back, what the last merge sorted downwards

            self._compare_and_shuffle(planes, p)

        @self._for_range(lanes_from + 1, self.place_bits + 1)
        def _(p):
            self._transpose(planes, to_b=True)

            @self._if(p < self.place_bits)
            def _():
                self._rotate(planes, 2 * 2 ** (p - LANE_BITS))
                self._invert(planes)
                self._shuffle(planes)

            self._invert(planes)
            self._compare_and_shuffle(planes, p - LANE_BITS)
            self._transpose(planes, to_b=False)
            self._rotate(planes, 1 << LANE_BITS)
            self._compare_and_shuffle(planes, LANE_BITS)

    def _compare_and_shuffle(self, planes: int, times) -> None:
        @self._for_range(times)
        def _(_turn):
            self._compare(planes)
            self._shuffle(planes)

    def _route(self, planes: int) -> None:
        """Move marker j to place j, bit by bit; a used bit of its key makes room for one of its origin."""
        everything = self._sbits.get_type(WORD * self._words)
        (~everything.load_mem(self._plane(0))).store_in_mem(self._plane(0))  # now: is a marker
        self._break_point()
        for bit in range(self.place_bits):
            used = max(planes, 1 + bit)
            if bit == LANE_BITS:
                for _ in range(self._word_bits - LANE_BITS):
                    self._unshuffle(used)
                self._transpose(used, to_b=True)
            self._unshuffle(used)
            self._route_one(bit, used)

    def _route_one(self, bit: int, used: int) -> None:
        upper = {plane: self._upper(plane) for plane in range(used)}
        lower = {plane: self._lower(plane) for plane in range(used)}
        swap = upper[0]  # beyond the key's bits all markers go down
        if bit < self.key_bits:
            up, down = lower[0] & lower.pop(1 + bit), upper[0] & ~upper.pop(1 + bit)
            swap = up ^ down ^ (up & down)
        for plane, low in lower.items():
            self._exchange(plane, low, upper[plane], swap)
        swap.store_in_mem(self._plane(1 + bit))
        (~swap).store_in_mem(self._plane(1 + bit) + self._half)
        self._break_point()

    def _lower(self, plane):
        return self._halves.load_mem(self._plane(plane))

    def _upper(self, plane):
        return self._halves.load_mem(self._plane(plane) + self._half)

    def _exchange(self, plane, low, high, swap) -> None:
        change = swap & (low ^ high)
        (low ^ change).store_in_mem(self._plane(plane))
        (high ^ change).store_in_mem(self._plane(plane) + self._half)

    def _compare(self, planes: int) -> None:
        pairs = [(self._lower(plane), self._upper(plane)) for plane in range(planes)]
        low, high = pairs[0]
        greater = low & ~high
        for low, high in pairs[1:]:
            greater = low ^ (~(low ^ high) & (greater ^ low))
        for plane, (low, high) in enumerate(pairs):
            self._exchange(plane, low, high, greater)
        self._break_point()

    def _invert(self, planes: int) -> None:
        for plane in range(planes):
            (~self._upper(plane)).store_in_mem(self._plane(plane) + self._half)
        self._break_point()

    def _shuffle(self, planes: int) -> None:
        """Rotate the word's number to the left."""

        @self._for_range(self._half)
        def _(i):
            for plane in range(planes):
                low = self._word.load_mem(self._plane(plane) + i)
                high = self._word.load_mem(self._plane(plane) + self._half + i)
                low.store_in_mem(self._spare + plane * self._words + 2 * i)
                high.store_in_mem(self._spare + plane * self._words + 2 * i + 1)

        self._copy_back(planes)

    def _rotate(self, planes: int, low) -> None:
        """Shuffle until words below `low`, a power of 2, are as far apart as can be."""
        high = self._words // low

        @self._for_range(low)
        def _(i):
            @self._for_range(high)
            def _(j):
                for plane in range(planes):
                    word = self._word.load_mem(self._plane(plane) + j * low + i)
                    word.store_in_mem(self._spare + plane * self._words + i * high + j)

        self._copy_back(planes)

    def _unshuffle(self, planes: int) -> None:
        """Rotate the word's number to the right."""

        @self._for_range(self._half)
        def _(i):
            for plane in range(planes):
                low = self._word.load_mem(self._plane(plane) + 2 * i)
                high = self._word.load_mem(self._plane(plane) + 2 * i + 1)
                low.store_in_mem(self._spare + plane * self._words + i)
                high.store_in_mem(self._spare + plane * self._words + self._half + i)

        self._copy_back(planes)

    def _transpose(self, planes: int, *, to_b: bool) -> None:
        """Exchange the lanes' bits of the place for the lowest 6 of the word's number."""
        blocks = self._words // WORD

        @self._for_range(planes)
        def _(plane):
            @self._for_range(blocks)
            def _(block):
                in_a = [plane * self._words + block * WORD + i for i in range(WORD)]
                in_b = [plane * self._words + i * blocks + block for i in range(WORD)]
                sources, targets = (in_a, in_b) if to_b else (in_b, in_a)
                rows = [self._word.load_mem(self._memory + address) for address in sources]
                for column, address in zip(self._sbits.trans(rows), targets):
                    column.store_in_mem(self._spare + address)

        self._copy_back(planes)

    def _copy_back(self, planes: int) -> None:
        everything = self._sbits.get_type(WORD * self._words)
        for plane in range(planes):
            everything.load_mem(self._spare + plane * self._words).store_in_mem(self._plane(plane))
        self._break_point()


def _packed(lanes) -> int:
    return sum(bit << i for i, bit in enumerate(lanes))
