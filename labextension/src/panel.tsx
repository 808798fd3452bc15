import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { gpuIcon } from './icon';
import { IGpuShareModel } from './model';
import type * as View from './panel_view';
import { IPanelSettings } from './panel_settings';
import { WatchingWidget } from './watching_widget';

/** The sidebar panel. Its view is fetched when it is first shown, and it asks the server only while it is. */
export class GpuSharePanel extends WatchingWidget {
  static readonly ID = 'jupyter-gpushare-panel';

  constructor(
    model: IGpuShareModel,
    private readonly _actions: IPanelActions,
    private readonly _trans: TranslationBundle
  ) {
    super(model);
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

  protected override onWatch(): void {
    void this._load();
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
      <PanelView model={this.model} settings={this._settings} actions={this._actions} trans={this._trans} />
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
  private _view: typeof View | null = null;
  private _isMissing = false;
}
