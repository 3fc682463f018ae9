"""A server that is there for all tests of a file."""

from collections.abc import Iterator

import pytest
from serve_tools import linear_service, served


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(linear_service()) as address:
        yield address
