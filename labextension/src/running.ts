import { IRunningSessions } from '@jupyterlab/running';
import { TranslationBundle } from '@jupyterlab/translation';
import { ISignal } from '@lumino/signaling';

import { explain, memory, UNKNOWN } from './format';
import { gpuIcon } from './icon';
import { IGpuShareModel } from './model';
import { isAway } from './parking_view';
import { ReleaseFlow } from './release_flow';
import { inRowOrder, kernelLabel, mayHold } from './share_view';
import { Kernel } from './wire';

/** A section of the Running panel: the kernels that hold GPU memory. Shutting one down is a release. */
export class RunningGpuKernels implements IRunningSessions.IManager {
  constructor(private readonly _options: RunningGpuKernels.IOptions) {
    const { trans } = _options;
    this.name = trans.__('GPU');
    this.shutdownLabel = trans.__('End kernel and give its GPU memory back');
    this.shutdownAllLabel = trans.__('End all GPU kernels');
    this.shutdownAllConfirmationText = trans.__(
      'End every kernel that holds GPU memory? You will see first what would be lost.'
    );
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownAllConfirmationText: string;

  get runningChanged(): ISignal<IGpuShareModel, void> {
    return this._options.model.changed;
  }

  running(): IRunningSessions.IRunningItem[] {
    const { model } = this._options;
    const kernels = model.contact === 'no_extension' ? [] : (model.snapshot?.kernels ?? []);
    return inRowOrder(kernels.filter(kernel => mayHold(kernel) || isAway(kernel))).map(kernel =>
      this._item(kernel)
    );
  }

  refreshRunning(): void {
    void this._options.model.refresh();
  }

  shutdownAll(): void {
    void this._options.flow.carryOut({ level: 'end_all', kernel_id: null });
  }

  private _item(kernel: Kernel): IRunningSessions.IRunningItem {
    const { flow, model, openNotebook, trans } = this._options;
    const { path } = kernel;
    return {
      className: 'jp-gpushare-RunningItem',
      context: kernel.id,
      icon: () => gpuIcon,
      label: () => kernelLabel(kernel),
      labelTitle: () => `${path ?? kernel.name}\n${explain(kernel.memory, trans)}`,
      detail: () => (model.contact === 'live' ? held(kernel, trans) : UNKNOWN),
      open:
        path === null
          ? undefined
          : () => {
              openNotebook(path);
            },
      shutdown: () => {
        void flow.carryOut({ level: 'end_kernel', kernel_id: kernel.id });
      }
    };
  }
}

function held(kernel: Kernel, trans: TranslationBundle): string {
  return isAway(kernel)
    ? trans.__('%1 parked', memory(kernel.parking?.memory ?? null, trans))
    : memory(kernel.memory.value, trans);
}

export namespace RunningGpuKernels {
  export interface IOptions {
    model: IGpuShareModel;
    flow: Pick<ReleaseFlow, 'carryOut'>;
    openNotebook: (path: string) => void;
    trans: TranslationBundle;
  }
}
