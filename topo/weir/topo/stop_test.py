# SPDX-License-Identifier: Apache-2.0
import select
import threading

import pytest

from weir.topo.stop import Interrupted, StopToken


def test_first_reason_stays() -> None:
    token = StopToken()
    assert not token.stopped
    token.raise_if_stopped()
    token.stop("orphaned")
    token.stop("interrupted")
    assert token.stopped
    with pytest.raises(Interrupted, match="orphaned") as caught:
        token.raise_if_stopped()
    assert caught.value.reason == "orphaned"


def test_sleeper_is_woken_by_a_stop() -> None:
    token = StopToken()
    threading.Thread(target=token.stop, args=("terminated",)).start()
    with pytest.raises(Interrupted, match="terminated"):
        token.sleep(1000)


def test_wait_returns_whether_it_was_stopped() -> None:
    token = StopToken()
    assert token.wait(0) is False
    token.stop("interrupted")
    assert token.wait(0) is True


def test_token_can_be_selected_on() -> None:
    token = StopToken()
    assert select.select([token], [], [], 0)[0] == []
    token.stop("interrupted")
    assert select.select([token], [], [], 0)[0] == [token]


def test_callback_is_called_once_and_can_be_removed() -> None:
    token = StopToken()
    calls: list[str] = []
    token.on_stop(lambda: calls.append("kept"))
    token.on_stop(lambda: calls.append("removed"))()
    token.stop("interrupted")
    token.stop("interrupted")
    token.on_stop(lambda: calls.append("late"))
    assert calls == ["kept", "late"]
