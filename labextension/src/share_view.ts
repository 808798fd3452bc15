import { Device, Kernel, Snapshot } from './wire';

/** Whether a cell runs. Jupyter's own "busy" also counts messages that no person sent. */
export function isRunning(kernel: Kernel): boolean {
  return kernel.busy_since !== null;
}

/** What people call a kernel: its notebook's file name, or the kernel's own name where no notebook shows it. */
export function kernelLabel(kernel: Kernel): string {
  return kernel.path?.split('/').pop() ?? `${kernel.name} (${kernel.id.slice(0, 8)})`;
}

/** Whether a kernel holds GPU memory, so far as anybody can tell: unknown counts, zero does not. */
export function mayHold(kernel: Kernel): boolean {
  return kernel.memory.value !== 0;
}

/** The kernels in the order of their rows: by name, so that rows do not jump as numbers change. */
export function inRowOrder(kernels: readonly Kernel[]): Kernel[] {
  return [...kernels].sort(
    (a, b) => kernelLabel(a).localeCompare(kernelLabel(b)) || a.id.localeCompare(b.id)
  );
}

/** The session's own devices first, each group by host and index. */
export function ownDevicesFirst(snapshot: Snapshot): [Device[], Device[]] {
  const sorted = [...snapshot.devices].sort((a, b) => a.host.localeCompare(b.host) || a.index - b.index);
  const isOwn = (device: Device): boolean => snapshot.share.devices.includes(device.uuid);
  return [sorted.filter(isOwn), sorted.filter(device => !isOwn(device))];
}
