import { TranslationBundle } from '@jupyterlab/translation';

import { timeOfDay } from './format';
import { Message } from './wire';

/** A sentence of the server in the user's language: its template is translated, its values are filled in. */
export function sentence(message: Message, trans: TranslationBundle): string {
  return fill(trans.__(message.template), message.values);
}

/**
 * The same in two parts: the opening, to be set in bold, and the rest. It is split in the template, so that a
 * notebook called "a. b.ipynb" cannot move the border.
 */
export function leadAndRest(message: Message, trans: TranslationBundle): [string, string] {
  const template = trans.__(message.template);
  const opening = /^[^.:;,]+[.:;,](?=\s)/.exec(template)?.[0] ?? template;
  return [fill(opening, message.values), fill(template.slice(opening.length), message.values)];
}

/**
 * Put *values* where *template* has their `{names}`. A name without a value stays as it is. A time that also comes
 * as `<name>_epoch`, in seconds, is shown as the clock of this browser has it: the server's may be in another zone.
 */
export function fill(template: string, values: Record<string, string>): string {
  const known = new Map(Object.entries(values));
  return template.replace(
    /\{(\w+)\}/g,
    (whole, name: string) => localTime(known.get(`${name}_epoch`)) ?? known.get(name) ?? whole
  );
}

function localTime(epoch: string | undefined): string | null {
  return epoch !== undefined && /^\d{1,11}$/.test(epoch) ? timeOfDay(Number(epoch)) : null;
}
