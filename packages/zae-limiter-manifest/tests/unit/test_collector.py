"""The collector of cycles rests while any thread reads a manifest, and goes on after the last one."""

import gc

from zae_limiter_manifest.collector import paused_collector


def test_it_goes_on_when_the_last_block_has_ended() -> None:
    assert gc.isenabled()
    first, second = paused_collector(), paused_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_it_stays_off_for_who_had_it_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
