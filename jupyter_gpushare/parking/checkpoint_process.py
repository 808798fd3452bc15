"""The checkpoint process: it has initialised the driver once, and makes the calls that may hang.

``python -m jupyter_gpushare.parking.checkpoint_process [--simulated DIR] [--locks DIR]``

Requests come as JSON lines on its input, answers go out as JSON lines (`calls`); its log is its standard error. It
holds the device tokens, so that they end with it, and it continues what it froze when its input closes, which is how
it learns that its server is gone.
"""

from __future__ import annotations

import argparse
import importlib
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from jupyter_gpushare.parking import stopping
from jupyter_gpushare.parking.calls import (
    LONGEST_LINE,
    Answer,
    AskDriver,
    AskState,
    CheckpointCall,
    Claim,
    DropTokens,
    Freeze,
    Lock,
    Request,
    Restore,
    TakeToken,
    Thaw,
    Unlock,
)
from jupyter_gpushare.parking.checkpoint import CheckpointError
from jupyter_gpushare.parking.device_token import DeviceTokens, TokenError, shared_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.calls import AnyCall
    from jupyter_gpushare.parking.checkpoint import Checkpoint

__all__ = ["Clerk", "main"]

# A call that runs when the server goes is left to end: half a restore would leave the kernel locked. Seconds.
_LAST_CALL_S: Final = 30.0
_PARENT_CHECK_S: Final = 5.0
_LONGEST_TEXT: Final = 500


class Clerk:
    """Carries out calls, one at a time, and keeps the order that a restore demands."""

    def __init__(self, checkpoint: Checkpoint, tokens: DeviceTokens) -> None:
        self._checkpoint = checkpoint
        self._tokens = tokens
        self._claimed: dict[str, set[str]] = {}
        self.frozen: dict[Identity, None] = {}

    def answer(self, request: Request) -> Answer:
        """Do what *request* asks for."""
        try:
            return self._do(request.id, request.do)
        except CheckpointError as trouble:
            return Answer(request.id, error=trouble.code, text=trouble.text)
        except TokenError as trouble:
            return Answer(request.id, error="not_permitted", text=str(trouble))

    def _do(self, number: int, call: AnyCall) -> Answer:
        match call:
            case AskDriver():
                return Answer(number, driver=self._checkpoint.driver())
            case AskState():
                return Answer(number, state=self._checkpoint.state(call.process))
            case TakeToken():
                return Answer(number, taken=self._tokens.take(call.device, call.holder))
        self._change(call)
        return Answer(number)

    def _change(self, call: AnyCall) -> None:
        match call:
            case Lock():
                self._checkpoint.lock(call.process, call.timeout_ms)
            case CheckpointCall():
                self._checkpoint.checkpoint(call.process)
            case Unlock():
                self._checkpoint.unlock(call.process)
            case Claim():
                self._claim(call)
            case Restore():
                self._restore(call)
            case DropTokens():
                self._claimed.pop(call.holder, None)
                self._tokens.drop(call.holder)
            case Freeze():
                self._freeze(call.processes)
            case Thaw():
                self.thaw(call.processes)

    def _claim(self, call: Claim) -> None:
        if not self._tokens.holds(call.device, call.holder):
            raise CheckpointError("illegal_state", f"{call.holder} does not hold the token of {call.device}")
        self._checkpoint.claim(call.device, call.size)
        self._claimed.setdefault(call.holder, set()).add(call.device)

    def _restore(self, call: Restore) -> None:
        """Restore, only with room proven in this very hold of the tokens: without room the kernel would be lost."""
        claimed = self._claimed.get(call.holder, set())
        for device in call.devices:
            if device not in claimed or not self._tokens.holds(device, call.holder):
                raise CheckpointError("illegal_state", f"no room was claimed for {call.holder} on {device}")
        if not call.devices:
            raise CheckpointError("illegal_state", "a restore names the devices that it takes room on")
        self._checkpoint.restore(call.process)

    def _freeze(self, processes: Sequence[Identity]) -> None:
        for process in processes:
            self.frozen[process] = None
            stopping.stop(process)

    def thaw(self, processes: Sequence[Identity]) -> None:
        """Let *processes* go on."""
        for process in processes:
            stopping.go_on(process)
            self.frozen.pop(process, None)


class _Service:
    """One thread reads requests, and sees the server go even while a call hangs in another."""

    def __init__(self, clerk: Clerk, requests: BinaryIO, answers: int) -> None:
        self._clerk = clerk
        self._requests = requests
        self._answers = answers
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="gpushare-checkpoint-calls", daemon=True)
        self._parent = os.getppid()

    def run(self) -> NoReturn:
        """Serve until the input closes."""
        self._worker.start()
        threading.Thread(target=self._watch_parent, name="gpushare-parent", daemon=True).start()
        self._say(Answer(0))
        try:
            self._read()
        finally:
            self._leave()

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(Request)
        while line := self._requests.readline(LONGEST_LINE):
            try:
                self._waiting.put(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
                print(f"checkpoint process: a request makes no sense: {trouble}", file=sys.stderr)  # noqa: T201
                return

    def _work(self) -> None:
        while (request := self._waiting.get()) is not None:
            try:
                answer = self._clerk.answer(request)
            except Exception as trouble:  # noqa: BLE001  # what a driver binding raises is nobody's to foresee
                answer = Answer(request.id, error="unknown", text=f"{type(trouble).__name__}: {trouble}")
            self._say(answer)

    def _say(self, answer: Answer) -> None:
        try:
            _write(self._answers, answer)
        except OSError:
            self._leave()

    def _watch_parent(self) -> None:
        """The input stays open if a child that the server forked has it; then only this tells that the server died."""
        never = threading.Event()
        while os.getppid() == self._parent:
            never.wait(_PARENT_CHECK_S)
        self._leave()

    def _leave(self) -> NoReturn:
        self._clerk.thaw(tuple(self._clerk.frozen))
        self._waiting.put(None)
        if threading.current_thread() is not self._worker:
            self._worker.join(_LAST_CALL_S)
        self._clerk.thaw(tuple(self._clerk.frozen))  # the last call may have been a freeze
        os._exit(0)  # a thread that hangs in the driver would keep an ordinary exit waiting


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Serve as a checkpoint process until the input closes."""
    options = _parser().parse_args(arguments)
    # Ctrl-C in the server's terminal is not for us: we end when the server closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a driver prints must not end up among the answers.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        checkpoint = _driver(options)
        checkpoint.driver()
        clerk = Clerk(checkpoint, DeviceTokens(shared_directory(options.locks)))
    except Exception as trouble:  # noqa: BLE001  # whatever it is, the server's log should have it
        _write(answers, Answer(0, error="not_permitted", text=f"{type(trouble).__name__}: {trouble}"))
        sys.exit(1)
    _Service(clerk, sys.stdin.buffer, answers).run()


def _write(answers: int, answer: Answer) -> None:
    # One write, and far below what a pipe takes at once, so that no line is ever torn.
    answer = msgspec.structs.replace(answer, text=answer.text[:_LONGEST_TEXT])
    os.write(answers, msgspec.json.encode(answer) + b"\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="checkpoint_process", description="Make a driver's checkpoint calls.")
    parser.add_argument("--simulated", type=Path, metavar="DIR", help="a simulated machine instead of CUDA's driver")
    parser.add_argument("--locks", type=Path, metavar="DIR", help="where the device tokens are")
    parser.add_argument("--import", dest="imported", metavar="MODULE:FACTORY", help="another driver, for tests")
    return parser


def _driver(options: argparse.Namespace) -> Checkpoint:
    driver: Checkpoint
    if options.imported:
        module, _, factory = options.imported.partition(":")
        driver = getattr(importlib.import_module(module), factory)()
    elif options.simulated:
        from jupyter_gpushare.parking.simulated import SimulatedCheckpoint

        driver = SimulatedCheckpoint(options.simulated)
    else:
        from jupyter_gpushare.parking.cuda import CudaCheckpoint

        driver = CudaCheckpoint()
    return driver


if __name__ == "__main__":
    main()
