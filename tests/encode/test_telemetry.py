"""Telemetry of libraries is disabled before their import."""

import os
import subprocess
import sys


def test_onnxruntime_writes_no_device_id_or_event_queue(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    program = (
        "from thumbindex.process import disable_telemetry; disable_telemetry(); import onnxruntime"
    )
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []
