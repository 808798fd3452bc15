import { TranslationBundle } from '@jupyterlab/translation';

import { sentence } from './message';
import { IGpuShareModel } from './model';
import { ResponseError } from './request';

/** Keeps what a hub would let end. Never rejects: what came of it is told. */
export class CullFlow {
  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _tell: (text: string, hasWorked: boolean) => void,
    private readonly _trans: TranslationBundle
  ) {}

  async keep(seconds: number, kernelId: string | null): Promise<void> {
    try {
      const { message } = await this._model.keepFromEnding(seconds, kernelId);
      this._tell(sentence(message, this._trans), message.code !== 'KEPT_NOT_TOLD');
    } catch (error) {
      this._tell(this._inWords(error), false);
    }
  }

  private _inWords(error: unknown): string {
    if (error instanceof ResponseError && error.sentence) {
      return sentence(error.sentence, this._trans);
    }
    const reason = error instanceof Error ? error.message : String(error);
    return this._trans.__('It could not be kept: %1', reason);
  }
}
