"""`python -m docs.screenshot`: the picture of a report in the README, taken by Chromium from a real run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).with_name("verify.png")

#: two mistakes that a run shows, and that fixes cure
SCRIPT = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
for step in range(100):
    x = torch.randn(16, 8)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
"""

_SIZE = "1100,1480"


def main() -> int:
    browser = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
    if browser is None:
        print("Chromium is needed for this, and is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(SCRIPT, encoding="utf-8")
        command = [sys.executable, "-m", "gradlint", "verify", "train.py", "--device", "cpu", "--html", "page.html"]
        # 1: something was confirmed
        if subprocess.run(command, cwd=folder, check=False).returncode != 1:
            return 1
        page = (Path(folder) / "page.html").as_uri()
        quiet = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        # It complains of what a machine without a desktop has not.
        subprocess.run(
            [browser, *quiet, f"--window-size={_SIZE}", f"--screenshot={PICTURE}", page],
            check=True,
            stderr=subprocess.DEVNULL,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
