import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { about, memory, timeOfDay, timeSpan } from './format';
import { LeaseDetails } from './lease_details';
import { Facts } from './facts';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { isOfInterest, isParked, obstacleTo, statusOf } from './parking_view';
import { inRowOrder, kernelLabel } from './share_view';
import { useModel } from './use_model';
import { Kernel, Policy } from './wire';

interface IDetailsProps {
  model: IGpuShareModel;
  /** The kernel to speak of, or null for all that have GPU memory somewhere. */
  kernelId: string | null;
  trans: TranslationBundle;
}

/** All there is to know of parking, live: since when, how big, what it would take, and who decided. */
export function ParkingDetails({ model, kernelId, trans }: IDetailsProps): React.JSX.Element {
  useModel(model);
  const kernels = inRowOrder(model.snapshot?.kernels ?? []).filter(
    kernel => kernel.parking && (kernelId === null ? isOfInterest(kernel) : kernel.id === kernelId)
  );
  return (
    <div className="jp-gpushare-Details" data-testid="gpushare-parking-details">
      {kernelId === null && <LeaseDetails model={model} trans={trans} />}
      {kernels.map(kernel => (
        <KernelDetails key={kernel.id} kernel={kernel} trans={trans} />
      ))}
      {kernels.length === 0 && <p>{trans.__('No notebook holds GPU memory, on the GPU or parked.')}</p>}
    </div>
  );
}

function KernelDetails({ kernel, trans }: { kernel: Kernel; trans: TranslationBundle }): React.JSX.Element {
  const says = kernel.parking ? sentence(kernel.parking.message, trans) : '';
  return (
    <section data-status={statusOf(kernel)}>
      <h3 title={kernel.path ?? undefined}>{kernelLabel(kernel)}</h3>
      {says !== '' && <p>{says}</p>}
      <Facts facts={factsOf(kernel, trans)} />
    </section>
  );
}

function factsOf(kernel: Kernel, trans: TranslationBundle): [string, string][] {
  const { parking } = kernel;
  if (!parking) {
    return [];
  }
  const { refusal, remedy, caution, kept_until: keptUntil, held, policy } = parking;
  const isOff = isParked(kernel);
  const bytes = memory(parking.memory ?? (isOff ? null : kernel.memory.value), trans);
  const isRefused = obstacleTo(kernel) !== null;
  return [
    [isOff ? trans.__('In host memory') : trans.__('GPU memory'), bytes],
    [trans.__('Parked since'), isOff ? timeOfDay(parking.since) : ''],
    [isOff ? trans.__('To resume takes') : trans.__('To park takes'), about(parking.expected_s, trans)],
    [trans.__('Waiting'), held > 0 ? trans._n('%1 cell', '%1 cells', held) : ''],
    [trans.__('Kept until'), keptUntil === null ? '' : timeOfDay(keptUntil)],
    [trans.__('Parks by itself'), policy ? policyInWords(policy, trans) : ''],
    [trans.__('Decided by'), policy ? deciderInWords(policy, trans) : ''],
    [trans.__('Also parked'), policy ? allowancesInWords(policy, trans) : ''],
    [trans.__('Cannot be parked'), isRefused && refusal ? sentence(refusal, trans) : ''],
    [trans.__('What would help'), isRefused && remedy ? sentence(remedy, trans) : ''],
    [trans.__('To know'), caution ? sentence(caution, trans) : '']
  ];
}

function policyInWords({ idle_timeout_s: timeout }: Policy, trans: TranslationBundle): string {
  return timeout === null ? trans.__('never') : trans.__('after %1 without work', timeSpan(timeout, trans));
}

function deciderInWords({ source, pool }: Policy, trans: TranslationBundle): string {
  switch (source) {
    case 'pool':
      return trans.__('set by pool %1', pool);
    case 'owner':
      return trans.__('you, for as long as the kernel lives');
    case 'notebook':
      return trans.__("the notebook's own metadata");
    case 'kernel_spec':
      return trans.__("the kernel's specification");
    default:
      return trans.__("the server's configuration");
  }
}

function allowancesInWords(policy: Policy, trans: TranslationBundle): string {
  return [
    policy.allow_background_work ? trans.__('despite background work') : '',
    policy.allow_foreign ? trans.__('despite other programs on the GPU') : ''
  ]
    .filter(words => words !== '')
    .join(', ');
}
