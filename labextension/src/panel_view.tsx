import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { Buttons } from './buttons';
import { CullBox } from './cull_box';
import { Devices } from './devices';
import { longDuration, timeOfDay } from './format';
import { Headline } from './headline';
import { HistoryChart } from './history_chart';
import { IGpuShareModel } from './model';
import { ConnectionLine, LentTo } from './lease_parts';
import { nextTick } from './lease_view';
import { IPanelSettings } from './panel_settings';
import { NotebookRows, ProcessRows } from './rows';
import { hasDevices, viewState } from './state';
import { StateBox } from './state_box';
import { useModel } from './use_model';
import { useTick } from './use_tick';
import { Snapshot } from './wire';

interface IPanelProps {
  model: IGpuShareModel;
  settings: IPanelSettings;
  actions: IPanelActions;
  trans: TranslationBundle;
}

/** The whole sidebar panel: how much do I have, what is happening to it, what can I do. */
export function PanelView(props: IPanelProps): React.JSX.Element {
  const { model, actions, trans } = props;
  useModel(model);
  useTick(model, nextTick(model.snapshot));
  const state = viewState(model, trans);
  const snapshot = isTellable(model) ? model.snapshot : null;
  return (
    <div
      className="jp-gpushare-Panel"
      data-contact={model.contact}
      data-stale={snapshot && model.contact !== 'live' ? true : undefined}
      data-testid="gpushare-panel"
    >
      <Header simulated={snapshot?.simulated ?? false} actions={actions} trans={trans} />
      <section className="jp-gpushare-Section">
        {snapshot && hasDevices(model) && <Headline snapshot={snapshot} actions={actions} trans={trans} />}
        {snapshot && model.contact === 'live' && <CullBox model={model} actions={actions} trans={trans} />}
        <StateBox state={state} trans={trans} />
        {snapshot && model.contact === 'live' && <ConnectionLine snapshot={snapshot} trans={trans} />}
        <Buttons model={model} actions={actions} trans={trans} state={state} />
      </section>
      {snapshot && hasDevices(model) && <Details {...props} snapshot={snapshot} />}
      {snapshot && hasDevices(model) && (
        <Footer snapshot={snapshot} isLive={model.contact === 'live'} trans={trans} />
      )}
    </div>
  );
}

function Details(props: IPanelProps & { snapshot: Snapshot }): React.JSX.Element {
  const { model, snapshot, settings, actions, trans } = props;
  return (
    <>
      <LentTo snapshot={snapshot} trans={trans} />
      <NotebookRows
        snapshot={snapshot}
        actions={actions}
        trans={trans}
        showIdle={settings.showIdleNotebooks}
      />
      <ProcessRows snapshot={snapshot} actions={actions} trans={trans} />
      <Devices snapshot={snapshot} trans={trans} />
      {settings.showHistory && <HistoryChart model={model} trans={trans} />}
    </>
  );
}

function Header(props: {
  simulated: boolean;
  actions: IPanelActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { simulated, actions, trans } = props;
  return (
    <header className="jp-gpushare-Header">
      <h2>{trans.__('GPU share')}</h2>
      {simulated && (
        <span
          className="jp-gpushare-Badge"
          title={trans.__('No real GPU is used: this machine has simulated ones.')}
          data-testid="gpushare-simulated"
        >
          {trans.__('simulated devices')}
        </span>
      )}
      <button
        className="jp-gpushare-Header-settings"
        aria-label={trans.__('Settings of the GPU share panel')}
        title={trans.__('Settings')}
        data-testid="gpushare-settings"
        onClick={() => {
          actions.openSettings();
        }}
      >
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M1 4h7m4 0h3M1 12h3m4 0h7" />
          <circle cx="10" cy="4" r="2" />
          <circle cx="6" cy="12" r="2" />
        </svg>
      </button>
    </header>
  );
}

function Footer(props: { snapshot: Snapshot; isLive: boolean; trans: TranslationBundle }): React.JSX.Element {
  const { snapshot, isLive, trans } = props;
  const at = timeOfDay(snapshot.at);
  return (
    <footer className="jp-gpushare-Footer" data-testid="gpushare-footer">
      <HandedBack seconds={snapshot.handed_back_s} trans={trans} />
      <span>{driverInWords(snapshot, trans)}</span>
      <span>{isLive ? trans.__('live') : trans.__('as of %1', at)}</span>
    </footer>
  );
}

/** What the owner's parking won for others today. Nothing where it is nothing. */
function HandedBack(props: { seconds: number; trans: TranslationBundle }): React.JSX.Element | null {
  const { seconds, trans } = props;
  if (seconds < 60) {
    return null;
  }
  const [before, after] = trans.__('Handed back today: %1 of GPU time', MARK).split(MARK);
  return (
    <span className="jp-gpushare-HandedBack" data-testid="gpushare-handed-back">
      {before}
      <b>{longDuration(seconds, trans)}</b>
      {after}
    </span>
  );
}

/** Stands for the figure while the sentence around it is translated. */
const MARK = '\u0000';

/** "NVIDIA driver 570.1", or that there is none. */
function driverInWords({ simulated, driver }: Snapshot, trans: TranslationBundle): string {
  if (simulated) {
    return trans.__('no real GPU is used');
  }
  return trans.__('%1 driver %2', driver.vendor.toUpperCase(), driver.version).trim();
}

/** Whether the last numbers still say something. Those of a server that does not know us, or that may not be read, do not. */
function isTellable(model: IGpuShareModel): boolean {
  return model.contact !== 'no_extension' && model.contact !== 'forbidden';
}
