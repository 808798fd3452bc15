import { TranslationBundle } from '@jupyterlab/translation';
import { PromiseDelegate } from '@lumino/coreutils';

import { sentence } from './message';
import { IGpuShareModel } from './model';
import { outlookOf, refusalInWords } from './outlook';
import { ResponseError } from './request';
import { isRunning } from './share_view';
import { IReleaseRequest, Release, Snapshot } from './wire';

/** What a user chose to release. */
export type ReleaseWish = Omit<IReleaseRequest, 'confirm'>;

/** How the flow speaks with the user. */
export interface IReleaseDialogs {
  /**
   * Let the user choose a level, and a kernel where it needs one; null where they think better of it. *refusal* says
   * why that kernel, or all, cannot be parked; empty where nobody said so.
   */
  choose(snapshot: Snapshot, kernelId: string | null, refusal: string): Promise<ReleaseWish | null>;
  /** Show what would be lost or disturbed, and ask; *hasChanged* since the user agreed to something else. */
  confirm(announcement: string, wish: ReleaseWish, hasChanged: boolean): Promise<boolean>;
  /** Say how a release ended. */
  tell(text: string, hasWorked: boolean): void;
}

/** From the wish to the true message of how it ended. What would be lost is the server's to say, not ours. */
export class ReleaseFlow {
  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _dialogs: IReleaseDialogs,
    private readonly _trans: TranslationBundle
  ) {}

  /** Park where that can be done: nothing is lost by it, so nothing is asked. Else let the user choose. Never rejects. */
  async begin(kernelId: string | null = null): Promise<void> {
    const { snapshot } = this._model;
    const outlook = snapshot && outlookOf(snapshot, kernelId);
    if (outlook?.kind === 'parks') {
      await this.park(kernelId);
    } else if (outlook?.kind === 'refused') {
      await this.choose(outlook.kernel.id, refusalInWords(outlook.kernel, this._trans));
    } else {
      await this.choose(kernelId);
    }
  }

  /** Park one kernel, or all that hold GPU memory; where that is refused, say why and offer the other ways. Never rejects. */
  async park(kernelId: string | null): Promise<void> {
    const isBusy = (this._model.snapshot?.kernels ?? []).some(
      kernel => isRunning(kernel) && [null, kernel.id].includes(kernelId)
    );
    const wish: ReleaseWish = { level: 'park', kernel_id: kernelId, when: isBusy ? 'idle' : 'now' };
    const watching = this._model.watch();
    try {
      await this._park(wish);
    } catch (error) {
      if (isRefusal(error)) {
        await this.choose(kernelId, this._inWords(error));
      } else {
        this._dialogs.tell(this._inWords(error), false);
      }
    } finally {
      watching.dispose();
    }
  }

  /** Let the user choose, then carry it out. Never rejects. */
  async choose(kernelId: string | null = null, refusal = ''): Promise<void> {
    const { snapshot } = this._model;
    try {
      const wish = snapshot && (await this._dialogs.choose(snapshot, kernelId, refusal));
      if (wish) {
        await this.carryOut(wish);
      }
    } catch (error) {
      this._dialogs.tell(this._inWords(error), false);
    }
  }

  /** Ask the server, confirm with the user where it wants that, and say how it ended. Never rejects. */
  async carryOut(wish: ReleaseWish): Promise<void> {
    const watching = this._model.watch(); // progress must be seen even where the panel is closed meanwhile
    try {
      const release = await this._ask(wish);
      if (release) {
        const ended = await this._awaitEnd(release);
        this._dialogs.tell(sentence(ended.message, this._trans), ended.status === 'released');
      }
    } catch (error) {
      this._dialogs.tell(this._inWords(error), false);
    } finally {
      watching.dispose();
    }
  }

  private async _park(wish: ReleaseWish): Promise<void> {
    const release = await this._ask(wish);
    const ended = release && (await this._awaitEnd(release));
    if (ended?.status === 'failed' && wish.when === 'now') {
      await this.choose(wish.kernel_id, sentence(ended.message, this._trans));
    } else if (ended) {
      // After a wait for a cell nobody expects a dialog.
      this._dialogs.tell(sentence(ended.message, this._trans), ended.status === 'released');
    }
  }

  /** The user agrees to one announcement; where the server has another one by then, they are asked again. */
  private async _ask(wish: ReleaseWish, agreedTo = ''): Promise<Release | null> {
    try {
      return await this._model.release({ ...wish, confirm: agreedTo });
    } catch (error) {
      const announced = announcementIn(error, this._trans);
      if (announced === null) {
        throw error;
      }
      const isSure = await this._dialogs.confirm(announced.text, wish, agreedTo !== '');
      return isSure ? this._ask(wish, announced.confirm) : null;
    }
  }

  /** Follow the release in the frames; where they do not have it, ask for it. */
  private async _awaitEnd(release: Release): Promise<Release> {
    const end = new PromiseDelegate<Release>();
    const look = (): void => {
      const known = this._model.snapshot?.releases.find(({ id }) => id === release.id);
      if (known && known.status !== 'running') {
        end.resolve(known);
      } else if (!known && this._model.contact === 'live') {
        this._model.fetchRelease(release.id).then(
          fetched => {
            if (fetched.status !== 'running') {
              end.resolve(fetched);
            }
          },
          (error: unknown) => {
            if (error instanceof ResponseError) {
              end.reject(error); // a server that started anew does not know it; silence is waited out
            }
          }
        );
      }
    };
    if (release.status !== 'running') {
      return release;
    }
    this._model.changed.connect(look);
    look();
    return end.promise.finally(() => this._model.changed.disconnect(look));
  }

  private _inWords(error: unknown): string {
    if (error instanceof ResponseError && error.sentence) {
      return sentence(error.sentence, this._trans);
    }
    const reason = error instanceof Error ? error.message : String(error);
    return this._trans.__('The release could not be carried out: %1', reason);
  }
}

/** The server says no for good, with a reason: there is nothing to confirm. */
function isRefusal(error: unknown): boolean {
  return error instanceof ResponseError && error.status === 409 && !error.confirm && error.sentence !== null;
}

interface IAnnouncement {
  text: string;
  confirm: string;
}

/** What the server wants confirmed, or null where it said no for good or something else went wrong. */
function announcementIn(error: unknown, trans: TranslationBundle): IAnnouncement | null {
  // Without a sentence there is nothing to agree to: nobody confirms what they cannot read.
  if (!(error instanceof ResponseError) || error.status !== 409 || !error.confirm || !error.sentence) {
    return null;
  }
  return { text: sentence(error.sentence, trans), confirm: error.confirm };
}
