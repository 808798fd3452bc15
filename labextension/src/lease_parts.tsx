import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { memory } from './format';
import { isLeaving, isLent, leaseAway } from './lease_view';
import { sentence } from './message';
import { LentTo as Borrower, Snapshot } from './wire';

interface ILeaseProps {
  snapshot: Snapshot;
  trans: TranslationBundle;
}

/** That the broker is away: calm, as nothing changes for what runs. Spoken when it comes to be; its time goes on in silence. */
export function ConnectionLine({ snapshot, trans }: ILeaseProps): React.JSX.Element {
  const lease = leaseAway(snapshot);
  const text = lease ? sentence(lease.message, trans) : '';
  const spoken = React.useRef({ template: '', text: '' });
  const template = lease?.message.template ?? '';
  if (spoken.current.template !== template) {
    spoken.current = { template, text };
  }
  return (
    <>
      {lease && (
        <p className="jp-gpushare-Connection" data-testid="gpushare-connection">
          {text}
        </p>
      )}
      <span className="jp-gpushare-spoken" role="status" data-testid="gpushare-connection-spoken">
        {spoken.current.text}
      </span>
    </>
  );
}

/** Who uses the share while it is parked; nothing where nobody does. */
export function LentTo({ snapshot, trans }: ILeaseProps): React.JSX.Element | null {
  const { lease } = snapshot;
  if (!lease || !isLent(snapshot)) {
    return null;
  }
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-lent-to">
      <h3>{isLeaving(lease) ? trans.__('Training that leaves') : trans.__('Lent to training')}</h3>
      <ul>
        {lease.lent_to.map((borrower, place) => (
          <BorrowerRow
            key={`${borrower.project}/${borrower.name}/${place}`}
            borrower={borrower}
            trans={trans}
          />
        ))}
      </ul>
      {!isLeaving(lease) && <p>{trans.__('Training saves its work and leaves when your next cell runs.')}</p>}
    </section>
  );
}

function BorrowerRow(props: { borrower: Borrower; trans: TranslationBundle }): React.JSX.Element {
  const { borrower, trans } = props;
  const { project, name, amount, memory: held } = borrower;
  const used = held === null ? '' : ` · ${memory(held, trans)}`;
  return (
    <li className="jp-gpushare-Row jp-gpushare-Borrower" data-testid="gpushare-borrower">
      <i data-owner="lent" aria-hidden="true" />
      <span className="jp-gpushare-Row-line">
        <span className="jp-gpushare-Row-name" title={`${project} · ${name}`}>
          {name || trans.__('training')}
        </span>
        <span className="jp-gpushare-Row-figures">{`${trans.__('%1 · %2 GPU', project, amount)}${used}`}</span>
      </span>
    </li>
  );
}
