import { TranslationBundle } from '@jupyterlab/translation';

import { Reading } from './wire';

/** What stands for a number that is not available. Never 0. */
export const UNKNOWN = '–';

const GB = 1e9;

/** Bytes as GB with one decimal, without the unit. Something is never shown as nothing: "< 0.1". */
export function gigabytes(bytes: number | null): string {
  if (bytes === null) {
    return UNKNOWN;
  }
  return bytes > 0 && bytes < 0.05 * GB ? '< 0.1' : (bytes / GB).toFixed(1);
}

/** Bytes as people read them: "7.4 GB", or "–". */
export function memory(bytes: number | null, trans: TranslationBundle): string {
  return bytes === null ? UNKNOWN : trans.__('%1 GB', gigabytes(bytes));
}

/** Per cent as people read it: "62 %", or "–". */
export function percent(value: number | null, trans: TranslationBundle): string {
  return value === null ? UNKNOWN : trans.__('%1 %', Math.round(value));
}

/** What a pointer resting on a reading learns: why it is missing, or how it was found. */
export function explain(reading: Reading, trans: TranslationBundle): string {
  if (reading.value === null) {
    return reading.reason || trans.__('Not available.');
  }
  switch (reading.attribution) {
    case 'in_kernel':
      return trans.__('As the frameworks in the kernel count it.');
    case 'device_total':
      return trans.__('The total of the whole device.');
    default:
      return trans.__('As the driver reports it.');
  }
}

/** A length of time as people say it: "40 s", "6 min", "2 h". */
export function duration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 60) {
    return trans.__('%1 s', Math.max(0, Math.floor(seconds)));
  }
  if (seconds < 3600) {
    return trans.__('%1 min', Math.floor(seconds / 60));
  }
  return trans.__('%1 h', Math.floor(seconds / 3600));
}

/** A length of time down to the minute: "12 min", "3 h 12 min". */
export function longDuration(seconds: number, trans: TranslationBundle): string {
  const minutes = Math.max(0, Math.floor(seconds / 60));
  return minutes < 60
    ? trans.__('%1 min', minutes)
    : trans.__('%1 h %2 min', Math.floor(minutes / 60), minutes % 60);
}

/** A time span that somebody has chosen, nothing rounded away: "1 min 30 s", "10 min", "1 h 30 min". */
export function timeSpan(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts = [
    whole >= 3600 ? trans.__('%1 h', Math.floor(whole / 3600)) : '',
    Math.floor(whole / 60) % 60 > 0 ? trans.__('%1 min', Math.floor(whole / 60) % 60) : '',
    whole % 60 > 0 || whole === 0 ? trans.__('%1 s', whole % 60) : ''
  ];
  return parts.filter(Boolean).join(' ');
}

/** What is left of a countdown: "4:10", "1:04:10". It ends at "0:00" and not before. */
export function clock(seconds: number): string {
  const left = Math.max(0, Math.ceil(seconds));
  const two = (part: number): string => String(part).padStart(2, '0');
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor(left / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(left % 60)}` : `${minutes}:${two(left % 60)}`;
}

/** A guess in seconds as people say it: "about 2 s", or nothing where there is none. */
export function about(seconds: number | null, trans: TranslationBundle): string {
  return seconds === null ? '' : trans.__('about %1', duration(Math.max(1, Math.round(seconds)), trans));
}

const ORDINALS = new Intl.PluralRules('en', { type: 'ordinal' });

/** A place in line as people say it: "2nd". */
export function ordinal(place: number, trans: TranslationBundle): string {
  switch (ORDINALS.select(place)) {
    case 'one':
      return trans.__('%1st', place);
    case 'two':
      return trans.__('%1nd', place);
    case 'few':
      return trans.__('%1rd', place);
    default:
      return trans.__('%1th', place);
  }
}

/** A moment (seconds since the epoch) as a time of day: "14:02". */
export function timeOfDay(at: number): string {
  return new Date(at * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
}

/** *part* of *whole* in per cent, kept between 0 and 100; 0 where the whole is nothing. */
export function partOf(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
}
