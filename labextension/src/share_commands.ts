import { JupyterFrontEnd } from '@jupyterlab/application';
import { TranslationBundle } from '@jupyterlab/translation';

import { CommandIDs } from './command_ids';
import { IGpuShareModel } from './model';
import { ShareFlow } from './share_flow';

/** What of the lease stands in the palette. The menu of the panel has it from the settings' schema. */
export const LEASE_PALETTE = [CommandIDs.request];

export function addShareCommands(
  { commands }: JupyterFrontEnd,
  model: IGpuShareModel,
  flow: ShareFlow,
  trans: TranslationBundle
): void {
  commands.addCommand(CommandIDs.request, {
    label: trans.__('Change GPU Share…'),
    isVisible: () => (model.snapshot?.lease ?? null) !== null,
    isEnabled: () => model.contact === 'live' && (model.snapshot?.lease?.can_request ?? false),
    execute: async () => {
      await model.refresh();
      await flow.begin();
    },
    describedBy: { args: { type: 'object', properties: {} } }
  });
}
