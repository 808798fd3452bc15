import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { clock, explain, gigabytes, memory, UNKNOWN } from './format';
import { isComingBack, isWaiting, nextTick, placeInLine, speakingLease } from './lease_view';
import { IGpuShareModel } from './model';
import { isHandedBack, nextParksAt, parkedBytes } from './parking_view';
import { hasDevices, viewState } from './state';
import { useModel } from './use_model';
import { useTick } from './use_tick';
import { WatchingWidget } from './watching_widget';

/** "GPU 7.4 / 20.0 GB" in the status bar: in use and guaranteed. A click opens the panel. */
export class GpuStatusItem extends WatchingWidget {
  constructor(
    model: IGpuShareModel,
    private readonly _open: () => void,
    private readonly _trans: TranslationBundle
  ) {
    super(model);
    this.addClass('jp-gpushare-StatusWidget');
  }

  protected override render(): React.JSX.Element {
    return <StatusText model={this.model} open={this._open} trans={this._trans} />;
  }
}

interface IStatusProps {
  model: IGpuShareModel;
  open: () => void;
  trans: TranslationBundle;
}

/** Nothing at all on a server without GPUs, or without us: a status bar is no place for that. */
export function StatusText({ model, open, trans }: IStatusProps): React.JSX.Element | null {
  useModel(model);
  useTick(model, nextTick(model.snapshot));
  if (model.contact === 'no_extension' || model.contact === 'forbidden' || !hasDevices(model)) {
    return null;
  }
  return (
    <button
      className="jp-gpushare-Status"
      data-stale={model.contact !== 'live'}
      data-parking={parkingOf(model)}
      data-testid="gpushare-status"
      title={hint(model, trans)}
      onClick={open}
    >
      {figures(model, trans)}
    </button>
  );
}

function figures(model: IGpuShareModel, trans: TranslationBundle): string {
  const { snapshot } = model;
  const lease = snapshot?.lease ?? null;
  switch (parkingOf(model)) {
    case 'waiting':
      return lease?.place ? trans.__('GPU: %1', placeInLine(lease.place, trans)) : trans.__('GPU: waiting');
    case 'leaving':
      return trans.__('GPU back in %1', clock((lease?.deadline ?? 0) - model.serverNow));
    case 'no_share':
      return trans.__('GPU: no share');
    case 'parked':
      return trans.__('Parked %1', memory(parkedBytes(snapshot?.kernels ?? []), trans));
    case 'counting_down':
      return trans.__(
        'GPU parks in %1',
        clock((nextParksAt(snapshot?.kernels ?? []) ?? 0) - model.serverNow)
      );
  }
  const held = model.contact === 'live' ? (model.snapshot?.memory.value ?? null) : null;
  const request = model.snapshot?.share.request ?? null;
  if (request === null) {
    return held === null ? `GPU ${UNKNOWN}` : `GPU ${memory(held, trans)}`;
  }
  return trans.__('GPU %1 / %2 GB', gigabytes(held), gigabytes(request));
}

type Told = 'parked' | 'counting_down' | 'waiting' | 'leaving' | 'no_share';

/** What there is to say instead of figures; only while it is live. */
function parkingOf({ contact, snapshot }: IGpuShareModel): Told | undefined {
  if (contact !== 'live' || !snapshot) {
    return undefined;
  }
  const lease = speakingLease(snapshot);
  if (lease) {
    return isComingBack(lease) ? 'leaving' : isWaiting(lease) ? 'waiting' : 'no_share';
  }
  if (snapshot.state.code === 'COUNTING_DOWN' && nextParksAt(snapshot.kernels) !== null) {
    return 'counting_down';
  }
  return isHandedBack(snapshot) ? 'parked' : undefined;
}

function hint(model: IGpuShareModel, trans: TranslationBundle): string {
  const { lead, rest } = viewState(model, trans);
  const { snapshot } = model;
  if (!snapshot || model.contact !== 'live') {
    return `${lead}${rest}`;
  }
  return `${lead}${rest}\n${trans.__('GPU memory in use / guaranteed.')} ${explain(snapshot.memory, trans)}`;
}
