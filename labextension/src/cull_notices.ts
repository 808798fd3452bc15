import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { KEEP_S, roughlyLeft, topicOf, warningsOf } from './cull_view';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { CullWarning } from './wire';

/** Who closed a warning is told once more when so little is left. */
const LAST_S = 60;

interface ICullNoticesOptions {
  model: IGpuShareModel;
  keep: (seconds: number, kernelId: string | null) => void;
  trans: TranslationBundle;
}

interface IShown {
  id: string;
  text: string;
  isLast: boolean;
}

/**
 * Warns of what ends by itself, for as long as it is about to: with what is left of the time, and a way to keep it.
 * Each page of a browser warns for itself: whichever a person looks at, it says what is about to be lost.
 */
export class CullNotices implements IDisposable {
  constructor(private readonly _options: ICullNoticesOptions) {
    _options.model.changed.connect(this._review, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._options.model.changed.disconnect(this._review, this);
    this._withdraw(new Set());
  }

  private _review(): void {
    const warnings = warningsOf(this._options.model);
    this._withdraw(new Set(warnings.map(topicOf)));
    warnings.forEach(warning => {
      this._show(warning);
    });
    clearTimeout(this._timer);
    if (warnings.length > 0) {
      // Frames may be rare, and what is left goes on.
      this._timer = setTimeout(() => {
        this._review();
      }, 1000);
    }
  }

  private _show(warning: CullWarning): void {
    const { model, trans } = this._options;
    const leftS = warning.at - model.serverNow;
    // What is left comes first: Lab cuts a message after 140 characters.
    const text = `${roughlyLeft(leftS, trans)} ${sentence(warning.message, trans)}`.trim();
    const isLast = leftS <= LAST_S;
    const shown = this._shown.get(topicOf(warning));
    if (shown?.text === text) {
      return;
    }
    if (shown && (Notification.update({ id: shown.id, message: text }) || (shown.isLast && isLast))) {
      this._shown.set(topicOf(warning), { ...shown, text, isLast: shown.isLast || isLast });
    } else if (!shown || isLast) {
      const id = Notification.warning(text, { autoClose: false, actions: this._actions(warning) });
      this._shown.set(topicOf(warning), { id, text, isLast });
    }
  }

  private _actions({ can_keep: canKeep, what, kernel_id: id }: CullWarning): Notification.IAction[] {
    const { keep, trans } = this._options;
    if (!canKeep) {
      return [];
    }
    const callback = (): void => {
      keep(KEEP_S, what === 'kernel' ? id : null);
    };
    return [{ label: trans.__('Keep 1 h'), callback, displayType: 'accent' }];
  }

  /** A warning of what is no longer about to happen would be false. */
  private _withdraw(topics: ReadonlySet<string>): void {
    [...this._shown]
      .filter(([topic]) => !topics.has(topic))
      .forEach(([topic, { id }]) => {
        Notification.dismiss(id);
        this._shown.delete(topic);
      });
  }

  private readonly _shown = new Map<string, IShown>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
