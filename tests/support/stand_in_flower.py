"""What `fairshares.flower` uses of Flower, where Flower is not installed: messages, and averaging by FedAvg.

With Flower installed the same tests run on it, so what is here does as Flower 1.41 does.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

Record = dict[str, Any]


class Array:
    def __init__(self, ndarray: Any) -> None:
        self._ndarray = np.asarray(ndarray)

    def numpy(self) -> Any:
        return self._ndarray.copy()


class ArrayRecord(Record):
    def __init__(self, arrays: Any = ()) -> None:
        if not isinstance(arrays, dict):
            arrays = {str(number): Array(array) for number, array in enumerate(arrays)}
        super().__init__(arrays)

    def to_numpy_ndarrays(self) -> list[Any]:
        return [array.numpy() for array in self.values()]


class ConfigRecord(Record):
    pass


class MetricRecord(Record):
    pass


class RecordDict(Record):
    @property
    def array_records(self) -> Record:
        return self._all(ArrayRecord)

    @property
    def config_records(self) -> Record:
        return self._all(ConfigRecord)

    @property
    def metric_records(self) -> Record:
        return self._all(MetricRecord)

    def _all(self, kind: type) -> Record:
        return {name: record for name, record in self.items() if isinstance(record, kind)}


class Error:
    def __init__(self, code: int, reason: str | None = None) -> None:
        self.code = code
        self.reason = reason


class Message:
    def __init__(
        self,
        content: "RecordDict | Error",
        dst_node_id: int | None = None,
        message_type: str | None = None,
        *,
        reply_to: "Message | None" = None,
    ) -> None:
        self._content = content
        if reply_to is not None:
            dst_node_id, source = reply_to.metadata.src_node_id, reply_to.metadata.dst_node_id
            message_type = reply_to.metadata.message_type
        else:
            source = 1
        self.metadata: Any = SimpleNamespace(
            src_node_id=source, dst_node_id=dst_node_id, message_type=message_type
        )

    def has_error(self) -> bool:
        return isinstance(self._content, Error)

    @property
    def content(self) -> Any:
        assert not self.has_error()
        return self._content

    @property
    def error(self) -> Any:
        assert self.has_error()
        return self._content


class Context:
    def __init__(
        self, run_id: int, node_id: int, node_config: Record, state: Any, run_config: Record
    ) -> None:
        self.node_config = node_config
        self.run_config = run_config


class Grid:
    pass


class Result:
    def __init__(self) -> None:
        self.arrays = ArrayRecord()


class Strategy:
    def start(self, grid: Any, initial_arrays: Any, num_rounds: int = 3, **options: Any) -> Result:
        result, arrays = Result(), initial_arrays
        self.summary()
        for number in range(1, num_rounds + 1):
            asked = self.configure_train(number, arrays, ConfigRecord(), grid)
            found, _ = self.aggregate_train(number, grid.send_and_receive(asked, timeout=options["timeout"]))
            if found is not None:
                result.arrays = arrays = found
            assert [*self.configure_evaluate(number, arrays, ConfigRecord(), grid)] == []
            assert self.aggregate_evaluate(number, []) is None
        return result

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class FedAvg(Strategy):
    weighted_by_key = "num-examples"
    arrayrecord_key = "arrays"

    def __init__(self, **options: Any) -> None:
        pass

    def summary(self) -> None:
        pass

    def configure_train(self, number: int, arrays: Any, config: Any, grid: Any) -> list[Message]:
        config["server-round"] = number
        content = RecordDict({self.arrayrecord_key: arrays, "config": config})
        return [Message(content, dst_node_id=node, message_type="train") for node in grid.get_node_ids()]

    def aggregate_train(self, number: int, replies: Any) -> tuple[Any, Any]:
        contents = [reply.content for reply in replies]
        weights = [next(iter(content.metric_records.values()))[self.weighted_by_key] for content in contents]
        mean: Record = {}
        for content, weight in zip(contents, weights, strict=True):
            (record,) = content.array_records.values()
            for name, array in record.items():
                mean[name] = mean.get(name, 0) + array.numpy() * (weight / sum(weights))
        (metrics,) = contents[0].metric_records.values()
        others = {name: value for name, value in metrics.items() if name != self.weighted_by_key}
        return ArrayRecord({name: Array(array) for name, array in mean.items()}), MetricRecord(others)


MODULES = {
    "flwr": (),
    "flwr.app": (Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict),
    "flwr.serverapp": (Grid,),
    "flwr.serverapp.strategy": (FedAvg, Result, Strategy),
}


@contextmanager
def flower() -> Iterator[ModuleType]:
    """Have `flwr.app` in the block, real or not; modules that imported what is not real are forgotten."""
    if find_spec("flwr") is not None:
        with warnings.catch_warnings(action="ignore"):  # of its own packages
            import_module("flwr.serverapp.strategy")
        identity = import_module("flwr.supercore.task_identity").TaskIdentity
        identity.run_id, identity.node_id, identity.task_id = 1, 1, 1  # of this process, as of a ServerApp's
        yield import_module("flwr.app")
        return
    for name, classes in MODULES.items():
        sys.modules[name] = ModuleType(name)
        for one in classes:
            setattr(sys.modules[name], one.__name__, one)
    try:
        yield sys.modules["flwr.app"]
    finally:
        for name in [*sys.modules]:
            if name in MODULES or name.startswith("fairshares.flower"):
                del sys.modules[name]
