import { Device, Kernel, Snapshot } from './wire';

/** How one device is divided, in bytes. What is not known is null, and then nothing is said to be free. */
export interface IDeviceParts {
  mine: number | null;
  /** Guaranteed to this session and unused: nobody else can be promised it. */
  kept: number;
  others: number | null;
  /** In use, but the driver does not say by whom. */
  unattributed: number;
  free: number | null;
}

/** Divide *device* as its bar shows it. */
export function divide(device: Device, snapshot: Snapshot): IDeviceParts {
  const mine = device.mine.value;
  const others = device.others.value;
  const used = device.used.value;
  if (mine === null || others === null) {
    const free = used === null ? null : Math.max(0, device.usable - used);
    return { mine: null, kept: 0, others: null, unattributed: used ?? 0, free };
  }
  const room = Math.max(0, device.usable - mine - others);
  const kept = Math.min(room, Math.max(0, promised(device, snapshot) - mine));
  return { mine, kept, others, unattributed: 0, free: room - kept };
}

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

/** The server sums a share over its devices, which all get the same part. */
function promised(device: Device, snapshot: Snapshot): number {
  const { request, devices } = snapshot.share;
  return devices.includes(device.uuid) ? (request ?? 0) / devices.length : 0;
}
