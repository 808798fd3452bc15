/**
 * What the server sends, checked. Mirrors `jupyter_gpushare/session/wire.py`: memory in bytes, utilisation in
 * per cent (0 to 100), times in seconds since the epoch.
 */

import { amount, flag, Guarded, list, nullable, oneOf, record, shape, text } from './guard';

export const asMessage = shape({ code: text, template: text, values: record(text), text });
export type Message = Guarded<typeof asMessage>;

const asReading = shape({ value: nullable(amount), attribution: text, reason: text });
export type Reading = Guarded<typeof asReading>;

const asDriver = shape({ vendor: text, state: text, version: text, reason: text });

const asShare = shape({
  text,
  description: text,
  source: text,
  devices: list(text),
  request: nullable(amount),
  limit: nullable(amount),
  compute: oneOf('shared', 'enforced')
});
export type Share = Guarded<typeof asShare>;

const asDevice = shape({
  uuid: text,
  index: amount,
  host: text,
  kind: text,
  name: text,
  is_mig: flag,
  total: amount,
  usable: amount,
  used: asReading,
  utilisation: asReading,
  mine: asReading,
  others: asReading,
  other_holders: nullable(amount)
});
export type Device = Guarded<typeof asDevice>;

const asKernel = shape({
  id: text,
  name: text,
  path: nullable(text),
  execution_state: text,
  busy_since: nullable(amount),
  idle_since: nullable(amount),
  running: text,
  memory: asReading,
  utilisation: asReading,
  processes: amount,
  levels: list(text),
  note: nullable(asMessage)
});
export type Kernel = Guarded<typeof asKernel>;

const asProcess = shape({ kind: text, name: text, pid: amount, memory: asReading, utilisation: asReading });
export type GpuProcess = Guarded<typeof asProcess>;

export const asRelease = shape({
  id: text,
  level: text,
  kernel_id: nullable(text),
  status: oneOf('running', 'released', 'failed'),
  started: amount,
  ended: nullable(amount),
  freed: nullable(amount),
  loss: nullable(text),
  message: asMessage
});
export type Release = Guarded<typeof asRelease>;

export const asSnapshot = shape({
  type: oneOf('snapshot'),
  seq: amount,
  at: amount,
  simulated: flag,
  driver: asDriver,
  share: asShare,
  memory: asReading,
  utilisation: asReading,
  state: asMessage,
  devices: list(asDevice),
  kernels: list(asKernel),
  processes: list(asProcess),
  releases: list(asRelease)
});
export type Snapshot = Guarded<typeof asSnapshot>;

export const asHistory = shape({
  interval_s: amount,
  at: list(amount),
  memory: list(nullable(amount)),
  utilisation: list(nullable(amount))
});
export type HistoryColumns = Guarded<typeof asHistory>;

/** The body of an error answer, so far as a person needs it; *confirm* is set where a person may agree to it. */
export const asErrorBody = shape({
  error: nullable(asMessage),
  message: nullable(text),
  confirm: nullable(text)
});

/**
 * A wish to release. Where the server wants a confirmation, it answers 409, says what would be lost, and gives what
 * stands for exactly that: sent again with it, the release begins, unless things have changed meanwhile.
 */
export interface IReleaseRequest {
  level: string;
  kernel_id: string | null;
  confirm: string;
}
