import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { explain, memory, percent } from './format';
import { Gauge } from './gauge';
import { isHandedBack, parkedBytes } from './parking_view';
import { Snapshot } from './wire';

interface IHeadlineProps {
  snapshot: Snapshot;
  trans: TranslationBundle;
}

/** How much do I have: the ring, the memory in use, and the share in words. */
export function Headline({ snapshot, trans }: IHeadlineProps): React.JSX.Element {
  const { memory: held, share } = snapshot;
  return (
    <div className="jp-gpushare-Headline">
      <Gauge used={held.value} guaranteed={share.request} limit={share.limit} trans={trans} />
      <div>
        <div className="jp-gpushare-Headline-figure">
          {isHandedBack(snapshot) ? (
            <Parked snapshot={snapshot} trans={trans} />
          ) : (
            <Held snapshot={snapshot} trans={trans} />
          )}
        </div>
        <div
          className="jp-gpushare-Headline-share"
          title={guarantee(snapshot, trans)}
          data-testid="gpushare-share"
        >
          {share.description}
        </div>
        <div className="jp-gpushare-Headline-share">
          {kindsInWords(snapshot)} <Compute snapshot={snapshot} trans={trans} />
        </div>
      </div>
    </div>
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
