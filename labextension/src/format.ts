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

/** A moment (seconds since the epoch) as a time of day: "14:02". */
export function timeOfDay(at: number): string {
  return new Date(at * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
}

/** *part* of *whole* in per cent, kept between 0 and 100; 0 where the whole is nothing. */
export function partOf(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
}
