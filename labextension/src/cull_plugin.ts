import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CommandIDs } from './command_ids';
import { CullFlow } from './cull_flow';
import { CullNotices } from './cull_notices';
import { KEEP_S } from './cull_view';
import { IGpuShareModel } from './model';
import { LabParkingDialogs } from './parking_dialogs';
import { IGpuShare } from './tokens';

const DOMAIN = 'jupyter_gpushare';

/** Warns of what a hub lets end by itself, and keeps it. */
export const culling: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:culling',
  description: 'Warns before unused notebooks or the server end by themselves, and keeps them.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [ICommandPalette, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    { model }: IGpuShare,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const dialogs = new LabParkingDialogs(trans);
    const flow = new CullFlow(model, dialogs.tell.bind(dialogs), trans);
    new CullNotices({ model, keep: (seconds, kernelId) => void flow.keep(seconds, kernelId), trans });
    commands.addCommand(CommandIDs.keepFromEnding, {
      label: trans.__('Keep This Server From Ending for 1 h'),
      isEnabled: () => isOffered(model),
      execute: ({ kernelId, seconds }) =>
        flow.keep(
          typeof seconds === 'number' ? seconds : KEEP_S,
          typeof kernelId === 'string' ? kernelId : null
        ),
      describedBy: {
        args: { type: 'object', properties: { kernelId: { type: 'string' }, seconds: { type: 'number' } } }
      }
    });
    palette?.addItem({ command: CommandIDs.keepFromEnding, category: trans.__('GPU') });
    let wasOffered = false;
    model.changed.connect(() => {
      if (isOffered(model) !== wasOffered) {
        wasOffered = !wasOffered;
        commands.notifyCommandChanged(CommandIDs.keepFromEnding);
      }
    });
  }
};

/** Whether anything ever ends by itself here, so that there is something to keep. */
function isOffered({ snapshot }: IGpuShareModel): boolean {
  return Boolean(snapshot?.culling);
}
