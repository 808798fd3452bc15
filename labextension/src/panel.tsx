import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { IPanelActions } from './actions';
import { gpuIcon } from './icon';
import { IGpuShareModel } from './model';
import type * as View from './panel_view';
import { IPanelSettings } from './panel_settings';

/** The sidebar panel. Its view is fetched when it is first shown, and it asks the server only while it is. */
export class GpuSharePanel extends ReactWidget {
  static readonly ID = 'jupyter-gpushare-panel';

  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _actions: IPanelActions,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = GpuSharePanel.ID;
    this.addClass('jp-gpushare-PanelWidget');
    this.title.icon = gpuIcon;
    this.title.caption = _trans.__('GPU share');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _trans.__('GPU share'));
  }

  set settings(settings: IPanelSettings) {
    this._settings = settings;
    this.update();
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
      this._watching ??= this._model.watch();
      void this._load();
    } else {
      this._watching?.dispose();
      this._watching = null;
    }
    this.update();
  }

  protected override render(): React.JSX.Element | null {
    if (!this.isVisible) {
      return null;
    }
    if (!this._view) {
      return this._isMissing ? (
        <p>{this._trans.__('The panel could not be loaded. Reload the page.')}</p>
      ) : null;
    }
    const { PanelView } = this._view;
    return (
      <PanelView model={this._model} settings={this._settings} actions={this._actions} trans={this._trans} />
    );
  }

  private async _load(): Promise<void> {
    try {
      this._view ??= await import('./panel_view');
    } catch {
      this._isMissing = true; // the server is away; the next time that the panel is shown tries again
    }
    this.update();
  }

  private _settings: IPanelSettings = { showHistory: true, showIdleNotebooks: false };
  private _watching: IDisposable | null = null;
  private _view: typeof View | null = null;
  private _isMissing = false;
}
