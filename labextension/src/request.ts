import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { Guard, WireError } from './guard';
import { asErrorBody, Message } from './wire';

const BASE = 'gpushare/api/v1';

/** The server did not answer at all. */
export class NetworkError extends Error {
  override name = 'NetworkError';
}

/**
 * The server said no: with *status*, and with *sentence* where it has one for people. Where they may agree to the
 * sentence, *confirm* is what to send back then; else it is empty.
 */
export class ResponseError extends Error {
  override name = 'ResponseError';

  constructor(
    readonly status: number,
    readonly sentence: Message | null,
    fallback: string,
    readonly confirm = ''
  ) {
    super(sentence?.text ?? fallback);
  }
}

/** The address of an end point. Our own traffic must not count as the user's activity. */
export function apiUrl(base: string, endPoint: string): string {
  return `${URLExt.join(base, BASE, endPoint)}?no_track_activity=1`;
}

/**
 * Call one end point of the server extension.
 *
 * @throws NetworkError, ResponseError, or WireError where the answer is not what was promised.
 */
export async function requestAPI<T>(
  endPoint: string,
  guard: Guard<T>,
  settings: ServerConnection.ISettings,
  init: RequestInit = {}
): Promise<T> {
  const response = await send(apiUrl(settings.baseUrl, endPoint), init, settings);
  const body = await readJson(response);
  if (!response.ok) {
    throw refusal(response, body);
  }
  return guard(body, endPoint);
}

async function send(url: string, init: RequestInit, settings: ServerConnection.ISettings): Promise<Response> {
  try {
    return await ServerConnection.makeRequest(url, init, settings);
  } catch (error) {
    throw new NetworkError(error instanceof Error ? error.message : String(error));
  }
}

async function readJson(response: Response): Promise<unknown> {
  const body = await response.text();
  try {
    return JSON.parse(body);
  } catch {
    if (response.ok) {
      throw new WireError(response.url, 'JSON');
    }
    return null; // a proxy's error page: the status says enough
  }
}

function refusal(response: Response, body: unknown): ResponseError {
  const fallback = `${response.status} ${response.statusText}`;
  try {
    const { error, message, confirm } = asErrorBody(body, 'error');
    return new ResponseError(response.status, error, message ?? fallback, confirm ?? '');
  } catch {
    return new ResponseError(response.status, null, fallback);
  }
}
