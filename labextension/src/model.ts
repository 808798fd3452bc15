import { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { Demand } from './demand';
import { Guard } from './guard';
import { History } from './history';
import { requestAPI, ResponseError } from './request';
import { FrameStream, SILENCE_MS } from './stream';
import {
  asHistory,
  asKeepAnswer,
  asPolicy,
  asRelease,
  asResumeAnswer,
  asShareAnswer,
  asSnapshot,
  IPolicyRequest,
  IReleaseRequest,
  KeepAnswer,
  Policy,
  Release,
  ShareAnswer,
  Snapshot
} from './wire';

const POLL_MS = 2_000;
const SLOWEST_POLL_MS = 30_000;

/** Frames come sooner or later by this much; a countdown must not jump for it. */
const CLOCK_JITTER_S = 1;

/**
 * How we stand with the server. *connecting*: nothing to say yet. *lost*: it was silent for too long.
 * *no_extension*: it answers, and does not know us. *forbidden*: it knows us, and we may not read.
 */
export type Contact = 'connecting' | 'live' | 'lost' | 'no_extension' | 'forbidden';

/** What the components need of the model. */
export interface IGpuShareModel {
  /** Emitted on every frame and every change of contact. */
  readonly changed: ISignal<IGpuShareModel, void>;
  /** The last that the server said, or null. Only live while `contact` is. */
  readonly snapshot: Snapshot | null;
  readonly contact: Contact;
  /** What is wrong with the contact, for a person who asks; empty while nothing is. */
  readonly trouble: string;
  readonly history: History;
  /** The time by the server's clock, in seconds since the epoch: a laptop's own may be minutes off. */
  readonly serverNow: number;
  /** Say that something is shown, until the result is disposed: without a watcher nothing is asked. */
  watch(): IDisposable;
  /** Ask now, whatever was waited for. */
  retry(): void;
  /** Fetch the snapshot once. Never rejects: see `contact`. */
  refresh(): Promise<void>;
  /** Fetch what the server remembers of the last hour. Never rejects. */
  loadHistory(): Promise<void>;
  /** Ask for a release. Rejects with a ResponseError; it has a `confirm` where the server wants a confirmation. */
  release(request: IReleaseRequest): Promise<Release>;
  /** How a release stands now. */
  fetchRelease(id: string): Promise<Release>;
  /** Bring parked GPU state back now, of one kernel or of all; gives their ids. */
  resume(kernelId: string | null): Promise<string[]>;
  /** Have one kernel, or all, not parked by itself for so many seconds; 0 for no longer. */
  keep(seconds: number, kernelId: string | null): Promise<KeepAnswer>;
  setPolicy(kernelId: string, request: IPolicyRequest): Promise<Policy>;
  /** Have one kernel, or the server and all in it, not end by itself for so many seconds; 0 for no longer. */
  keepFromEnding(seconds: number, kernelId: string | null): Promise<KeepAnswer>;
  /** Ask the broker for another share, such as "0.25..0.8". Rejects with a ResponseError that says why not. */
  requestShare(share: string): Promise<ShareAnswer>;
}

export class GpuShareModel implements IGpuShareModel, IDisposable {
  readonly history = new History();

  constructor(options: GpuShareModel.IOptions) {
    this._settings = options.serverSettings;
    this._demand = new Demand(options.page ?? document);
    this._stream = new FrameStream(this._settings, options.random);
    // Only where WebSockets are blocked or cut: started by a connection that ends without a single frame.
    this._poll = new Poll({
      auto: false,
      factory: () => this._fetchSnapshot(),
      frequency: { interval: POLL_MS, backoff: true, max: SLOWEST_POLL_MS },
      standby: 'when-hidden'
    });
    this._demand.changed.connect(this._onDemand, this);
    this._demand.looked.connect(this._dropIfSilent, this);
    this._stream.received.connect(this._onFrame, this);
    this._stream.dropped.connect(this._onDropped, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get snapshot(): Snapshot | null {
    return this._snapshot;
  }

  get contact(): Contact {
    return this._contact;
  }

  get trouble(): string {
    return this._trouble;
  }

  get serverNow(): number {
    return Date.now() / 1000 + this._aheadS;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  watch(): IDisposable {
    return this._demand.watch();
  }

  retry(): void {
    if (this._contact !== 'live') {
      this._setContact('connecting');
      this._stream.reopen();
      void this.refresh();
    }
  }

  async refresh(): Promise<void> {
    await this._fetchSnapshot().catch(() => undefined); // the contact says it
  }

  async loadHistory(): Promise<void> {
    this._historyWanted = true;
    try {
      this.history.load(await requestAPI('history', asHistory, this._settings));
    } catch (error) {
      this._trouble = describe(error);
      return;
    }
    this._changed.emit();
  }

  release(request: IReleaseRequest): Promise<Release> {
    return this._send('POST', 'releases', asRelease, request);
  }

  fetchRelease(id: string): Promise<Release> {
    return requestAPI(`releases/${encodeURIComponent(id)}`, asRelease, this._settings);
  }

  async resume(kernelId: string | null): Promise<string[]> {
    const answer = await this._send('POST', 'resumes', asResumeAnswer, { kernel_id: kernelId });
    return answer.kernel_ids;
  }

  keep(seconds: number, kernelId: string | null): Promise<KeepAnswer> {
    return this._send('POST', 'keep', asKeepAnswer, { seconds, kernel_id: kernelId });
  }

  setPolicy(kernelId: string, request: IPolicyRequest): Promise<Policy> {
    return this._send('PUT', `kernels/${encodeURIComponent(kernelId)}/policy`, asPolicy, request);
  }

  keepFromEnding(seconds: number, kernelId: string | null): Promise<KeepAnswer> {
    return this._send('POST', 'culling/keep', asKeepAnswer, { seconds, kernel_id: kernelId });
  }

  requestShare(share: string): Promise<ShareAnswer> {
    return this._send('POST', 'request', asShareAnswer, { share });
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._staleTimer);
    this._demand.dispose();
    this._stream.dispose();
    this._poll.dispose();
    Signal.clearData(this);
  }

  private _send<T>(method: string, endPoint: string, guard: Guard<T>, body: object): Promise<T> {
    return requestAPI(endPoint, guard, this._settings, { method, body: JSON.stringify(body) });
  }

  private _onDemand(_: Demand, wanted: boolean): void {
    if (wanted) {
      this._setContact('connecting');
      this._stream.open();
      this._expectFrame();
    } else {
      clearTimeout(this._staleTimer);
      this._stream.close();
      void this._poll.stop();
      this._setContact('connecting');
    }
  }

  private _onFrame(_: FrameStream, data: unknown): void {
    try {
      const frame: unknown = typeof data === 'string' ? JSON.parse(data) : data;
      this._accept(asSnapshot(frame, 'frame'));
      void this._poll.stop();
    } catch (error) {
      // Kept for whoever asks; the silence that follows is what people see.
      this._trouble = describe(error);
    }
  }

  private _onDropped(_: FrameStream, heard: boolean): void {
    if (!heard) {
      void this._poll.start();
    }
  }

  private async _fetchSnapshot(): Promise<void> {
    try {
      this._accept(await requestAPI('session', asSnapshot, this._settings));
    } catch (error) {
      this._trouble = describe(error);
      if (this._contact !== 'live') {
        this._setContact(contactAfter(error)); // while live, frames decide: silence will show
      }
      throw error; // the poll slows down on it
    }
  }

  private _accept(snapshot: Snapshot): void {
    if (this._isDisposed) {
      return;
    }
    const wasLive = this._contact === 'live';
    this._snapshot = snapshot;
    this._trouble = '';
    this._contact = 'live';
    this._heardAt = Date.now();
    this._setClock(snapshot.at);
    this.history.append(snapshot);
    this._expectFrame();
    this._changed.emit();
    // A gap in the frames is a gap in the chart, unless the server remembers it.
    if (!wasLive && this._historyWanted) {
      void this.loadHistory();
    }
  }

  private _setClock(serverAt: number): void {
    const aheadS = serverAt - Date.now() / 1000;
    if (Math.abs(aheadS - this._aheadS) > CLOCK_JITTER_S) {
      this._aheadS = aheadS;
    }
  }

  private _expectFrame(): void {
    clearTimeout(this._staleTimer);
    this._staleTimer = setTimeout(() => {
      this._loseContact();
    }, SILENCE_MS);
  }

  /** After a sleep timers are late: judge by the clock as soon as somebody looks. */
  private _dropIfSilent(): void {
    if (this._contact !== 'connecting' && Date.now() - this._heardAt > SILENCE_MS) {
      this._loseContact();
      this.retry();
    }
  }

  private _loseContact(): void {
    if (this._contact === 'live' || this._contact === 'connecting') {
      this._setContact(this._demand.wanted ? 'lost' : 'connecting');
    }
  }

  private _setContact(contact: Contact): void {
    if (contact === 'no_extension' || contact === 'forbidden') {
      // Nothing will change by itself: asking on would only keep an idle server awake.
      clearTimeout(this._staleTimer);
      this._stream.close();
      void this._poll.stop();
    }
    if (contact !== this._contact && !this._isDisposed) {
      this._contact = contact;
      this._changed.emit();
    }
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _demand: Demand;
  private readonly _stream: FrameStream;
  private readonly _poll: Poll<void, Error>;
  private _snapshot: Snapshot | null = null;
  private _contact: Contact = 'connecting';
  private _trouble = '';
  private _heardAt = -Infinity;
  private _aheadS = 0;
  private _historyWanted = false;
  private _isDisposed = false;
  private _staleTimer: ReturnType<typeof setTimeout> | undefined;
  private _changed = new Signal<this, void>(this);
}

export namespace GpuShareModel {
  export interface IOptions {
    serverSettings: ServerConnection.ISettings;
    /** The page whose visibility counts. */
    page?: Document;
    /** Spreads reconnections over time. */
    random?: () => number;
  }
}

function contactAfter(error: unknown): Contact {
  if (error instanceof ResponseError && error.status === 404) {
    return 'no_extension';
  }
  if (error instanceof ResponseError && (error.status === 401 || error.status === 403)) {
    return 'forbidden';
  }
  return 'lost';
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
