"""One rank of test_exchange: the engine over gloo compared with NumPy's sum."""

import numpy as np

from trainer.exchange.engine import Engine
from trainer.exchange.reduce import open_world
from trainer.formats import Exchange

exchange = Exchange(reduce="gloo")
engine = Engine(lambda: open_world(exchange, ()), exchange)
for length in [0, 1, engine.size + 1, 40_000]:
    for dtype in (np.float32, np.float64, np.int64, np.uint8):
        data = engine.all_reduce(np.full(length, engine.rank + 1, dtype))
        np.testing.assert_array_equal(data, engine.size * (engine.size + 1) // 2)
engine.close()
print(f"rank {engine.rank} of {engine.size}: equal")
