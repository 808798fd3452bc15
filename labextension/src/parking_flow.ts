import { TranslationBundle } from '@jupyterlab/translation';

import { timeOfDay } from './format';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { hasHeldCells } from './parking_view';
import { ResponseError } from './request';
import { IPolicyRequest } from './wire';

/** How the flow speaks with the user, and reaches kernels. */
export interface IParkingDialogs {
  /** Ask whether background work is to be no obstacle to parking one kernel any more. */
  confirmBackgroundWork(): Promise<boolean>;
  tell(text: string, hasWorked: boolean): void;
}

/** Everything of parking that is no release: resume, keep, policy, cancelling cells that wait. Never rejects. */
export class ParkingFlow {
  /** *interrupt* ends the cells of one kernel, as Lab's own button does. */
  constructor(
    private readonly _model: IGpuShareModel,
    private readonly _dialogs: IParkingDialogs,
    private readonly _interrupt: (kernelId: string) => Promise<void>,
    private readonly _trans: TranslationBundle
  ) {}

  /** How it goes is shown by the state; only a refusal is told. */
  async resume(kernelId: string | null): Promise<void> {
    await this._attempt(async () => {
      await this._model.resume(kernelId);
    });
  }

  async keep(seconds: number, kernelId: string | null): Promise<void> {
    await this._attempt(async () => {
      const { kept_until: until, message } = await this._model.keep(seconds, kernelId);
      const wanted = this._model.serverNow + seconds;
      const isSooner = seconds > 0 && until !== null && until < wanted - 90;
      const note = this._trans.__('Your admin allows no longer than until %1.', timeOfDay(until ?? 0));
      this._dialogs.tell(`${sentence(message, this._trans)}${isSooner ? ` ${note}` : ''}`, true);
    });
  }

  async setPolicy(kernelId: string, request: IPolicyRequest): Promise<void> {
    await this._attempt(async () => {
      if (request.allow_background_work !== true || (await this._dialogs.confirmBackgroundWork())) {
        await this._model.setPolicy(kernelId, request);
      }
    });
  }

  /** Interrupt every kernel whose cells wait. */
  async cancelCells(): Promise<void> {
    const waiting = (this._model.snapshot?.kernels ?? []).filter(hasHeldCells);
    await this._attempt(async () => {
      await Promise.all(waiting.map(({ id }) => this._interrupt(id)));
    });
  }

  private async _attempt(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this._dialogs.tell(this._inWords(error), false);
    }
  }

  private _inWords(error: unknown): string {
    if (error instanceof ResponseError && error.sentence) {
      return sentence(error.sentence, this._trans);
    }
    const reason = error instanceof Error ? error.message : String(error);
    return this._trans.__('That could not be done, and nothing has changed: %1', reason);
  }
}
