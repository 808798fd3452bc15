import { TranslationBundle } from '@jupyterlab/translation';

const HOUR_S = 3600;

/** Until when "until tonight" lasts, by the clock of the browser. */
const TONIGHT_HOUR = 22;

export interface IKeepChoice {
  label: string;
  seconds: number;
}

/** For how long one may keep a GPU from being parked by itself. The server's bound decides in the end. */
export function keepChoices(now: Date, trans: TranslationBundle): IKeepChoice[] {
  const tonight = new Date(now);
  tonight.setHours(TONIGHT_HOUR, 0, 0, 0);
  const untilTonight = Math.round((tonight.getTime() - now.getTime()) / 1000);
  return [
    { label: trans.__('15 min'), seconds: HOUR_S / 4 },
    { label: trans.__('1 h'), seconds: HOUR_S },
    { label: trans.__('2 h'), seconds: 2 * HOUR_S },
    { label: trans.__('4 h'), seconds: 4 * HOUR_S },
    ...(untilTonight > HOUR_S ? [{ label: trans.__('until tonight (22:00)'), seconds: untilTonight }] : [])
  ];
}

export interface IIdleChoice {
  label: string;
  /** Null for never. */
  seconds: number | null;
}

/** After how long without work a kernel is parked by itself. */
export function idleChoices(trans: TranslationBundle): IIdleChoice[] {
  return [
    { label: trans.__('10 min'), seconds: HOUR_S / 6 },
    { label: trans.__('30 min'), seconds: HOUR_S / 2 },
    { label: trans.__('1 h'), seconds: HOUR_S },
    { label: trans.__('4 h'), seconds: 4 * HOUR_S },
    { label: trans.__('Never'), seconds: null }
  ];
}
