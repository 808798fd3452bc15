import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

/** A proxy counts our traffic as activity: how long we go on after nobody looks any more. */
const GRACE_MS = 30_000;

/** Whether somebody looks: something of ours is shown, in a tab that is visible or was a moment ago. */
export class Demand implements IDisposable {
  constructor(
    private readonly _page: Document,
    private readonly _graceMs = GRACE_MS
  ) {
    this._page.addEventListener('visibilitychange', this._review);
  }

  /** Emitted when `wanted` changes. */
  get changed(): ISignal<this, boolean> {
    return this._changed;
  }

  /** Emitted when somebody begins to look, even where we never stopped. */
  get looked(): ISignal<this, void> {
    return this._looked;
  }

  get wanted(): boolean {
    return this._wanted;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Say that something is shown, until the result is disposed. */
  watch(): IDisposable {
    this._watchers += 1;
    this._review();
    return new DisposableDelegate(() => {
      this._watchers -= 1;
      this._review();
    });
  }

  dispose(): void {
    this._isDisposed = true;
    this._page.removeEventListener('visibilitychange', this._review);
    this._keepOn();
    Signal.clearData(this);
  }

  private _review = (): void => {
    if (this._isDisposed) {
      return;
    }
    if (this._watchers > 0 && this._page.visibilityState !== 'hidden') {
      this._keepOn();
      this._set(true);
      this._looked.emit();
    } else if (this._wanted && this._timer === undefined) {
      this._timer = setTimeout(() => {
        this._timer = undefined;
        this._set(false);
      }, this._graceMs);
    }
  };

  private _keepOn(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
  }

  private _set(wanted: boolean): void {
    if (wanted !== this._wanted) {
      this._wanted = wanted;
      this._changed.emit(wanted);
    }
  }

  private _watchers = 0;
  private _wanted = false;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _changed = new Signal<this, boolean>(this);
  private _looked = new Signal<this, void>(this);
}
