import { hasNoShare, isLeaving, isWaiting } from './lease_view';
import { IGpuShareModel } from './model';
import { hasHeldCells, isHolder, isParked, keptUntil } from './parking_view';
import { hasDevices } from './state';
import { Kernel } from './wire';

export type ButtonName = 'retry' | 'release' | 'keep' | 'resume' | 'cancel' | 'details' | 'request';

/** The buttons under the state with the code *code*: at most two, the likely one first. */
export function buttonsFor(model: IGpuShareModel, code: string): ButtonName[] {
  if (['lost', 'no_extension', 'forbidden'].includes(model.contact)) {
    return ['retry'];
  }
  if (!model.snapshot || !hasDevices(model)) {
    return [];
  }
  const { kernels, parking_mode: mode, lease } = model.snapshot;
  if (lease && hasNoShare(lease)) {
    return lease.can_request ? ['request', 'details'] : ['details'];
  }
  if (lease && (isWaiting(lease) || isLeaving(lease))) {
    return comingBack(kernels);
  }
  switch (code) {
    case 'PARKING':
      return ['details'];
    case 'WAITING_FOR_ROOM':
    case 'RESUMING':
      return comingBack(kernels);
    case 'CANNOT_PARK':
      return ['release', 'details'];
  }
  const holds = kernels.some(isHolder);
  if (code === 'PARKED' || (!holds && kernels.some(isParked))) {
    return ['resume', 'details'];
  }
  const canBeKept = mode === 'park' && (holds || keptUntil(kernels) !== null);
  return canBeKept ? ['release', 'keep'] : ['release'];
}

/** While it comes back, or waits to. */
function comingBack(kernels: readonly Kernel[]): ButtonName[] {
  return kernels.some(hasHeldCells) ? ['cancel', 'details'] : ['details'];
}
