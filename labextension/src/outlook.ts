import { TranslationBundle } from '@jupyterlab/translation';

import { about, memory } from './format';
import { sentence } from './message';
import { canPark, isHolder, obstacleTo } from './parking_view';
import { isRunning, kernelLabel } from './share_view';
import { Kernel, Snapshot } from './wire';

/**
 * What Release would do, known before it is pressed. *parks*: at once, nothing is lost. *refused*: parking is not
 * possible for *kernel*. *choice*: this server does not park. *nothing*: no kernel holds GPU memory.
 */
export type Outlook =
  | { kind: 'parks'; kernels: Kernel[] }
  | { kind: 'refused'; kernel: Kernel }
  | { kind: 'choice' }
  | { kind: 'nothing' };

/** The outlook of releasing one kernel, or all that hold GPU memory. */
export function outlookOf({ kernels }: Snapshot, kernelId: string | null = null): Outlook {
  const holders = kernels.filter(kernel => isHolder(kernel) && [null, kernel.id].includes(kernelId));
  const refused = holders.find(kernel => obstacleTo(kernel) !== null);
  if (holders.length === 0) {
    return { kind: 'nothing' };
  }
  if (refused) {
    return { kind: 'refused', kernel: refused };
  }
  return holders.every(canPark) ? { kind: 'parks', kernels: holders } : { kind: 'choice' };
}

/** The outlook as one line; empty where the buttons say enough. */
export function outlookInWords(outlook: Outlook, trans: TranslationBundle): string {
  switch (outlook.kind) {
    case 'parks':
      return parksInWords(outlook.kernels, trans);
    case 'refused':
      return trans.__(
        '%1 cannot be parked: %2',
        kernelLabel(outlook.kernel),
        reasonOf(outlook.kernel, trans)
      );
    default:
      return '';
  }
}

/** "Cannot park: why. What to do."; empty where it can be parked. */
export function refusalInWords(kernel: Kernel, trans: TranslationBundle): string {
  const reason = reasonOf(kernel, trans);
  return reason === '' ? '' : trans.__('Cannot park: %1', reason);
}

/** Why it cannot be parked, and what to do; empty where it can. */
function reasonOf(kernel: Kernel, trans: TranslationBundle): string {
  const reason = obstacleTo(kernel);
  const remedy = kernel.parking?.remedy ?? null;
  return [reason, reason && remedy].flatMap(message => (message ? [sentence(message, trans)] : [])).join(' ');
}

function parksInWords(kernels: readonly Kernel[], trans: TranslationBundle): string {
  const bytes = total(kernels.map(kernel => kernel.parking?.memory ?? kernel.memory.value));
  const what = bytes === null ? trans.__('your GPU memory') : memory(bytes, trans);
  const time = about(total(kernels.map(({ parking }) => parking?.expected_s ?? null)), trans);
  const when = kernels.some(isRunning)
    ? trans.__('Release parks %1 as soon as no cell runs. Nothing is lost.', what)
    : time === ''
      ? trans.__('Release parks %1. Nothing is lost.', what)
      : trans.__('Release parks %1 in %2. Nothing is lost.', what, time);
  const caution = kernels.find(({ parking }) => parking?.caution)?.parking?.caution ?? null;
  return caution ? `${when} ${sentence(caution, trans)}` : when;
}

/** The sum, null where a part is not known. */
function total(parts: readonly (number | null)[]): number | null {
  return parts.reduce<number | null>((sum, part) => (sum === null || part === null ? null : sum + part), 0);
}
