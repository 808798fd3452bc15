import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';

import { IGpuShareModel } from './model';

/** A widget for whose sake the server is asked, while it is shown. */
export abstract class WatchingWidget extends ReactWidget {
  constructor(protected readonly model: IGpuShareModel) {
    super();
  }

  override dispose(): void {
    this._watch(false);
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._watch(this.isVisible);
  }

  protected override onBeforeDetach(message: Message): void {
    this._watch(false);
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._watch(true);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._watch(false);
  }

  private _watch(isShown: boolean): void {
    if (isShown) {
      this._watching ??= this.model.watch();
      this.onWatch();
    } else {
      this._watching?.dispose();
      this._watching = null;
    }
    this.update();
  }

  /** Called whenever it comes to be shown. */
  protected onWatch(): void {
    // Most have nothing to fetch.
  }

  private _watching: IDisposable | null = null;
}
