import { TranslationBundle } from '@jupyterlab/translation';

import { clock, timeOfDay } from './format';
import {
  ILeaving,
  isLeaving,
  isWaiting,
  leaseFacts,
  leaseMessage,
  leavingOf,
  speakingLease
} from './lease_view';
import { leadAndRest } from './message';
import { IGpuShareModel } from './model';
import { nextParksAt } from './parking_view';
import { Lease, Message } from './wire';

/** What a colour means, here as everywhere: see `style/tokens.css`. */
export type Tone = 'mine' | 'kept' | 'changing' | 'parked' | 'free' | 'trouble';

export type StateShape =
  | 'filled'
  | 'half'
  | 'ring'
  | 'turn'
  | 'check'
  | 'cross'
  | 'info'
  | 'clock'
  | 'flake'
  | 'queue'
  | 'pause'
  | 'pin'
  | 'leave';

/** How a state is shown: its colour is never alone, its shape says the same. */
interface IStateLook {
  tone: Tone;
  shape: StateShape;
}

const LOOKS: Partial<Record<string, IStateLook>> = {
  ACTIVE: { tone: 'mine', shape: 'filled' },
  HOLDING: { tone: 'kept', shape: 'half' },
  NOTHING_HELD: { tone: 'free', shape: 'ring' },
  RELEASING: { tone: 'changing', shape: 'turn' },
  RELEASED: { tone: 'free', shape: 'check' },
  CANNOT_RELEASE: { tone: 'trouble', shape: 'cross' },
  NO_GPU: { tone: 'free', shape: 'info' },
  NO_DRIVER: { tone: 'free', shape: 'info' },
  DRIVER_LOST: { tone: 'trouble', shape: 'cross' },
  SHARE_DOES_NOT_FIT: { tone: 'trouble', shape: 'cross' },
  MIG_WITHOUT_UTILISATION: { tone: 'mine', shape: 'info' },
  COUNTING_DOWN: { tone: 'changing', shape: 'clock' },
  ASKED: { tone: 'changing', shape: 'clock' },
  PARKING: { tone: 'changing', shape: 'turn' },
  PARKED: { tone: 'parked', shape: 'flake' },
  WAITING_FOR_ROOM: { tone: 'changing', shape: 'queue' },
  RESUMING: { tone: 'mine', shape: 'turn' },
  RESUMED: { tone: 'mine', shape: 'check' },
  CANNOT_PARK: { tone: 'trouble', shape: 'cross' },
  KEPT: { tone: 'kept', shape: 'pin' },
  BUSY_BUT_QUIET: { tone: 'kept', shape: 'pause' },
  READING: { tone: 'free', shape: 'ring' },
  CONNECTING: { tone: 'free', shape: 'ring' },
  LOST_SERVER: { tone: 'trouble', shape: 'cross' },
  NO_EXTENSION: { tone: 'free', shape: 'info' },
  NOT_ALLOWED: { tone: 'free', shape: 'info' }
};

const UNKNOWN_LOOK: IStateLook = { tone: 'free', shape: 'info' };

export interface IStateView extends IStateLook {
  code: string;
  /** The opening, in bold, and what follows it. */
  lead: string;
  rest: string;
  /** The countdown as it stands in *rest*; empty without one. */
  figure: string;
  /** Seconds until the GPU is handed back by itself, null without a countdown. */
  leftS: number | null;
  /** How far training's leaving is, null where none leaves. */
  leaving: ILeaving | null;
  /** What the sentence leaves out. */
  facts: string[];
  /** What it is about, so that it is spoken anew when that becomes something else. */
  topic: string;
  /** For a person who wants to know more; may be empty. */
  detail: string;
}

/** What the state box says now: what the server said, or what we must say because it does not speak. */
export function viewState(model: IGpuShareModel, trans: TranslationBundle): IStateView {
  const own = ownMessage(model);
  const lease = own || !model.snapshot ? null : speakingLease(model.snapshot);
  return lease
    ? viewLease(lease, model, trans)
    : viewSession(own ?? model.snapshot?.state ?? CONNECTING, model, trans);
}

function viewSession(message: Message, model: IGpuShareModel, trans: TranslationBundle): IStateView {
  const parksAt = message.code === 'COUNTING_DOWN' ? nextParksAt(model.snapshot?.kernels ?? []) : null;
  const leftS = parksAt === null ? null : Math.max(0, parksAt - model.serverNow);
  const figure = leftS === null ? '' : clock(leftS);
  // The countdown as it is now, not as it was when the server spoke.
  const now = { ...message, values: leftS === null ? message.values : { ...message.values, left: figure } };
  const [lead, rest] = leadAndRest(now, trans);
  const detail = model.contact === 'live' ? '' : model.trouble;
  const look = LOOKS[message.code] ?? UNKNOWN_LOOK;
  const { code } = message;
  return { ...look, code, lead, rest, figure, leftS, leaving: null, facts: [], topic: code, detail };
}

function viewLease(lease: Lease, model: IGpuShareModel, trans: TranslationBundle): IStateView {
  const [at, now] = [model.snapshot?.at ?? model.serverNow, model.serverNow];
  const message = leaseMessage(lease, at, now, trans);
  const [lead, rest] = leadAndRest(message, trans);
  return {
    ...lookOf(lease),
    code: message.code,
    lead,
    rest,
    figure: '',
    leftS: null,
    leaving: leavingOf(lease, now),
    facts: leaseFacts(lease, at, now, trans),
    topic: `${message.code} ${nearPlace(lease)}`,
    detail: ''
  };
}

function lookOf(lease: Lease): IStateLook {
  if (lease.connection === 'away') {
    return UNKNOWN_LOOK; // calm: nothing is wrong with the session itself
  }
  if (isLeaving(lease)) {
    return { tone: 'changing', shape: 'leave' };
  }
  if (isWaiting(lease)) {
    return { tone: 'changing', shape: 'queue' };
  }
  return lease.connection === 'refused' || lease.status === 'failed'
    ? { tone: 'trouble', shape: 'cross' }
    : UNKNOWN_LOOK;
}

/** A long line must not keep a screen reader talking: only its last places are spoken of. */
function nearPlace({ place }: Lease): string {
  return place !== null && place <= 3 ? `${place}` : '';
}

/** Whether there is a GPU to say anything about. */
export function hasDevices(model: IGpuShareModel): boolean {
  return (model.snapshot?.devices.length ?? 0) > 0;
}

function ownMessage(model: IGpuShareModel): Message | null {
  switch (model.contact) {
    case 'no_extension':
      return NO_EXTENSION;
    case 'forbidden':
      return NOT_ALLOWED;
    case 'lost':
      return model.snapshot ? lostSince(model.snapshot.at) : LOST_SERVER;
    case 'connecting':
      return model.snapshot ? null : CONNECTING;
    case 'live':
      return null;
  }
}

function lostSince(at: number): Message {
  const template =
    'Lost contact with the server. The numbers are from {time}. Trying again; where only the connection is cut, your notebooks go on.';
  return ours('LOST_SERVER', template, { time: timeOfDay(at) });
}

const CONNECTING = ours('CONNECTING', 'Asking the server for your GPU share…');

const LOST_SERVER = ours(
  'LOST_SERVER',
  'Lost contact with the server. Trying again; where only the connection is cut, your notebooks go on.'
);

const NO_EXTENSION = ours(
  'NO_EXTENSION',
  'This server does not have the GPU share extension. Install jupyter_gpushare where the server runs, and restart it.'
);

const NOT_ALLOWED = ours(
  'NOT_ALLOWED',
  'You may not see the GPU share of this server. Ask its owner, or sign in again.'
);

function ours(code: string, template: string, values: Record<string, string> = {}): Message {
  return { code, template, values, text: template };
}
