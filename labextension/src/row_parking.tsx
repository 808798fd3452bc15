import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Bar, IPart } from './bar';
import { explain, gigabytes, memory, partOf, timeOfDay } from './format';
import { statusOf } from './parking_view';
import { Kernel, Snapshot } from './wire';

interface IRowProps {
  kernel: Kernel;
  trans: TranslationBundle;
}

/** "6.1 GB parked", or how much of it has moved. */
export function ParkingFigures({ kernel, trans }: IRowProps): React.JSX.Element {
  const bytes = kernel.parking?.memory ?? null;
  const moved = isMoving(kernel) ? (kernel.parking?.moved ?? null) : null;
  return (
    <span className="jp-gpushare-Row-figures">
      <span data-testid="gpushare-row-memory" title={explain(kernel.memory, trans)}>
        {moved === null ? memory(bytes, trans) : trans.__('%1 of %2 GB', gigabytes(moved), gigabytes(bytes))}
      </span>{' '}
      <span data-testid="gpushare-row-parking">{word(kernel, trans)}</span>
    </span>
  );
}

function word(kernel: Kernel, trans: TranslationBundle): string {
  switch (statusOf(kernel)) {
    case 'parking':
      return trans.__('parking');
    case 'resuming':
      return trans.__('resuming');
    case 'waiting':
      return trans.__('parked, waits for room');
    default:
      return trans.__('parked');
  }
}

/** The bar of one kernel: blue on the GPU, indigo in host memory, orange about to go there. */
export function ParkingBar({ kernel, snapshot }: { kernel: Kernel; snapshot: Snapshot }): React.JSX.Element {
  const whole = snapshot.share.limit ?? 0;
  const parts = partsOf(kernel).map(({ owner, size }) => ({ owner, size: partOf(size, whole) }));
  return <Bar kind="row" parts={parts} />;
}

/** The parts in bytes. */
function partsOf(kernel: Kernel): IPart[] {
  const held = kernel.memory.value ?? 0;
  const parked = kernel.parking?.memory ?? 0;
  const moved = Math.min(parked, kernel.parking?.moved ?? 0);
  switch (statusOf(kernel)) {
    case 'running':
      return [{ owner: 'mine', size: held }];
    case 'counting_down':
    case 'asked':
      return [{ owner: 'changing', size: held }];
    case 'parking':
      return [
        { owner: 'parked', size: moved },
        { owner: 'changing', size: parked - moved }
      ];
    case 'resuming':
      return [
        { owner: 'mine', size: moved },
        { owner: 'parked', size: parked - moved }
      ];
    default:
      return [{ owner: 'parked', size: parked }];
  }
}

/** What else there is to know: cells that wait, and what the owner has asked for. */
export function ParkingNotes({ kernel, trans }: IRowProps): React.JSX.Element | null {
  const notes = notesOf(kernel, trans);
  return notes.length === 0 ? null : (
    <span className="jp-gpushare-Row-note" data-testid="gpushare-row-note">
      {notes.join(' · ')}
    </span>
  );
}

function notesOf({ parking }: Kernel, trans: TranslationBundle): string[] {
  if (!parking) {
    return [];
  }
  const { held, status, kept_until: keptUntil } = parking;
  return [
    ...(held > 0 ? [trans._n('%1 cell waits', '%1 cells wait', held)] : []),
    ...(status === 'asked' ? [trans.__('parks as soon as its cell has ended')] : []),
    ...(keptUntil === null ? [] : [trans.__('kept until %1', timeOfDay(keptUntil))])
  ];
}

function isMoving(kernel: Kernel): boolean {
  return ['parking', 'resuming'].includes(statusOf(kernel));
}
