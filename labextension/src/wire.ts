/**
 * What the server sends, checked. Mirrors `jupyter_gpushare/session/wire.py`: memory in bytes, utilisation in
 * per cent (0 to 100), times in seconds since the epoch.
 */

import {
  amount,
  flag,
  Guarded,
  list,
  nullable,
  oneOf,
  oneOfOrElse,
  orElse,
  record,
  shape,
  text
} from './guard';

export const asMessage = shape({ code: text, template: text, values: record(text), text });
export type Message = Guarded<typeof asMessage>;

/** *asked*: parks as soon as its cell has ended. *waiting*: for room on the device, before it resumes. */
export type ParkStatus =
  'running' | 'counting_down' | 'asked' | 'parking' | 'parked' | 'waiting' | 'resuming';

export type ParkingMode = 'off' | 'observe' | 'park';

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

export const asPolicy = shape({
  idle_timeout_s: nullable(amount),
  source: text,
  allow_background_work: orElse(flag, false),
  allow_foreign: orElse(flag, false),
  pool: orElse(text, '')
});
export type Policy = Guarded<typeof asPolicy>;

const asParking = shape({
  status: oneOfOrElse<ParkStatus>(
    'running',
    'counting_down',
    'asked',
    'parking',
    'parked',
    'waiting',
    'resuming'
  ),
  since: amount,
  message: asMessage,
  memory: nullable(amount),
  moved: nullable(amount),
  expected_s: nullable(amount),
  parks_at: nullable(amount),
  kept_until: nullable(amount),
  held: orElse(amount, 0),
  refusal: nullable(asMessage),
  remedy: nullable(asMessage),
  caution: nullable(asMessage),
  policy: nullable(asPolicy)
});
export type Parking = Guarded<typeof asParking>;

const asNotice = shape({
  id: text,
  at: amount,
  kind: oneOfOrElse<'info' | 'warning' | 'loss'>('info', 'warning', 'loss'),
  message: asMessage
});
export type Notice = Guarded<typeof asNotice>;

/** Training that uses what this session's share is lent to: *amount* GPUs, a decimal; *memory* on its devices, if known. */
const asLentTo = shape({ project: text, name: text, amount: text, memory: nullable(amount) });
export type LentTo = Guarded<typeof asLentTo>;

export type LeaseConnection = 'joined' | 'away' | 'refused';

export type LeaseStatus =
  | 'queued'
  | 'granted'
  | 'running'
  | 'parking'
  | 'parked'
  | 'resuming'
  | 'yielding'
  | 'missing'
  | 'ended'
  | 'failed';

/**
 * This session's lease, where a broker keeps one. *place* in line is from 1, null when it does not wait; *estimate_s*
 * is about how long it still waits; those in its way were told at *began* and must have left at *deadline*.
 */
const asLease = shape({
  connection: oneOfOrElse<LeaseConnection>('joined', 'away', 'refused'),
  since: amount,
  project: text,
  status: oneOfOrElse<LeaseStatus>(
    'running',
    'queued',
    'granted',
    'parking',
    'parked',
    'resuming',
    'yielding',
    'missing',
    'ended',
    'failed'
  ),
  message: asMessage,
  place: nullable(amount),
  estimate_s: nullable(amount),
  began: nullable(amount),
  deadline: nullable(amount),
  lent_to: orElse(list(asLentTo), []),
  can_request: orElse(flag, false),
  policy: nullable(asMessage)
});
export type Lease = Guarded<typeof asLease>;

/** Something that ends by itself *at* then; *can_keep* says whether its person may put that off. */
const asCullWarning = shape({
  what: oneOfOrElse<'kernel' | 'server'>('server', 'kernel'),
  kernel_id: nullable(text),
  at: amount,
  message: asMessage,
  can_keep: orElse(flag, false)
});
export type CullWarning = Guarded<typeof asCullWarning>;

/** What a hub's admin lets happen to a session that nobody uses: what is about to, and until when it is kept. */
const asCulling = shape({ warnings: list(asCullWarning), kept_until: nullable(amount) });
export type Culling = Guarded<typeof asCulling>;

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
  note: nullable(asMessage),
  parking: nullable(asParking)
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
  releases: list(asRelease),
  parking_mode: orElse(oneOfOrElse<ParkingMode>('off', 'observe', 'park'), 'off'),
  handed_back_s: orElse(amount, 0),
  notices: orElse(list(asNotice), []),
  lease: nullable(asLease),
  culling: nullable(asCulling)
});
export type Snapshot = Guarded<typeof asSnapshot>;

export const asHistory = shape({
  interval_s: amount,
  at: list(amount),
  memory: list(nullable(amount)),
  utilisation: list(nullable(amount)),
  parked: orElse(list(list(amount)), []),
  lent: orElse(list(list(amount)), [])
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
  /** Only for level *park*: now, or as soon as no cell runs. */
  when?: 'now' | 'idle';
}

/** The kernels that are being resumed. */
export const asResumeAnswer = shape({ kernel_ids: list(text) });

/** Until when it is kept; it may be sooner than asked for, as the admin sets a bound. */
export const asKeepAnswer = shape({ kept_until: nullable(amount), message: asMessage });
export type KeepAnswer = Guarded<typeof asKeepAnswer>;

/** What became of a wish for another share; *restart* names the notebooks where it holds only after a restart. */
export const asShareAnswer = shape({ share: asShare, message: asMessage, restart: list(text) });
export type ShareAnswer = Guarded<typeof asShareAnswer>;

/** A wish about one kernel's policy; what is left out stays, `idle_timeout_s` of null means never. */
export interface IPolicyRequest {
  idle_timeout_s?: number | null;
  allow_background_work?: boolean;
  allow_foreign?: boolean;
  /** Back to what configuration, kernel spec and notebook say. */
  reset?: boolean;
}
