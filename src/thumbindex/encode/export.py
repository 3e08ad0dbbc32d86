"""Makes the int8 graph of a model that ships none, once, in a process of its own: `python -m
thumbindex.encode.export MODEL GRAPH`.
"""

from __future__ import annotations

import inspect
import logging
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from thumbindex.encode.models import ModelCard, require_extra, run_child
from thumbindex.errors import ModelError
from thumbindex.process import forbid_telemetry

RECIPE = "int8-1"
"""Names how graphs are made; another recipe gives other vectors, so it is part of the fingerprint
and of the file's name.
"""

LAYOUT = "mapped"
"""Names how a graph lies on disk, which changes no vector: weights in a file of their own, which
processes map and share.
"""

_OPSET = 18
EXPORT_SECONDS = 600.0
"""How long to wait for an export, ours or another process's: far more than a large model takes, so
that a hang ends.
"""

_TOLERANCE = 1e-3
"""Largest difference between torch and the exported graph before quantization; float32 noise is a
hundred times smaller.
"""

_LOG = logging.getLogger(__name__)


def graph_path(card: ModelCard, cache: Path) -> Path:
    """Say where a model's graph is kept."""
    return cache / "onnx" / f"{card.weights[:32]}-{RECIPE}-{LAYOUT}.onnx"


def weights_path(graph: Path) -> Path:
    """Say where a graph's weights are kept: beside it, under the name that it holds."""
    return graph.with_name(f"{graph.name}.data")


def open_graph(card: ModelCard, cache: Path, lean: bool = False) -> Any:
    """Open an inference session of one thread on the graph that a model ships, else on one that is
    exported where it is missing or damaged.

    A `lean` one leaves the weights where they are mapped from the file: 10 MB less that no other
    process shares, half a millisecond a question.
    """
    if card.graph is not None:
        session = _load(card.graph, lean, "cannot be opened")
        if session is None:
            raise ModelError(
                f"{card.graph} is no graph that onnxruntime can open, or is damaged. Fetch "
                "the model again or name another."
            )
        return session
    path = graph_path(card, cache)
    session = _load(path, lean)
    if session is not None:
        return session
    require_extra(f"The model {card.name}, which ships no ONNX file,")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=EXPORT_SECONDS):
            session = _load(path, lean)  # another process may have made it while this one waited
            if session is not None:
                return session
            for left in path.parent.glob(f"{path.stem}.partial-*"):
                # of a process that died: this one holds the lock
                shutil.rmtree(left, ignore_errors=True)
            complaint = run_child(
                "thumbindex.encode.export", str(card.folder), str(path), seconds=EXPORT_SECONDS
            )
            session = _load(path, lean)
    except Timeout as error:
        raise ModelError(
            f"Another process has been exporting {card.name} for too long. End it and try again."
        ) from error
    except OSError as error:
        raise ModelError(
            f"{path.parent} cannot be written ({error}). Name another folder with `--set "
            "encode.embed.cache=FOLDER`."
        ) from error
    if session is None:
        raise ModelError(
            f"The model {card.name} could not be exported to onnx ({complaint}). Name "
            "another, or take `--set encode.embed.runtime=torch`."
        )
    return session


def _load(path: Path, lean: bool, trouble: str = "is damaged and is made again") -> Any:
    """Return a session, or None where the file is missing or no graph."""
    if not path.is_file():
        return None
    forbid_telemetry()
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # texts run side by side instead, which is faster
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if lean:
        options.add_session_config_entry("session.disable_prepacking", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (
        state.Fail,
        state.InvalidProtobuf,
        state.InvalidGraph,
        state.InvalidArgument,
        state.RuntimeException,
        state.NotImplemented,
    ) as error:
        _LOG.warning("%s %s (%s)", path, trouble, error)
        return None


# ------------------------------------------------------------------ in the child process


def export(folder: Path, target: Path) -> None:
    """Export a transformer to its last hidden states, quantize its matrix products to int8 per
    channel, and put it in place.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    model = AutoModel.from_pretrained(
        folder, attn_implementation="eager", local_files_only=True
    ).eval()
    with tempfile.TemporaryDirectory(
        dir=target.parent, prefix=f"{target.stem}.partial-"
    ) as partial:
        exact, small = Path(partial, "exact.onnx"), Path(partial, target.name)
        _trace(model, exact)
        _compare(model, exact)
        quantize_dynamic(
            exact,
            small,
            per_channel=True,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            use_external_data_format=True,
        )
        # the graph last: what has it has both
        for made, place in ((weights_path(small), weights_path(target)), (small, target)):
            with made.open("rb+") as file:
                os.fsync(file.fileno())  # a power cut must not leave a name without its content
            made.replace(place)


def _inputs(model: Any, length: int) -> dict[str, Any]:
    """Make ids of one text; the numbers do not matter, only that they are words of the
    vocabulary.
    """
    import torch

    ids = torch.arange(length)[None] % min(1000, model.config.vocab_size)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if (
        "token_type_ids" in inspect.signature(model.forward).parameters
        and getattr(model.config, "type_vocab_size", 0) > 1
    ):
        inputs["token_type_ids"] = torch.zeros_like(ids)
    return inputs


def _trace(model: Any, path: Path) -> None:
    import torch

    class LastHiddenState(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, names: list[str]) -> None:
            super().__init__()
            self.model = model
            self.names = names

        def forward(self, *values: Any) -> Any:
            return self.model(**dict(zip(self.names, values, strict=True))).last_hidden_state

    inputs = _inputs(model, 8)
    torch.onnx.export(
        # the exporter restores this mode, dropout included, in the model too
        LastHiddenState(list(inputs)).eval(),
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "sequence"} for name in [*inputs, "last_hidden_state"]},
        opset_version=_OPSET,
        dynamo=False,
    )


def _compare(model: Any, path: Path) -> None:
    """Raise ValueError where the graph disagrees with the model at lengths that it was not traced
    with.
    """
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for length in (3, 50):
        inputs = _inputs(model, length)
        with torch.inference_mode():
            expected = model(**inputs).last_hidden_state.numpy()
        actual = session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]
        if actual.shape != expected.shape or abs(actual - expected).max() > _TOLERANCE:
            raise ValueError(f"the graph of {model.config.model_type} differs from the model")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    forbid_telemetry()
    os.environ["HF_HUB_OFFLINE"] = "1"
    export(Path(sys.argv[1]), Path(sys.argv[2]))
