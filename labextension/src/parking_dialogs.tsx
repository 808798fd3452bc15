import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { memory } from './format';
import { IGpuShareModel } from './model';
import type { ParkingDetails } from './parking_details';
import { IParkingDialogs } from './parking_flow';
import { parkedBytes } from './parking_view';
import { kernelLabel } from './share_view';
import { IShutdownDialogs } from './shutdown_guard';
import { Kernel } from './wire';

/** The dialogs of parking, in Lab's own manner. */
export class LabParkingDialogs implements IParkingDialogs, IShutdownDialogs {
  constructor(private readonly _trans: TranslationBundle) {}

  async confirmBackgroundWork(): Promise<boolean> {
    const trans = this._trans;
    const body = trans.__(
      'Threads and tasks in the background go on while the notebook is parked. One that uses the GPU then fails, and its kernel may end. Allow it only where your background work leaves the GPU alone.'
    );
    const { button } = await showDialog({
      title: trans.__('Park despite background work?'),
      body,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Allow'), className: 'jp-gpushare-confirm' })
      ],
      defaultButton: 0
    });
    return button.accept;
  }

  async confirmEnd(kernels: readonly Kernel[]): Promise<boolean> {
    const trans = this._trans;
    const [bytes, names] = [memory(parkedBytes(kernels), trans), kernels.map(kernelLabel).join(', ')];
    const body = trans._n(
      '%2 of %3 are safe in host memory. Ending the kernel loses them, and its variables. To free the GPU there is nothing to do: it is free already.',
      '%2 of %3 are safe in host memory. Ending the kernels loses them, and their variables. To free the GPU there is nothing to do: it is free already.',
      kernels.length,
      bytes,
      names
    );
    const { button } = await showDialog({
      title: trans._n('End a parked kernel?', 'End %1 parked kernels?', kernels.length),
      body,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep it parked') }),
        Dialog.warnButton({ label: trans.__('End'), className: 'jp-gpushare-confirm' })
      ],
      defaultButton: 0
    });
    return button.accept;
  }

  tell(text: string, hasWorked: boolean): void {
    if (hasWorked) {
      Notification.info(text, { autoClose: 5000 });
    } else {
      Notification.warning(text, { autoClose: false });
    }
  }

  /** Everything about parking one kernel, or all, while the dialog is open. */
  async showDetails(model: IGpuShareModel, kernelId: string | null): Promise<void> {
    const trans = this._trans;
    const { ParkingDetails } = await import('./parking_details'); // not at start-up
    await showDialog({
      title: trans.__('Parking'),
      body: new DetailsBody(ParkingDetails, model, kernelId, trans),
      buttons: [Dialog.okButton({ label: trans.__('Close') })]
    });
  }
}

class DetailsBody extends ReactWidget {
  constructor(
    private readonly _details: typeof ParkingDetails,
    private readonly _model: IGpuShareModel,
    private readonly _kernelId: string | null,
    private readonly _trans: TranslationBundle
  ) {
    super();
    const watching = _model.watch();
    this.disposed.connect(() => {
      watching.dispose();
    });
  }

  protected override render(): React.JSX.Element {
    const Details = this._details;
    return <Details model={this._model} kernelId={this._kernelId} trans={this._trans} />;
  }
}
