import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { History } from '../history';
import { Contact, IGpuShareModel } from '../model';
import { IPolicyRequest, IReleaseRequest, KeepAnswer, Policy, Release, ShareAnswer, Snapshot } from '../wire';
import { message, policy, release, snapshot } from './samples';

/** A model whose server the test plays. */
export class FakeModel implements IGpuShareModel {
  readonly changed: Signal<IGpuShareModel, void> = new Signal<IGpuShareModel, void>(this);
  readonly history = new History();
  readonly requests: IReleaseRequest[] = [];
  snapshot: Snapshot | null = snapshot();
  contact: Contact = 'live';
  trouble = '';
  watchers = 0;
  refreshes = 0;
  retries = 0;
  /** What each request for a release gets, in turn; a running release when there is nothing left. */
  answers: (Release | Error)[] = [];
  /** What was asked of parking: a word and its arguments. */
  readonly wishes: unknown[][] = [];
  /** What each wish about parking gets instead of being granted, in turn. */
  refusals: Error[] = [];
  kept: KeepAnswer = { kept_until: null, message: message('KEPT', 'Kept for you.') };
  /** What a wish for another share gets. */
  changedShare: ShareAnswer = {
    share: snapshot().share,
    message: message('SHARE_CHANGED', 'Your share is {share} now.', { share: '0.25..0.8' }),
    restart: []
  };
  /** What asking for one release gets. */
  fetched: Release | Error = release();

  get serverNow(): number {
    return Date.now() / 1000;
  }

  say(changes: Partial<Snapshot> | null, contact: Contact = 'live'): void {
    this.snapshot = changes && snapshot(changes);
    this.contact = contact;
    this.changed.emit();
  }

  watch(): IDisposable {
    this.watchers += 1;
    return new DisposableDelegate(() => {
      this.watchers -= 1;
    });
  }

  retry(): void {
    this.retries += 1;
  }

  refresh(): Promise<void> {
    this.refreshes += 1;
    return Promise.resolve();
  }

  loadHistory(): Promise<void> {
    return Promise.resolve();
  }

  release(request: IReleaseRequest): Promise<Release> {
    this.requests.push(request);
    return settle(this.answers.shift() ?? release());
  }

  fetchRelease(): Promise<Release> {
    return settle(this.fetched);
  }

  async resume(kernelId: string | null): Promise<string[]> {
    await this.wish('resume', kernelId);
    return [];
  }

  async keep(seconds: number, kernelId: string | null): Promise<KeepAnswer> {
    await this.wish('keep', seconds, kernelId);
    return this.kept;
  }

  async setPolicy(kernelId: string, request: IPolicyRequest): Promise<Policy> {
    await this.wish('policy', kernelId, request);
    return policy();
  }

  async keepFromEnding(seconds: number, kernelId: string | null): Promise<KeepAnswer> {
    await this.wish('keep from ending', seconds, kernelId);
    return this.kept;
  }

  async requestShare(share: string): Promise<ShareAnswer> {
    await this.wish('request', share);
    return this.changedShare;
  }

  private wish(...said: unknown[]): Promise<void> {
    this.wishes.push(said);
    const refusal = this.refusals.shift();
    return refusal ? Promise.reject(refusal) : Promise.resolve();
  }
}

function settle(answer: Release | Error): Promise<Release> {
  return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
}
