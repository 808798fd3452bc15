import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Facts } from './facts';
import { timeOfDay } from './format';
import { isWaiting, leaseMessage, placeInLine, waitInWords, waitsFor } from './lease_view';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { Lease } from './wire';

interface IDetailsProps {
  model: IGpuShareModel;
  trans: TranslationBundle;
}

/** All there is to know of the lease; nothing where no broker keeps one. */
export function LeaseDetails({ model, trans }: IDetailsProps): React.JSX.Element | null {
  const { snapshot, serverNow: now } = model;
  const lease = snapshot?.lease ?? null;
  if (!snapshot || !lease) {
    return null;
  }
  return (
    <section data-testid="gpushare-lease-details">
      <h3>{trans.__('Share')}</h3>
      <p>{sentence(leaseMessage(lease, snapshot.at, now, trans), trans)}</p>
      <Facts
        facts={[
          [trans.__('Share'), snapshot.share.text],
          [trans.__('Project'), lease.project],
          ...waitFacts(lease, snapshot.at, now, trans),
          [trans.__('Lent to'), lentInWords(lease, trans)],
          [trans.__('Pool'), lease.policy ? sentence(lease.policy, trans) : '']
        ]}
      />
    </section>
  );
}

function waitFacts(lease: Lease, at: number, now: number, trans: TranslationBundle): [string, string][] {
  if (!isWaiting(lease)) {
    return [];
  }
  return [
    [trans.__('Place'), lease.place === null ? '' : placeInLine(lease.place, trans)],
    [trans.__('Still waits'), waitInWords(waitsFor(lease, at, now), trans)],
    [trans.__('Waits since'), timeOfDay(lease.since)]
  ];
}

function lentInWords({ lent_to: lentTo }: Lease, trans: TranslationBundle): string {
  return lentTo
    .map(({ project, name, amount }) =>
      trans.__('%1 of %2 (%3 GPU)', name || trans.__('training'), project, amount)
    )
    .join(', ');
}
