"""Owns a tokenizer that knows no text. A pipeline wants one, but we give it ids and take ids.

Making the one of a GGUF file takes several seconds, at every start.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from openvino import opset13 as ops


def silent_tokenizer() -> Any:
    """A `Tokenizer` that gives one token for every text."""
    text = ops.parameter([-1], ov.Type.string)
    text.output(0).set_names({"string_input"})
    shape = ops.concat([ops.shape_of(text), ops.constant(np.array([1], np.int64))], 0)
    outputs = []
    for name, value in (("input_ids", 0), ("attention_mask", 1)):
        output = ops.broadcast(ops.constant(np.array(value, np.int64)), shape)
        output.output(0).set_names({name})
        outputs.append(output)
    with tempfile.TemporaryDirectory(prefix="guessahead-") as folder:
        ov.save_model(ov.Model(outputs, [text], "silent"), Path(folder) / "openvino_tokenizer.xml")
        return genai.Tokenizer(folder)
