import { TranslationBundle } from '@jupyterlab/translation';

import { memory } from './format';
import { ownDevicesFirst } from './share_view';
import { IShareWish } from './share_text';
import { Device, Snapshot } from './wire';

/** What *wish* would be, in GB, on the GPU it would most likely lie on. */
export function meaningOf(wish: IShareWish, snapshot: Snapshot, trans: TranslationBundle): string {
  const device = likelyDevice(wish, snapshot);
  if (!device) {
    return wish.kind === ''
      ? trans.__('No GPU is known here, so it cannot be said in GB.')
      : trans.__('No GPU of kind %1 is known here, so it cannot be said in GB.', wish.kind);
  }
  const [request, limit] = [wish.request, wish.limit].map(amount => bytesOn(device, amount, wish));
  if (request === undefined || limit === undefined || request > device.usable) {
    return trans.__('That is more than the %1 of %2.', memory(device.usable, trans), device.name);
  }
  return [
    guaranteed(wish, memory(request, trans), device, trans),
    limit > request
      ? trans.__('Up to %1 while nobody else needs it.', memory(Math.min(limit, device.usable), trans))
      : trans.__('Never more than that.')
  ].join(' ');
}

/** The part of one GPU that *bytes* are, from 0.01 to 1 and rounded up: where a slider stands. */
export function partOfGpu(bytes: number, wish: IShareWish, snapshot: Snapshot): number {
  const usable = likelyDevice(wish, snapshot)?.usable ?? 0;
  return usable > 0 ? Math.min(1, Math.ceil((100 * bytes) / usable) / 100) : 1;
}

/** The first of this session's own of that kind, else any of it, the smallest: no more is promised than there is. */
export function likelyDevice({ kind }: IShareWish, snapshot: Snapshot): Device | null {
  const [own, others] = ownDevicesFirst(snapshot);
  const fits = (device: Device): boolean => kind === '' || device.kind === kind;
  const smallestFirst = others.filter(fits).sort((a, b) => a.usable - b.usable);
  return own.find(fits) ?? smallestFirst[0] ?? null;
}

function guaranteed(wish: IShareWish, request: string, device: Device, trans: TranslationBundle): string {
  const whole = memory(device.usable, trans);
  return wish.count === 1
    ? trans.__('Guaranteed: %1 of the %2 of %3.', request, whole, device.name)
    : trans.__('Guaranteed: %1 on each of %2 GPUs like %3.', request, wish.count, device.name);
}

function bytesOn(device: Device, amount: number, { unit }: IShareWish): number {
  return unit === 'gpu' ? Math.floor(amount * device.usable) : amount;
}
