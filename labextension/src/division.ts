import { isHandedBack } from './parking_view';
import { Device, Snapshot } from './wire';

/** How one device is divided, in bytes. What is not known is null, and then nothing is said to be free. */
export interface IDeviceParts {
  mine: number | null;
  /** Guaranteed to this session and unused: nobody else can be promised it. */
  kept: number;
  /** Promised to this session and handed back while everything of it is parked. */
  lent: number;
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
    return { mine: null, kept: 0, lent: 0, others: null, unattributed: used ?? 0, free };
  }
  const room = Math.max(0, device.usable - mine - others);
  const kept = Math.min(room, Math.max(0, promised(device, snapshot) - mine));
  const unused = isHandedBack(snapshot) ? { kept: 0, lent: kept } : { kept, lent: 0 };
  return { mine, ...unused, others, unattributed: 0, free: room - kept };
}

/** The server sums a share over its devices, which all get the same part. */
function promised(device: Device, snapshot: Snapshot): number {
  const { request, devices } = snapshot.share;
  return devices.includes(device.uuid) ? (request ?? 0) / devices.length : 0;
}
