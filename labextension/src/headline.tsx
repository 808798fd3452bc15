import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { explain, memory, percent } from './format';
import { Gauge } from './gauge';
import { hasNoShare, isWaiting, placeInLine } from './lease_view';
import { isHandedBack, parkedBytes } from './parking_view';
import { Lease, Snapshot } from './wire';

interface IHeadlineProps {
  snapshot: Snapshot;
  trans: TranslationBundle;
}

interface IActingProps extends IHeadlineProps {
  actions: IPanelActions;
}

/** How much do I have: the ring, the memory in use, and the share in words. */
export function Headline({ snapshot, actions, trans }: IActingProps): React.JSX.Element {
  const { memory: held, share, lease } = snapshot;
  const isWithout = lease !== null && hasNoShare(lease);
  return (
    <div className="jp-gpushare-Headline">
      <Gauge
        used={held.value}
        guaranteed={isWithout ? null : share.request}
        limit={share.limit}
        trans={trans}
      />
      <div>
        <div className="jp-gpushare-Headline-figure">
          <Figure snapshot={snapshot} trans={trans} />
        </div>
        <div
          className="jp-gpushare-Headline-share"
          title={guarantee(snapshot, trans)}
          data-testid="gpushare-share"
        >
          {isWithout ? trans.__('asked for %1', share.text) : share.description}
        </div>
        <div className="jp-gpushare-Headline-share">
          {kindsInWords(snapshot)} <Compute snapshot={snapshot} trans={trans} />{' '}
          {!isWithout && <ChangeShare snapshot={snapshot} actions={actions} trans={trans} />}
        </div>
      </div>
    </div>
  );
}

/** How much, in one word or figure. */
function Figure(props: IHeadlineProps): React.JSX.Element {
  const { lease } = props.snapshot;
  if (lease && hasNoShare(lease)) {
    return <WithoutShare {...props} lease={lease} />;
  }
  return isHandedBack(props.snapshot) ? <Parked {...props} /> : <Held {...props} />;
}

/** "0.0 GB of 20.0 GB" would look as if the share were there. */
function WithoutShare({ lease, trans }: IHeadlineProps & { lease: Lease }): React.JSX.Element {
  const word = isWaiting(lease) ? trans.__('Waiting') : trans.__('No share');
  return (
    <>
      <span data-testid="gpushare-memory">{word}</span>{' '}
      {lease.place !== null && <small>{placeInLine(lease.place, trans)}</small>}
    </>
  );
}

/** The way to another share, where the broker gives one. Who has none finds a larger button below. */
function ChangeShare({ snapshot, actions, trans }: IActingProps): React.JSX.Element | null {
  if (!snapshot.lease?.can_request) {
    return null;
  }
  return (
    <button
      className="jp-gpushare-Headline-change"
      title={trans.__('Ask for a larger or a smaller share, live where the GPU has room.')}
      aria-label={trans.__('Change share…')}
      aria-haspopup="dialog"
      data-testid="gpushare-change-share"
      onClick={() => {
        actions.changeShare();
      }}
    >
      {trans.__('Change…')}
    </button>
  );
}

function Held({ snapshot, trans }: IHeadlineProps): React.JSX.Element {
  const { memory: held, share } = snapshot;
  return (
    <>
      <span title={explain(held, trans)} data-testid="gpushare-memory">
        {memory(held.value, trans)}
      </span>{' '}
      {share.request !== null && <small>{trans.__('of %1', memory(share.request, trans))}</small>}
    </>
  );
}

/** "0.0 GB" would be true, and would frighten. */
function Parked({ snapshot, trans }: IHeadlineProps): React.JSX.Element {
  return (
    <>
      <span data-testid="gpushare-memory">{trans.__('Parked')}</span>{' '}
      <small title={trans.__('Safe in host memory.')}>{memory(parkedBytes(snapshot.kernels), trans)}</small>
    </>
  );
}

function Compute({ snapshot, trans }: IHeadlineProps): React.JSX.Element {
  const { share, utilisation } = snapshot;
  const sharing =
    share.compute === 'enforced'
      ? trans.__('Your part of compute is enforced.')
      : trans.__('Compute is shared: the driver gives each process equal turns.');
  return (
    <span title={`${explain(utilisation, trans)} ${sharing}`} data-testid="gpushare-compute">
      {trans.__('compute %1', percent(utilisation.value, trans))}
    </span>
  );
}

function guarantee({ share }: Snapshot, trans: TranslationBundle): string {
  const { request, limit } = share;
  return trans.__('%1 guaranteed, up to %2', memory(request, trans), memory(limit, trans));
}

/** "A100 ·", or nothing where the share lies on no device yet. */
function kindsInWords({ devices, share }: Snapshot): string {
  const kinds = new Set(devices.filter(({ uuid }) => share.devices.includes(uuid)).map(({ kind }) => kind));
  return kinds.size > 0 ? `${[...kinds].join(', ').toUpperCase()} ·` : '';
}
