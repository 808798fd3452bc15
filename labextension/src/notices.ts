import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { timeOfDay } from './format';
import { Heard } from './heard';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { statusOf } from './parking_view';
import { kernelLabel } from './share_view';
import { Kernel, Notice } from './wire';

const HOUR_S = 3600;

/** What is no news any more is not told to a page that was opened later, unless something was lost. */
const NEWS_S = 60;

interface INoticesOptions {
  model: IGpuShareModel;
  heard: Heard;
  /** Whether the user sees the notebook of this kernel. */
  isVisible: (kernelId: string) => boolean;
  keep: (seconds: number, kernelId: string) => void;
  park: (kernelId: string) => void;
  trans: TranslationBundle;
}

/** Tells what people should hear once: that a countdown began before their eyes, how a resume went, what was lost. */
export class Notices implements IDisposable {
  constructor(private readonly _options: INoticesOptions) {
    _options.model.changed.connect(this._review, this);
  }

  /** Whether the user wants to be warned of a countdown. */
  warnsBeforeParking = true;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._options.model.changed.disconnect(this._review, this);
  }

  private _review(): void {
    const { snapshot, contact } = this._options.model;
    if (contact !== 'live' || !snapshot) {
      return;
    }
    snapshot.notices
      .filter(notice => this._isNews(notice))
      .forEach(notice => {
        this._tell(notice);
      });
    this._withdraw(snapshot.kernels);
    if (this.warnsBeforeParking) {
      snapshot.kernels
        .filter(kernel => this._isWorthAWarning(kernel))
        .forEach(kernel => {
          this._warn(kernel);
        });
    }
  }

  private _isNews({ id, kind, at, message }: Notice): boolean {
    const { model, heard } = this._options;
    if (heard.has(id) || (kind !== 'loss' && model.serverNow - at > NEWS_S)) {
      return false;
    }
    heard.add(id);
    // Who pressed Release has the reason before them in the dialog.
    return !(message.code === 'CANNOT_PARK' && wasReleased(model, at));
  }

  private _tell({ kind, message }: Notice): void {
    const text = sentence(message, this._options.trans);
    switch (kind) {
      case 'loss':
        Notification.error(text, { autoClose: false });
        break;
      case 'warning':
        Notification.warning(text, { autoClose: 10_000 });
        break;
      case 'info':
        Notification.info(text, { autoClose: 5_000 });
    }
  }

  private _isWorthAWarning(kernel: Kernel): boolean {
    const { heard, isVisible } = this._options;
    return (
      statusOf(kernel) === 'counting_down' &&
      isVisible(kernel.id) &&
      !heard.has(countdownId(kernel)) &&
      !this._warnings.has(kernel.id)
    );
  }

  private _warn(kernel: Kernel): void {
    const { heard, keep, park, trans } = this._options;
    const at = timeOfDay(kernel.parking?.parks_at ?? 0);
    heard.add(countdownId(kernel));
    const text = trans.__(
      'Nothing is lost: the GPU memory of %1 moves to host memory at %2, and comes back with your next cell.',
      kernelLabel(kernel),
      at
    );
    const actions = [
      {
        label: trans.__('Keep 1 h'),
        callback: () => {
          keep(HOUR_S, kernel.id);
        }
      },
      {
        label: trans.__('Release'),
        callback: () => {
          park(kernel.id);
        }
      }
    ];
    this._warnings.set(kernel.id, Notification.warning(text, { autoClose: false, actions }));
  }

  /** A warning of what is no longer about to happen would be false. */
  private _withdraw(kernels: readonly Kernel[]): void {
    const counting = new Set(
      kernels.filter(kernel => statusOf(kernel) === 'counting_down').map(({ id }) => id)
    );
    [...this._warnings]
      .filter(([kernelId]) => !counting.has(kernelId))
      .forEach(([kernelId, id]) => {
        Notification.dismiss(id);
        this._warnings.delete(kernelId);
      });
  }

  private readonly _warnings = new Map<string, string>();
  private _isDisposed = false;
}

/** One countdown of one kernel: the next one may be warned of again. */
function countdownId({ id, parking }: Kernel): string {
  return `countdown ${id} ${Math.round(parking?.since ?? 0)}`;
}

function wasReleased({ snapshot }: IGpuShareModel, at: number): boolean {
  return (snapshot?.releases ?? []).some(
    ({ level, status, ended }) => level === 'park' && status === 'failed' && Math.abs((ended ?? 0) - at) < 5
  );
}
