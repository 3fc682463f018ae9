"""Every test starts without the user's own data folders and with a fixed number of threads."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
