import { TranslationBundle } from '@jupyterlab/translation';

import { sentence } from './message';
import { IGpuShareModel } from './model';
import { ResponseError } from './request';
import { readShare } from './share_text';
import { ShareAnswer, Snapshot } from './wire';

/** How the flow speaks with the user. */
export interface IShareDialogs {
  /** Let the user write a share, beginning with *text*; *refusal* is the broker's answer to that, or empty. */
  write(snapshot: Snapshot, text: string, refusal: string): Promise<string | null>;
  /** Say what became of it; *needsRestart* where something is left to do. */
  tell(text: string, hasWorked: boolean, needsRestart: boolean): void;
}

/** From the wish for another share to the broker's answer. A refusal leads back to the wish, with its reason. */
export class ShareFlow {
  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _dialogs: IShareDialogs,
    private readonly _trans: TranslationBundle
  ) {}

  /** Never rejects. */
  async begin(): Promise<void> {
    const { snapshot } = this._model;
    if (!snapshot?.lease?.can_request) {
      this._dialogs.tell(
        this._trans.__('The share of this server cannot be changed now. Nothing has changed.'),
        false,
        false
      );
      return;
    }
    await this._ask(snapshot, snapshot.share.text, '');
  }

  private async _ask(snapshot: Snapshot, text: string, refusal: string): Promise<void> {
    const written = await this._dialogs.write(snapshot, text, refusal);
    const refused = written === null ? '' : await this._send(written);
    if (written !== null && refused !== '') {
      await this._ask(this._model.snapshot ?? snapshot, written, refused);
    }
  }

  /** Ask the broker for what is *written*; gives why that was not to be had, or nothing. */
  private async _send(written: string): Promise<string> {
    const { problem } = readShare(written, this._trans);
    if (problem !== null) {
      return problem;
    }
    try {
      this._tell(await this._model.requestShare(written));
      return '';
    } catch (error) {
      return this._inWords(error);
    }
  }

  private _tell({ message, restart }: ShareAnswer): void {
    const said = sentence(message, this._trans);
    const isSaid = restart.every(notebook => said.includes(notebook));
    const left = this._trans._n(
      'Restart %2 when it suits you: until then it keeps the share that it has.',
      'Restart %2 when it suits you: until then they keep the share that they have.',
      restart.length,
      restart.join(', ')
    );
    this._dialogs.tell(isSaid ? said : `${said} ${left}`, true, restart.length > 0);
  }

  private _inWords(error: unknown): string {
    if (error instanceof ResponseError && error.sentence) {
      return sentence(error.sentence, this._trans);
    }
    const reason = error instanceof Error ? error.message : String(error);
    return this._trans.__('That could not be asked for, and nothing has changed: %1', reason);
  }
}
