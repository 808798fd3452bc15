import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { Bar } from './bar';
import { duration, explain, memory, partOf, percent } from './format';
import { sentence } from './message';
import { isAway, isOfInterest } from './parking_view';
import { ParkingBar, ParkingFigures, ParkingNotes } from './row_parking';
import { inRowOrder, isRunning, kernelLabel } from './share_view';
import { GpuProcess, Kernel, Reading, Snapshot } from './wire';

interface IRowsProps {
  snapshot: Snapshot;
  actions: IPanelActions;
  trans: TranslationBundle;
}

/** A row for each kernel that holds GPU memory; the others are counted, or listed where the user wants it. */
export function NotebookRows(props: IRowsProps & { showIdle: boolean }): React.JSX.Element {
  const { snapshot, actions, trans, showIdle } = props;
  const kernels = inRowOrder(snapshot.kernels);
  const shown = kernels.filter(kernel => showIdle || isOfInterest(kernel));
  const hidden = kernels.length - shown.length;
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-notebooks">
      <h3>
        {trans.__('Notebooks')} <span>{kernels.length}</span>
      </h3>
      <ul>
        {shown.map(kernel => (
          <KernelRow key={kernel.id} kernel={kernel} snapshot={snapshot} actions={actions} trans={trans} />
        ))}
      </ul>
      {kernels.length === 0 && <p>{trans.__('No kernel is running.')}</p>}
      {hidden > 0 && (
        <p data-testid="gpushare-empty-kernels">
          {trans._n('%1 notebook holds no GPU memory.', '%1 notebooks hold no GPU memory.', hidden)}
        </p>
      )}
    </section>
  );
}

/** A row for each terminal or other process of this server that holds GPU memory; nothing where there is none. */
export function ProcessRows(props: IRowsProps): React.JSX.Element | null {
  const { snapshot, trans } = props;
  if (snapshot.processes.length === 0) {
    return null;
  }
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-processes">
      <h3>
        {trans.__('Outside notebooks')} <span>{snapshot.processes.length}</span>
      </h3>
      <ul>
        {snapshot.processes.map(process => (
          <li
            key={`${process.kind}:${process.name}:${process.pid}`}
            className="jp-gpushare-Row"
            data-testid="gpushare-process-row"
            data-pid={process.pid}
          >
            <span className="jp-gpushare-Row-line">
              <span className="jp-gpushare-Row-name" title={process.name}>
                {process.name}
              </span>
              <Figures process={process} at={snapshot.at} trans={trans} />
            </span>
            <RowBar reading={process.memory} snapshot={snapshot} />
            <span className="jp-gpushare-Row-note">
              {trans.__('%1, process %2', kindInWords(process, trans), process.pid)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function KernelRow(props: IRowsProps & { kernel: Kernel }): React.JSX.Element {
  const { kernel, snapshot, actions, trans } = props;
  return (
    <li className="jp-gpushare-Row" data-testid="gpushare-kernel-row" data-kernel-id={kernel.id}>
      <span className="jp-gpushare-Row-line">
        <KernelName kernel={kernel} actions={actions} trans={trans} />
        {isAway(kernel) ? (
          <ParkingFigures kernel={kernel} trans={trans} />
        ) : (
          <Figures kernel={kernel} process={kernel} at={snapshot.at} trans={trans} />
        )}
      </span>
      <button
        className="jp-gpushare-Row-menu"
        aria-haspopup="menu"
        aria-label={trans.__('Actions for %1', kernelLabel(kernel))}
        title={trans.__('Open, release…')}
        data-testid="gpushare-row-menu"
        onClick={event => {
          actions.openRowMenu(kernel, event.currentTarget.getBoundingClientRect());
        }}
      >
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M8 3.2v.1M8 8v.1M8 12.8v.1" />
        </svg>
      </button>
      <ParkingBar kernel={kernel} snapshot={snapshot} />
      <ParkingNotes kernel={kernel} trans={trans} />
      {kernel.note && <span className="jp-gpushare-Row-note">{sentence(kernel.note, trans)}</span>}
    </li>
  );
}

function KernelName(props: {
  kernel: Kernel;
  actions: IPanelActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { kernel, actions, trans } = props;
  const { path } = kernel;
  const label = (
    <>
      {isRunning(kernel) && (
        <svg className="jp-gpushare-Row-play" viewBox="0 0 10 10" role="img" aria-label={trans.__('running')}>
          <path d="M2 1l7 4-7 4z" />
        </svg>
      )}
      {kernelLabel(kernel)}
    </>
  );
  if (path === null) {
    return <span className="jp-gpushare-Row-name">{label}</span>;
  }
  return (
    <button
      className="jp-gpushare-Row-name"
      title={isRunning(kernel) && kernel.running ? `${path}\n${kernel.running}` : path}
      data-testid="gpushare-open-notebook"
      onClick={() => {
        actions.openNotebook(path);
      }}
    >
      {label}
    </button>
  );
}

function Figures(props: {
  process: { memory: Reading; utilisation: Reading };
  kernel?: Kernel;
  at: number;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { process, kernel, at, trans } = props;
  return (
    <span className="jp-gpushare-Row-figures">
      <span data-testid="gpushare-row-memory" title={explain(process.memory, trans)}>
        {memory(process.memory.value, trans)}
      </span>
      {' · '}
      <span data-testid="gpushare-row-compute" title={explain(process.utilisation, trans)}>
        {(kernel && idleFor(kernel, at, trans)) ?? percent(process.utilisation.value, trans)}
      </span>
    </span>
  );
}

/**
 * How long a kernel without work has had none: it says more than "0 %". Null while it computes or for a moment. *at* is
 * by the server's clock, as is since when: a laptop's own would make minutes out of seconds.
 */
function idleFor(kernel: Kernel, at: number, trans: TranslationBundle): string | null {
  const isComputing = isRunning(kernel) || Boolean(kernel.utilisation.value);
  const seconds = kernel.idle_since === null ? 0 : at - kernel.idle_since;
  return isComputing || seconds < 60 ? null : trans.__('idle %1', duration(seconds, trans));
}

function RowBar(props: { reading: Reading; snapshot: Snapshot }): React.JSX.Element {
  const whole = props.snapshot.share.limit ?? 0;
  return <Bar kind="row" parts={[{ owner: 'mine', size: partOf(props.reading.value ?? 0, whole) }]} />;
}

function kindInWords(process: GpuProcess, trans: TranslationBundle): string {
  switch (process.kind) {
    case 'terminal':
      return trans.__('terminal');
    case 'server':
      return trans.__('the server itself');
    default:
      return trans.__('another program');
  }
}
