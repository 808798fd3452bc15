"""The REST routes: each parses, asks the session one question and answers with a wire type."""

from __future__ import annotations

from http.client import responses
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.web import HTTPError

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.errors import PublicError, bad_request, forbidden, unknown_kernel
from jupyter_gpushare.session.openapi import document
from jupyter_gpushare.session.principal import KernelTokenMixin, permitted
from jupyter_gpushare.session.requests import (
    KeepRequest,
    PolicyRequest,
    ReleaseRequest,
    ReportAnswer,
    ReportRequest,
    ResumeAnswer,
    ResumeRequest,
    ShareRequest,
    WakeAnswer,
)
from jupyter_gpushare.session.snapshot import message_model
from jupyter_gpushare.session.wire import DevicesAnswer, ErrorAnswer, KernelsAnswer, ProcessesAnswer, ReleasesAnswer

if TYPE_CHECKING:
    from jupyter_gpushare.session.session import Session

__all__ = ["ROUTES", "GpuShareHandler"]

_BODY_LIMIT = 16 * 1024
_T = TypeVar("_T")


class GpuShareHandler(KernelTokenMixin, ExtensionHandlerMixin, APIHandler):
    """What all routes have in common: the session, JSON answers, errors for people."""

    # Looking at the share is not the user's work; it must not keep an idle server alive.
    _track_activity = False

    speaking_kernel: str | None = None

    @property
    def gpushare(self) -> Session:
        """This server's session."""
        session: Session = self.extensionapp.session  # type: ignore[attr-defined]
        return session

    def answer(self, body: msgspec.Struct | dict[str, Any], status: int = 200) -> None:
        """Finish with *body* as JSON."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(msgspec.json.encode(body))

    def read(self, kind: type[_T]) -> _T:
        """The request's body as *kind*.

        Raises:
            PublicError: 400: too long, no JSON, or a field is wrong; the message names it.
        """
        if len(self.request.body) > _BODY_LIMIT:
            raise bad_request(f"the body is longer than {_BODY_LIMIT} bytes")
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request(str(error).rstrip(".")) from None

    def keep_to_own(self, kernel_id: str | None) -> None:
        """A kernel that speaks may speak of itself only.

        Raises:
            PublicError: 403: it names another kernel, or all.
        """
        if self.speaking_kernel not in (None, kernel_id):
            raise forbidden()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with our error type; what is not meant for people stays in the log."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, PublicError):
            message = error.message
        elif isinstance(error, HTTPError) and status_code < 500:  # noqa: PLR2004
            message = Message("HTTP_ERROR", "The server refused the request: {text}.", {"text": _reason(error)})
        else:
            message = Message("INTERNAL_ERROR", "Something failed inside the server; its log says what.")
        self.set_header("Content-Type", "application/json")
        confirm = error.confirm if isinstance(error, PublicError) else ""
        self.finish(msgspec.json.encode(ErrorAnswer(message_model(message), message.text, confirm)))

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give a public error its own status."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        super().send_error(error.status if isinstance(error, PublicError) else status_code, **kwargs)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """An error for people is no fault: no traceback in the log."""
        if not isinstance(value, PublicError):
            super().log_exception(typ, value, tb)


class SessionHandler(GpuShareHandler):
    """Everything at once."""

    @permitted("read")
    async def get(self) -> None:
        """The newest snapshot, read now if the last one is old."""
        self.answer(await self.gpushare.current())


class DevicesHandler(GpuShareHandler):
    """The devices."""

    @permitted("read")
    async def get(self) -> None:
        """All devices, with others' use as a sum."""
        self.answer(DevicesAnswer((await self.gpushare.current()).devices))


class KernelsHandler(GpuShareHandler):
    """The kernels."""

    @permitted("read")
    async def get(self) -> None:
        """All kernels of this server with what they hold."""
        self.answer(KernelsAnswer((await self.gpushare.current()).kernels))


class KernelHandler(GpuShareHandler):
    """One kernel."""

    @permitted("read", kernels="own")
    async def get(self, kernel_id: str) -> None:
        """What this kernel may see."""
        self.keep_to_own(kernel_id)
        view = await self.gpushare.view(kernel_id)
        if view is None:
            raise unknown_kernel(kernel_id)
        self.answer(view)


class ReportHandler(GpuShareHandler):
    """What a kernel counted itself."""

    @permitted("write", kernels="only")
    async def post(self, kernel_id: str) -> None:
        """Take the number; say whether it is of use."""
        if self.speaking_kernel != kernel_id:
            raise forbidden()
        self.answer(ReportAnswer(wanted=self.gpushare.take_report(kernel_id, self.read(ReportRequest).memory)))


class ProcessesHandler(GpuShareHandler):
    """GPU use outside kernels."""

    @permitted("read")
    async def get(self) -> None:
        """Terminals and other processes of this server that hold a device."""
        self.answer(ProcessesAnswer((await self.gpushare.current()).processes))


class HistoryHandler(GpuShareHandler):
    """The recent past."""

    @permitted("read")
    async def get(self) -> None:
        """Memory and compute of this session over the last hour."""
        self.answer(self.gpushare.past())


class ReleasesHandler(GpuShareHandler):
    """Releases."""

    @permitted("read")
    async def get(self) -> None:
        """The newest releases, oldest first."""
        self.answer(ReleasesAnswer([release.model() for release in self.gpushare.releases.all()]))

    @permitted("write", kernels="own")
    async def post(self) -> None:
        """Begin one; 409 announces what the owner has to confirm first."""
        request = self.read(ReleaseRequest)
        self.keep_to_own(request.kernel_id)
        self.answer((await self.gpushare.releases.start(request)).model(), status=202)


class ReleaseHandler(GpuShareHandler):
    """One release."""

    @permitted("read", kernels="own")
    async def get(self, release_id: str) -> None:
        """How it stands."""
        release = self.gpushare.releases.get(release_id)
        self.keep_to_own(release.request.kernel_id)
        self.answer(release.model())


class ResumesHandler(GpuShareHandler):
    """Bringing parked GPU state back."""

    @permitted("write", kernels="own")
    async def post(self) -> None:
        """Begin; the kernels' own `parking` says how it goes."""
        request = self.read(ResumeRequest)
        self.keep_to_own(request.kernel_id)
        self.answer(ResumeAnswer(self.gpushare.parking.wishes.resume(request.kernel_id)), status=202)


class KeepHandler(GpuShareHandler):
    """Timed locks."""

    @permitted("write", kernels="own")
    async def post(self) -> None:
        """Keep one kernel, or all, from being parked by itself for a while."""
        request = self.read(KeepRequest)
        self.keep_to_own(request.kernel_id)
        self.answer(self.gpushare.parking.wishes.keep(request.seconds, request.kernel_id))


class CullingKeepHandler(GpuShareHandler):
    """Timed locks against what a hub's admin lets end by itself."""

    @permitted("write")
    async def post(self) -> None:
        """Keep one kernel, or the server, from that for a while."""
        request = self.read(KeepRequest)
        self.answer(await self.gpushare.culling.keep(request.seconds, request.kernel_id))


class RequestHandler(GpuShareHandler):
    """Another share."""

    @permitted("write", kernels="own")
    async def post(self) -> None:
        """Ask the broker for it; 409 says why it cannot be had."""
        self.answer(await self.gpushare.lease.request(self.read(ShareRequest).share))


class PolicyHandler(GpuShareHandler):
    """When one kernel is parked by itself."""

    @permitted("write", kernels="own")
    async def put(self, kernel_id: str) -> None:
        """Take the owner's word; what holds now."""
        self.keep_to_own(kernel_id)
        self.answer(self.gpushare.parking.wishes.set_policy(kernel_id, self.read(PolicyRequest)))


class WakeHandler(GpuShareHandler):
    """A kernel that holds a message itself, from a client that does not go through the server."""

    @permitted("write", kernels="only")
    async def post(self, kernel_id: str) -> None:
        """Bring it back for that."""
        self.keep_to_own(kernel_id)
        self.gpushare.parking.wishes.wake_from_inside(kernel_id)
        self.answer(WakeAnswer())


class ParkingHandler(GpuShareHandler):
    """What parking did, or would have done."""

    @permitted("read")
    async def get(self) -> None:
        """The report."""
        self.answer(self.gpushare.parking.observer.report())


class DocumentHandler(GpuShareHandler):
    """The description of this API."""

    @permitted("read")
    async def get(self) -> None:
        """The OpenAPI document."""
        self.answer(document())


def _reason(error: HTTPError) -> str:
    if error.log_message:
        return (error.log_message % error.args if error.args else error.log_message).rstrip(".")
    return error.reason or responses.get(error.status_code, "no reason was given")


_API = r"/gpushare/api/v1"
_KERNEL = r"(?P<kernel_id>[\w.-]{1,64})"

ROUTES = [
    (rf"{_API}/session", SessionHandler),
    (rf"{_API}/devices", DevicesHandler),
    (rf"{_API}/kernels", KernelsHandler),
    (rf"{_API}/kernels/{_KERNEL}", KernelHandler),
    (rf"{_API}/kernels/{_KERNEL}/report", ReportHandler),
    (rf"{_API}/processes", ProcessesHandler),
    (rf"{_API}/history", HistoryHandler),
    (rf"{_API}/releases", ReleasesHandler),
    (rf"{_API}/releases/(?P<release_id>[0-9a-f]{{1,32}})", ReleaseHandler),
    (rf"{_API}/resumes", ResumesHandler),
    (rf"{_API}/keep", KeepHandler),
    (rf"{_API}/culling/keep", CullingKeepHandler),
    (rf"{_API}/request", RequestHandler),
    (rf"{_API}/kernels/{_KERNEL}/policy", PolicyHandler),
    (rf"{_API}/kernels/{_KERNEL}/wake", WakeHandler),
    (rf"{_API}/parking", ParkingHandler),
    (rf"{_API}/openapi.json", DocumentHandler),
]
