import { nullTranslator } from '@jupyterlab/translation';

import {
  Device,
  GpuProcess,
  Kernel,
  Lease,
  LentTo,
  Message,
  Parking,
  Policy,
  Reading,
  Release,
  Snapshot
} from '../wire';

export const GB = 1e9;
export const trans = nullTranslator.load('');

export function reading(value: number | null, reason = ''): Reading {
  return { value, attribution: value === null ? 'unavailable' : 'exact', reason };
}

export function message(code: string, template: string, values: Record<string, string> = {}): Message {
  return { code, template, values, text: template };
}

export function device(changes: Partial<Device> = {}): Device {
  return {
    uuid: 'GPU-a',
    index: 0,
    host: 'node1',
    kind: 'a100',
    name: 'A100-SXM4-40GB',
    is_mig: false,
    total: 40 * GB,
    usable: 40 * GB,
    used: reading(19.4 * GB),
    utilisation: reading(80),
    mine: reading(7.4 * GB),
    others: reading(12 * GB),
    other_holders: 2,
    ...changes
  };
}

export function kernel(changes: Partial<Kernel> = {}): Kernel {
  return {
    id: 'kernel-1',
    name: 'python3',
    path: 'work/train.ipynb',
    execution_state: 'idle',
    busy_since: null,
    idle_since: null,
    running: '',
    memory: reading(6.1 * GB),
    utilisation: reading(61),
    processes: 1,
    levels: ['free_cache', 'end_kernel'],
    note: null,
    parking: null,
    ...changes
  };
}

export function policy(changes: Partial<Policy> = {}): Policy {
  return {
    idle_timeout_s: 600,
    source: 'configuration',
    allow_background_work: false,
    allow_foreign: false,
    pool: '',
    ...changes
  };
}

export function parking(changes: Partial<Parking> = {}): Parking {
  return {
    status: 'running',
    since: 1_700_000_000,
    message: message('PARKABLE', '{memory} can be parked.', { memory: '6.1 GB' }),
    memory: 6.1 * GB,
    moved: null,
    expected_s: 2,
    parks_at: null,
    kept_until: null,
    held: 0,
    refusal: null,
    remedy: null,
    caution: null,
    policy: policy(),
    ...changes
  };
}

/** A kernel of a server that parks. */
export function parkable(changes: Partial<Parking> = {}, others: Partial<Kernel> = {}): Kernel {
  return kernel({ levels: ['park', 'free_cache', 'end_kernel'], parking: parking(changes), ...others });
}

/** A kernel whose 6.1 GB are in host memory. */
export function parked(changes: Partial<Parking> = {}, others: Partial<Kernel> = {}): Kernel {
  return parkable({ status: 'parked', ...changes }, { memory: reading(0), ...others });
}

export function terminal(changes: Partial<GpuProcess> = {}): GpuProcess {
  return {
    kind: 'terminal',
    name: 'Terminal 1: python',
    pid: 4711,
    memory: reading(0.8 * GB),
    utilisation: reading(0),
    ...changes
  };
}

export function release(changes: Partial<Release> = {}): Release {
  return {
    id: 'r1',
    level: 'free_cache',
    kernel_id: 'kernel-1',
    status: 'running',
    started: 1,
    ended: null,
    freed: null,
    loss: null,
    message: message('RELEASING', 'Freeing…'),
    ...changes
  };
}

/** Training that uses half a GPU. */
export const BORROWER: LentTo = { project: 'vision', name: 'resnet-sweep', amount: '0.5', memory: null };

/** The lease of a session that has its share. */
export function lease(changes: Partial<Lease> = {}): Lease {
  return {
    connection: 'joined',
    since: 1_699_999_940,
    project: 'team-a',
    status: 'running',
    message: message('LEASE_RUNNING', 'Your share is guaranteed by {project}.', { project: 'team-a' }),
    place: null,
    estimate_s: null,
    began: null,
    deadline: null,
    lent_to: [],
    can_request: true,
    policy: null,
    ...changes
  };
}

export function snapshot(changes: Partial<Snapshot> = {}): Snapshot {
  return {
    type: 'snapshot',
    seq: 1,
    at: 1_700_000_000,
    simulated: false,
    driver: { vendor: 'nvidia', state: 'ready', version: '570.1', reason: '' },
    share: {
      text: '0.5..1',
      description: '½ GPU guaranteed, up to 1',
      source: 'configuration',
      devices: ['GPU-a'],
      request: 20 * GB,
      limit: 40 * GB,
      compute: 'shared'
    },
    memory: reading(7.4 * GB),
    utilisation: reading(62),
    state: message('ACTIVE', 'Active. {notebook} is running a cell.', { notebook: 'train.ipynb' }),
    devices: [device()],
    kernels: [kernel()],
    processes: [],
    releases: [],
    parking_mode: 'park',
    handed_back_s: 0,
    notices: [],
    lease: null,
    culling: null,
    ...changes
  };
}
