import { JupyterFrontEnd } from '@jupyterlab/application';
import { TranslationBundle } from '@jupyterlab/translation';

import { CommandIDs } from './command_ids';
import { currentKernel } from './current_kernel';
import { gpuIcon } from './icon';
import { IGpuShareModel } from './model';
import { ReleaseFlow } from './release_flow';

/** The commands that stand in the palette. The others need arguments. */
export const PALETTE = [CommandIDs.showPanel, CommandIDs.release, CommandIDs.freeCache];

export function addCommands(
  app: JupyterFrontEnd,
  model: IGpuShareModel,
  flow: ReleaseFlow,
  panelId: string,
  trans: TranslationBundle
): void {
  const { commands, shell } = app;
  commands.addCommand(CommandIDs.showPanel, {
    label: trans.__('Show GPU Share'),
    icon: gpuIcon,
    execute: () => {
      shell.activateById(panelId);
    },
    describedBy: { args: { type: 'object', properties: {} } }
  });
  commands.addCommand(CommandIDs.release, {
    label: trans.__('Release GPU Memory…'),
    isEnabled: () => (model.snapshot?.devices.length ?? 0) > 0,
    execute: async args => {
      await model.refresh();
      const kernelId = typeof args.kernelId === 'string' ? args.kernelId : null;
      await (args.choose === true ? flow.choose(kernelId) : flow.begin(kernelId));
    },
    describedBy: {
      args: { type: 'object', properties: { kernelId: { type: 'string' }, choose: { type: 'boolean' } } }
    }
  });
  commands.addCommand(CommandIDs.freeCache, {
    label: trans.__('Free Cached GPU Memory of the Current Notebook'),
    isEnabled: () => currentKernel(model, shell.currentWidget) !== null,
    execute: async () => {
      const kernel = currentKernel(model, shell.currentWidget);
      if (kernel) {
        await flow.carryOut({ level: 'free_cache', kernel_id: kernel.id });
      }
    },
    describedBy: { args: { type: 'object', properties: {} } }
  });
  commands.addCommand(CommandIDs.openNotebook, {
    label: trans.__('Open Notebook'),
    execute: args => commands.execute('docmanager:open', { path: args.path }),
    describedBy: { args: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } }
  });
}
