import { TranslationBundle } from '@jupyterlab/translation';

/**
 * A share as people write it, read before it is sent: `[count "x"] amount [".." amount] ["@" kind]`. The server's
 * word counts; this is for who is still typing. Mirrors `jupyter_gpushare/share.py`.
 */
export interface IShareWish {
  count: number;
  /** What *request* and *limit* count, both for each GPU: parts of one GPU, or bytes on it. */
  unit: 'gpu' | 'bytes';
  request: number;
  limit: number;
  /** Which GPUs; any when empty. */
  kind: string;
}

/** What was read, or what is wrong with it and what would be right. */
export type ReadShare = { wish: IShareWish; problem: null } | { wish: null; problem: string };

const LONGEST = 128;
const MOST_GPUS = 1024;
const KIND = /^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$/;
const FRACTION = /^\d{1,9}(\.\d{1,6})?$/;
const MEMORY = /^(\d{1,9}(?:\.\d{1,9})?)\s*(B|KiB|MiB|GiB|TiB)$/;
const BYTES: Record<string, number> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/** Read *text* as a share. */
export function readShare(text: string, trans: TranslationBundle): ReadShare {
  try {
    return { wish: parse(text.trim(), trans), problem: null };
  } catch (error) {
    if (error instanceof ShareProblem) {
      return { wish: null, problem: error.message };
    }
    throw error;
  }
}

/** *wish* as it is written: "2x0.25..0.8@a100". */
export function writeShare(wish: IShareWish): string {
  const { count, unit, request, limit, kind } = wish;
  const say = unit === 'gpu' ? String : inGib;
  const amount = request === limit ? say(request) : `${say(request)}..${say(limit)}`;
  const isWhole = unit === 'gpu' && request === 1 && limit === 1;
  const counted = count === 1 ? amount : isWhole ? `${count}` : `${count}x${amount}`;
  return kind === '' ? counted : `${counted}@${kind}`;
}

class ShareProblem extends Error {
  override name = 'ShareProblem';
}

interface IAmount {
  unit: IShareWish['unit'];
  size: number;
}

function parse(text: string, trans: TranslationBundle): IShareWish {
  if (text === '' || text.length > LONGEST) {
    throw new ShareProblem(trans.__('Write a share, for example 0.5 or 0.25..0.8.'));
  }
  const [amounts, kind] = splitKind(text, trans);
  const counted = /^(\d{1,4})x(.*)$/.exec(amounts);
  const range = counted?.[2] ?? amounts;
  const dots = range.indexOf('..');
  const request = parseAmount(dots < 0 ? range : range.slice(0, dots), trans);
  const limit = dots < 0 ? request : parseAmount(range.slice(dots + 2), trans);
  if (request.unit !== limit.unit) {
    throw new ShareProblem(
      trans.__('Write both amounts in the same unit, for example 0.25..0.8 or 8GiB..24GiB.')
    );
  }
  const wish = {
    count: Number(counted?.[1] ?? 1),
    unit: request.unit,
    request: request.size,
    limit: limit.size,
    kind
  };
  return checked(counted ? wish : wholeGpus(wish), trans);
}

function splitKind(text: string, trans: TranslationBundle): [string, string] {
  const at = text.indexOf('@');
  const kind = at < 0 ? '' : text.slice(at + 1);
  if (at >= 0 && !KIND.test(kind)) {
    throw new ShareProblem(
      trans.__('Write the kind of GPU after the @ in lower case, for example 0.5@a100.')
    );
  }
  return [at < 0 ? text : text.slice(0, at), kind];
}

function parseAmount(text: string, trans: TranslationBundle): IAmount {
  const written = text.trim();
  const [, figure = '', unit = ''] = MEMORY.exec(written) ?? [];
  if (unit !== '') {
    return { unit: 'bytes', size: Math.floor(Number(figure) * (BYTES[unit] ?? 1)) };
  }
  if (FRACTION.test(written)) {
    return { unit: 'gpu', size: Number(written) };
  }
  throw new ShareProblem(
    trans.__('Write an amount as a part of one GPU or as memory, for example 0.5 or 16GiB.')
  );
}

/** "4" is four whole GPUs. */
function wholeGpus(wish: IShareWish): IShareWish {
  const { unit, request, limit } = wish;
  const isMany = unit === 'gpu' && request > 1 && request === limit && Number.isInteger(request);
  return isMany ? { ...wish, count: request, request: 1, limit: 1 } : wish;
}

function checked(wish: IShareWish, trans: TranslationBundle): IShareWish {
  const { count, unit, request, limit } = wish;
  if (request <= 0) {
    throw new ShareProblem(trans.__('Write an amount above zero, for example 0.5.'));
  }
  if (limit < request) {
    throw new ShareProblem(
      trans.__('The limit is below what is guaranteed; write the smaller one first, for example 0.25..0.8.')
    );
  }
  if (unit === 'gpu' && limit > 1) {
    throw new ShareProblem(
      trans.__('That is more than one GPU; write for example 2x0.75, or 2 for two whole GPUs.')
    );
  }
  if (count < 1 || count > MOST_GPUS) {
    throw new ShareProblem(trans.__('Write how many GPUs, from 1 to %1, for example 2x0.5.', MOST_GPUS));
  }
  return wish;
}

function inGib(bytes: number): string {
  return bytes % 2 ** 30 === 0 ? `${bytes / 2 ** 30}GiB` : `${Math.round(bytes / 2 ** 20)}MiB`;
}
