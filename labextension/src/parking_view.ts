import { isRunning, mayHold } from './share_view';
import { Kernel, Message, ParkStatus, Snapshot } from './wire';

const CELL_RUNNING = 'CELL_RUNNING';

/** Where one kernel is between GPU and host memory; *running* where the server says nothing of parking. */
export function statusOf(kernel: Kernel): ParkStatus {
  return kernel.parking?.status ?? 'running';
}

/** Whether its GPU state, or part of it, is in host memory. */
export function isAway(kernel: Kernel): boolean {
  return ['parking', 'parked', 'waiting', 'resuming'].includes(statusOf(kernel));
}

/** Whether its whole GPU state is in host memory. */
export function isParked(kernel: Kernel): boolean {
  return ['parked', 'waiting'].includes(statusOf(kernel));
}

/** Whether it has GPU memory that a release could give back. */
export function isHolder(kernel: Kernel): boolean {
  return mayHold(kernel) && !isAway(kernel);
}

/** Whether the kernel has a row of its own: it computes, or its memory is somewhere. */
export function isOfInterest(kernel: Kernel): boolean {
  return mayHold(kernel) || isAway(kernel) || isRunning(kernel);
}

/** Whether the server would park it, so far as it can tell beforehand; one that computes, when its cell has ended. */
export function canPark(kernel: Kernel): boolean {
  return kernel.levels.includes('park') && !isAway(kernel) && obstacleTo(kernel) === null;
}

/** Why it cannot be parked, or null. A running cell is no obstacle: it is parked after it. */
export function obstacleTo({ parking }: Kernel): Message | null {
  return parking?.refusal && parking.refusal.code !== CELL_RUNNING ? parking.refusal : null;
}

/** Whether a cell of it waits for its GPU state. */
export function hasHeldCells(kernel: Kernel): boolean {
  return (kernel.parking?.held ?? 0) > 0 && isAway(kernel);
}

/** Bytes of all kernels that are in host memory, null where one of them is not known. */
export function parkedBytes(kernels: readonly Kernel[]): number | null {
  return kernels
    .filter(isParked)
    .map(kernel => kernel.parking?.memory ?? null)
    .reduce<number | null>((sum, bytes) => (sum === null || bytes === null ? null : sum + bytes), 0);
}

/** Whether the whole session has handed its share back: something is parked, and nothing is held. */
export function isHandedBack({ kernels, processes }: Snapshot): boolean {
  const holds = kernels.some(
    kernel => isHolder(kernel) || ['parking', 'resuming'].includes(statusOf(kernel))
  );
  return kernels.some(isParked) && !holds && processes.length === 0;
}

/** When the next countdown ends, in seconds since the epoch; null where none runs. */
export function nextParksAt(kernels: readonly Kernel[]): number | null {
  return kernels
    .filter(kernel => statusOf(kernel) === 'counting_down')
    .map(kernel => kernel.parking?.parks_at ?? null)
    .reduce<number | null>((next, at) => (at === null || (next !== null && next <= at) ? next : at), null);
}

/** Until when the first of the kept kernels is kept; null where none is. */
export function keptUntil(kernels: readonly Kernel[]): number | null {
  return kernels.reduce<number | null>((until, { parking }) => until ?? parking?.kept_until ?? null, null);
}
