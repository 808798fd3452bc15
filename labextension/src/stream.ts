import { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { apiUrl } from './request';

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;

/** A connection that says nothing for so long is dropped: it may be cut without either end knowing. */
export const SILENCE_MS = 5_000;

/** One WebSocket to the server's stream that comes back by itself, ever more slowly. Frames are raw text. */
export class FrameStream implements IDisposable {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _random: () => number = Math.random
  ) {}

  /** A frame, as it came. */
  get received(): ISignal<this, unknown> {
    return this._received;
  }

  /** The connection ended; the value says whether it had delivered anything. */
  get dropped(): ISignal<this, boolean> {
    return this._dropped;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Connect now, whatever was waited for. Does nothing while connected or connecting. */
  open(): void {
    this._stopWaiting();
    if (this._socket || this._isDisposed) {
      return;
    }
    const socket = new this._settings.WebSocket(streamUrl(this._settings));
    let heard = false;
    const lose = (): void => {
      this._lose(heard);
    };
    socket.onmessage = event => {
      heard = true;
      this._failures = 0;
      this._listen(lose);
      this._received.emit(event.data);
    };
    socket.onclose = lose;
    this._socket = socket;
    this._listen(lose);
  }

  /** Drop a connection that went silent, and connect anew. */
  reopen(): void {
    this._letGo();
    this.open();
  }

  close(): void {
    this._stopWaiting();
    this._letGo();
    this._failures = 0;
  }

  dispose(): void {
    this._isDisposed = true;
    this.close();
    Signal.clearData(this);
  }

  private _listen(lose: () => void): void {
    clearTimeout(this._silence);
    this._silence = setTimeout(lose, SILENCE_MS);
  }

  private _lose(heard: boolean): void {
    this._letGo();
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this._failures);
    this._failures += 1;
    // Half of the delay is random, so that the tabs of a class do not return in one moment.
    this._timer = setTimeout(
      () => {
        this.open();
      },
      (delay * (1 + this._random())) / 2
    );
    this._dropped.emit(heard);
  }

  private _letGo(): void {
    const socket = this._socket;
    this._socket = null;
    clearTimeout(this._silence);
    if (socket) {
      socket.onmessage = null;
      socket.onclose = null;
      socket.close();
    }
  }

  private _stopWaiting(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
  }

  private _socket: WebSocket | null = null;
  private _failures = 0;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _silence: ReturnType<typeof setTimeout> | undefined;
  private _received = new Signal<this, unknown>(this);
  private _dropped = new Signal<this, boolean>(this);
}

function streamUrl(settings: ServerConnection.ISettings): string {
  const url = apiUrl(settings.wsUrl, 'stream');
  const withToken = settings.appendToken && settings.token !== '';
  return withToken ? `${url}&token=${encodeURIComponent(settings.token)}` : url;
}
