import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { explain, gigabytes, memory, UNKNOWN } from './format';
import { IGpuShareModel } from './model';
import { hasDevices, viewState } from './state';
import { useModel } from './use_model';

/** "GPU 7.4 / 20.0 GB" in the status bar: in use and guaranteed. A click opens the panel. */
export class GpuStatusItem extends ReactWidget {
  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _open: () => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gpushare-StatusWidget');
  }

  override dispose(): void {
    this._watching?.dispose();
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this.isVisible) {
      this._watching ??= this._model.watch();
    }
  }

  protected override onBeforeDetach(message: Message): void {
    this._stopWatching();
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._watching ??= this._model.watch();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._stopWatching();
  }

  protected override render(): React.JSX.Element {
    return <StatusText model={this._model} open={this._open} trans={this._trans} />;
  }

  private _stopWatching(): void {
    this._watching?.dispose();
    this._watching = null;
  }

  private _watching: IDisposable | null = null;
}

interface IStatusProps {
  model: IGpuShareModel;
  open: () => void;
  trans: TranslationBundle;
}

/** Nothing at all on a server without GPUs, or without us: a status bar is no place for that. */
export function StatusText({ model, open, trans }: IStatusProps): React.JSX.Element | null {
  useModel(model);
  if (model.contact === 'no_extension' || model.contact === 'forbidden' || !hasDevices(model)) {
    return null;
  }
  return (
    <button
      className="jp-gpushare-Status"
      data-stale={model.contact !== 'live'}
      data-testid="gpushare-status"
      title={hint(model, trans)}
      onClick={open}
    >
      {figures(model, trans)}
    </button>
  );
}

function figures(model: IGpuShareModel, trans: TranslationBundle): string {
  const held = model.contact === 'live' ? (model.snapshot?.memory.value ?? null) : null;
  const request = model.snapshot?.share.request ?? null;
  if (request === null) {
    return held === null ? `GPU ${UNKNOWN}` : `GPU ${memory(held, trans)}`;
  }
  return trans.__('GPU %1 / %2 GB', gigabytes(held), gigabytes(request));
}

function hint(model: IGpuShareModel, trans: TranslationBundle): string {
  const { lead, rest } = viewState(model, trans);
  const { snapshot } = model;
  if (!snapshot || model.contact !== 'live') {
    return `${lead}${rest}`;
  }
  return `${lead}${rest}\n${trans.__('GPU memory in use / guaranteed.')} ${explain(snapshot.memory, trans)}`;
}
