import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { IDocumentSession } from './current_kernel';
import { IGpuShareModel } from './model';
import { isParked } from './parking_view';
import { Kernel } from './wire';

/** Asks whether parked kernels are really to end. */
export interface IShutdownDialogs {
  confirmEnd(kernels: readonly Kernel[]): Promise<boolean>;
}

/** How old the last frame may be before the server is asked anew, and for how long it is waited for then. */
const PATIENCE_MS = 2_000;

/** One answer holds for what Lab does next with it: it ends the kernels first, then the server. */
const ANSWER_HOLDS_MS = 10_000;

/** What a request to the server would end: one kernel, one session, or everything. */
type Ending = { kind: 'kernel' | 'session'; id: string } | { kind: 'server' };

interface IGuardOptions {
  model: IGpuShareModel;
  dialogs: IShutdownDialogs;
  /** The kernel of a session. */
  kernelOf: (sessionId: string) => string | null;
  trans: TranslationBundle;
}

/**
 * Asks before anything in this page ends a parked kernel. Lab ends kernels from a dozen places (menus, the Running
 * panel, closing a tab, shutting down the server), and all of them send a request through the same settings: so it
 * stands there. Restarting is left to Lab, which asks by itself.
 */
export class ShutdownGuard {
  constructor(private readonly _options: IGuardOptions) {}

  /** Stand before the requests of *settings*. */
  install(settings: ServerConnection.ISettings): void {
    const send = settings.fetch;
    const guarded = async (input: RequestInfo, init?: RequestInit): Promise<Response> => {
      const ending = input instanceof settings.Request ? endingOf(input, settings.baseUrl) : null;
      if (ending && !(await this._mayEnd(ending))) {
        throw this._refusal();
      }
      return send.call(null, input, init);
    };
    Object.assign(settings, { fetch: guarded });
  }

  /**
   * Stand before the `shutdown` of one document, too: Lab's own forgets its kernel before it asks the server, and does
   * not find it again when that fails.
   */
  cover(document: IDocumentSession): void {
    const shutdown = document.shutdown?.bind(document);
    if (!shutdown || this._covered.has(document)) {
      return;
    }
    this._covered.add(document);
    document.shutdown = async () => {
      const id = document.session?.kernel?.id;
      if (typeof id === 'string' && !(await this._mayEnd({ kind: 'kernel', id }))) {
        throw this._refusal();
      }
      return shutdown();
    };
  }

  private _refusal(): Error {
    return new Error(this._options.trans.__('Nothing was ended: what is parked stays safe in host memory.'));
  }

  /** Requests that are made in one go, as by "shut down all", are asked about once, and share the answer. */
  private _mayEnd(ending: Ending): Promise<boolean> {
    this._asked.push(ending);
    this._answer ??= this._ask();
    return this._answer;
  }

  private async _ask(): Promise<boolean> {
    await this._look();
    const endings = this._asked.splice(0);
    this._answer = null; // whatever is asked from now on is not covered by this answer
    const parked = (this._options.model.snapshot?.kernels ?? [])
      .filter(isParked)
      .filter(({ id }) => endings.some(ending => this._ends(ending, id)));
    if (parked.length === 0) {
      return true;
    }
    return this._lastAnswer(endings, parked) ?? this._confirm(parked);
  }

  private async _confirm(parked: readonly Kernel[]): Promise<boolean> {
    const isSure = await this._options.dialogs.confirmEnd(parked);
    this._last = { ids: parked.map(({ id }) => id), isSure, at: Date.now() };
    return isSure;
  }

  /** The answer just given about the same kernels, or null. A "no" holds only for ending the server, which Lab tries next. */
  private _lastAnswer(endings: readonly Ending[], parked: readonly Kernel[]): boolean | null {
    const last = this._last;
    if (!last || Date.now() - last.at > ANSWER_HOLDS_MS || !parked.every(({ id }) => last.ids.includes(id))) {
      return null;
    }
    return last.isSure || endings.some(({ kind }) => kind === 'server') ? last.isSure : null;
  }

  /** With everything of ours closed the last snapshot may be hours old. A server that is away ends nothing. */
  private async _look(): Promise<void> {
    const { model } = this._options;
    const patience = new Promise<void>(resolve => setTimeout(resolve, PATIENCE_MS));
    const inOneGo = new Promise<void>(resolve => setTimeout(resolve));
    await (model.contact === 'live' ? inOneGo : Promise.race([model.refresh(), patience]));
  }

  private _ends(ending: Ending, kernelId: string): boolean {
    switch (ending.kind) {
      case 'server':
        return true;
      case 'kernel':
        return ending.id === kernelId;
      case 'session':
        return this._options.kernelOf(ending.id) === kernelId;
    }
  }

  private readonly _covered = new WeakSet<IDocumentSession>();
  private readonly _asked: Ending[] = [];
  private _answer: Promise<boolean> | null = null;
  private _last: { ids: string[]; isSure: boolean; at: number } | null = null;
}

/** What *request* would end; null for all others. */
function endingOf({ method, url }: Request, baseUrl: string): Ending | null {
  const path = url.startsWith(baseUrl) ? new URL(url).pathname.slice(new URL(baseUrl).pathname.length) : '';
  if (method === 'POST' && path === 'api/shutdown') {
    return { kind: 'server' };
  }
  const [, kind, id] = /^api\/(kernel|session)s\/([^/]+)$/.exec(path) ?? [];
  if (method !== 'DELETE' || id === undefined) {
    return null;
  }
  return { kind: kind === 'kernel' ? 'kernel' : 'session', id: decodeURIComponent(id) };
}
