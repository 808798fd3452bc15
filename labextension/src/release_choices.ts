import { TranslationBundle } from '@jupyterlab/translation';

import { memory } from './format';
import { sentence } from './message';
import { refusalInWords } from './outlook';
import { canPark, isAway } from './parking_view';
import { inRowOrder, kernelLabel, mayHold } from './share_view';
import { Kernel, Snapshot } from './wire';

/** One level of release, as people choose it. */
export interface IReleaseChoice {
  level: string;
  label: string;
  /** What it does, and what of the user's is lost by it. */
  does: string;
  loses: string;
  /** Whether it is about one kernel. */
  needsKernel: boolean;
  endsKernels: boolean;
}

/** The levels of *snapshot*'s server in the order of what they cost; the first that can be done is the one proposed. */
export function releaseChoices(snapshot: Snapshot, trans: TranslationBundle): IReleaseChoice[] {
  const parks = snapshot.kernels.some(({ parking }) => parking !== null);
  return [
    ...(parks ? [parkChoice(trans)] : []),
    {
      level: 'free_cache',
      label: trans.__('Free cached memory'),
      does: trans.__('The kernel gives back memory that its frameworks keep in reserve.'),
      loses: trans.__('Nothing is lost: every variable stays.'),
      needsKernel: true,
      endsKernels: false
    },
    {
      level: 'end_kernel',
      label: trans.__("End this notebook's kernel"),
      does: trans.__('All GPU memory of this notebook is given back.'),
      loses: trans.__('Its variables are lost. The notebook and saved files stay.'),
      needsKernel: true,
      endsKernels: true
    },
    {
      level: 'end_all',
      label: trans.__('End all GPU kernels'),
      does: trans.__('Every kernel of this server that holds GPU memory ends.'),
      loses: trans.__('Their variables are lost. Notebooks and saved files stay.'),
      needsKernel: false,
      endsKernels: true
    }
  ];
}

function parkChoice(trans: TranslationBundle): IReleaseChoice {
  return {
    level: 'park',
    label: trans.__('Park'),
    does: trans.__('All GPU memory of this notebook moves to host memory. Its next cell brings it back.'),
    loses: trans.__('Nothing is lost: the kernel and every variable stay alive.'),
    needsKernel: true,
    endsKernels: false
  };
}

/** Kernels that a release can be about. */
export function releasableKernels(snapshot: Snapshot): Kernel[] {
  return inRowOrder(snapshot.kernels.filter(kernel => mayHold(kernel) || isAway(kernel)));
}

/** Which kernel to propose: the one asked for, else the one that holds most. */
export function proposedKernel(snapshot: Snapshot, askedFor: string | null): Kernel | null {
  const asked = snapshot.kernels.find(kernel => kernel.id === askedFor);
  const byMemory = releasableKernels(snapshot).sort((a, b) => (b.memory.value ?? 0) - (a.memory.value ?? 0));
  return asked ?? byMemory[0] ?? null;
}

/** Why *choice* cannot be taken for *kernel*, or "" where it can. */
export function obstacle(choice: IReleaseChoice, kernel: Kernel | null, trans: TranslationBundle): string {
  if (!choice.needsKernel) {
    return '';
  }
  if (kernel === null) {
    return trans.__('No notebook holds GPU memory.');
  }
  if (choice.level === 'park' && !canPark(kernel)) {
    return refusalInWords(kernel, trans) || trans.__('Not possible for %1 now.', kernelLabel(kernel));
  }
  if (kernel.levels.includes(choice.level)) {
    return '';
  }
  const why = kernel.note ? sentence(kernel.note, trans) : '';
  return trans.__('Not possible for %1. %2', kernelLabel(kernel), why).trim();
}

/** "train.ipynb, 6.1 GB", as the list of kernels shows it. */
export function kernelOption(kernel: Kernel, trans: TranslationBundle): string {
  const parked = kernel.parking?.memory ?? null;
  return isAway(kernel)
    ? trans.__('%1, %2 parked', kernelLabel(kernel), memory(parked, trans))
    : `${kernelLabel(kernel)}, ${memory(kernel.memory.value, trans)}`;
}
