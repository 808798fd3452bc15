import { hasNoShare, isLent, lentGpus } from './lease_view';
import { isHandedBack } from './parking_view';
import { Device, Snapshot } from './wire';

/** How one device is divided, in bytes. What is not known is null, and then nothing is said to be free. */
export interface IDeviceParts {
  mine: number | null;
  /** Guaranteed to this session and unused: nobody else can be promised it. */
  kept: number;
  /** Promised to this session and handed back while everything of it is parked. */
  handedBack: number;
  /** The part of that which training uses. */
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
    return { mine: null, kept: 0, handedBack: 0, lent: 0, others: null, unattributed: used ?? 0, free };
  }
  const lent = lentOn(device, snapshot);
  // The driver counts a borrower among the others. Where nobody tells how much of them it is, what exceeds the rest of
  // the device can only be on the lent part.
  const training = lent > 0 ? Math.min(others, lent, trainingOn(snapshot) ?? 0) : 0;
  const elsewhere = Math.min(
    others - training,
    lent > 0 ? Math.max(0, device.usable - mine - lent) : Infinity
  );
  const room = Math.max(0, device.usable - mine - lent - elsewhere);
  const unused = Math.min(room, Math.max(0, promised(device, snapshot) - mine - lent));
  const [kept, handedBack] = isHandedBack(snapshot) ? [0, unused] : [unused, 0];
  return { mine, kept, handedBack, lent, others: elsewhere, unattributed: 0, free: room - unused };
}

/** Of what is promised to this session here, the part that training uses; all of it where the server's figures make no sense. */
function lentOn(device: Device, snapshot: Snapshot): number {
  const mine = device.mine.value ?? 0;
  const unused = Math.max(0, Math.min(device.usable, promised(device, snapshot)) - mine);
  if (!isLent(snapshot)) {
    return 0;
  }
  const gpus = lentGpus(snapshot.lease?.lent_to ?? []);
  const onEach = gpus === null ? null : (gpus * device.usable) / Math.max(1, snapshot.share.devices.length);
  return onEach === null ? unused : Math.min(unused, onEach);
}

/** What training that uses this share holds on one of its devices; null where that is not known of all of it. */
export function trainingOn({ lease, share }: Snapshot): number | null {
  const held = (lease?.lent_to ?? []).reduce<number | null>(
    (sum, { memory }) => (sum === null || memory === null ? null : sum + memory),
    0
  );
  return held === null ? null : held / Math.max(1, share.devices.length);
}

/** The server sums a share over its devices, which all get the same part. */
function promised(device: Device, snapshot: Snapshot): number {
  const { share, lease } = snapshot;
  const { request, devices } = share;
  if (lease && hasNoShare(lease)) {
    return 0;
  }
  return devices.includes(device.uuid) ? (request ?? 0) / devices.length : 0;
}
