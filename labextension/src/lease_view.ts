import { TranslationBundle } from '@jupyterlab/translation';

import { duration, ordinal, partOf, timeOfDay } from './format';
import { nextParksAt } from './parking_view';
import { Lease, LentTo, Message, Snapshot } from './wire';

/** A driver that stopped answering matters more than a place in line. */
const MORE_PRESSING = ['DRIVER_LOST'];

/** Whether there is no share to use, now or for good: the session's own sentence would then promise one. */
export function hasNoShare({ connection, status }: Lease): boolean {
  return connection === 'refused' || ['queued', 'ended', 'failed'].includes(status);
}

/** Whether it stands in line: for its first grant, or to come back. */
export function isWaiting({ status, place }: Lease): boolean {
  return status === 'queued' || place !== null;
}

/** Whether training has been told to leave, and has not left yet. */
export function isLeaving({ deadline, began }: Lease): boolean {
  return deadline !== null && began !== null;
}

/** Whether training leaves so that memory comes back; a first grant has nothing to bring back. */
export function isComingBack(lease: Lease): boolean {
  return isLeaving(lease) && lease.status !== 'queued';
}

/** The lease whose sentence the state box says instead of the session's own; null where the latter says more. */
export function speakingLease({ lease, state }: Snapshot): Lease | null {
  if (!lease || MORE_PRESSING.includes(state.code)) {
    return null;
  }
  const hasNews =
    hasNoShare(lease) || (lease.connection === 'joined' && (isWaiting(lease) || isLeaving(lease)));
  return hasNews ? lease : null;
}

/** The lease of which a calm line says that its broker is away; null where the state box says it, or it is not. */
export function leaseAway({ lease }: Snapshot): Lease | null {
  return lease && lease.connection === 'away' && !hasNoShare(lease) ? lease : null;
}

/** How far training's leaving is: seconds since it was told, of how many it has, and the same in per cent. */
export interface ILeaving {
  passedS: number;
  wholeS: number;
  part: number;
}

export function leavingOf({ began, deadline }: Lease, now: number): ILeaving | null {
  if (began === null || deadline === null) {
    return null;
  }
  const wholeS = Math.max(0, deadline - began);
  const passedS = Math.min(wholeS, Math.max(0, now - began));
  return { passedS, wholeS, part: partOf(passedS, wholeS) };
}

/** About how long it still waits, in seconds; *at* is when the server guessed. Null while that is unknown. */
export function waitsFor({ estimate_s: estimate }: Lease, at: number, now: number): number | null {
  return estimate === null ? null : Math.max(0, estimate - Math.max(0, now - at));
}

/** A guess of a wait, in the words of the server's sentences: "about 3 min"; nothing where there is none. */
export function waitInWords(seconds: number | null, trans: TranslationBundle): string {
  if (seconds === null) {
    return '';
  }
  const minutes = Math.round(seconds / 60);
  if (seconds < 60) {
    return trans.__('less than a minute');
  }
  return minutes < 60 ? trans.__('about %1 min', minutes) : trans.__('about %1 h', Math.round(minutes / 60));
}

/** The one sentence about *lease*, with its times as they are *now* and not as they were when the server spoke. */
export function leaseMessage(lease: Lease, at: number, now: number, trans: TranslationBundle): Message {
  const leaving = leavingOf(lease, now);
  const estimate = waitInWords(waitsFor(lease, at, now), trans);
  const values = {
    ...lease.message.values,
    ...(leaving && {
      passed: duration(leaving.passedS, trans),
      grace: duration(leaving.wholeS, trans),
      left: duration(Math.ceil(leaving.wholeS - leaving.passedS), trans)
    }),
    ...(estimate !== '' && { estimate }),
    ...(lease.place !== null && { place: ordinal(lease.place, trans) })
  };
  return { ...lease.message, values };
}

/** What the sentence leaves out: the project, and place and estimate where it does not name them. */
export function leaseFacts(lease: Lease, at: number, now: number, trans: TranslationBundle): string[] {
  const says = (name: string): boolean => lease.message.template.includes(`{${name}}`);
  const estimate = isWaiting(lease) && !says('estimate') ? waitInWords(waitsFor(lease, at, now), trans) : '';
  return [
    lease.project === '' || isLeaving(lease) ? '' : trans.__('project %1', lease.project),
    lease.place !== null && !says('place') ? placeInLine(lease.place, trans) : '',
    estimate,
    isWaiting(lease) ? trans.__('since %1', timeOfDay(lease.since)) : ''
  ].filter(fact => fact !== '');
}

/** "2nd in line". */
export function placeInLine(place: number, trans: TranslationBundle): string {
  return trans.__('%1 in line', ordinal(place, trans));
}

/** What of the share training uses, in GPUs; null where one amount cannot be read. */
export function lentGpus(lentTo: readonly LentTo[]): number | null {
  return lentTo.reduce<number | null>((sum, { amount }) => {
    const gpus = /^\d+(\.\d+)?$/.test(amount) ? Number(amount) : null;
    return sum === null || gpus === null ? null : sum + gpus;
  }, 0);
}

/** Whether training uses something of this session's share. */
export function isLent({ lease }: Snapshot): boolean {
  return (lease?.lent_to.length ?? 0) > 0;
}

/** Until when something counts by the second: training's leaving, or else a countdown; null where nothing does. */
export function nextTick(snapshot: Snapshot | null): number | null {
  return snapshot?.lease?.deadline ?? nextParksAt(snapshot?.kernels ?? []);
}
