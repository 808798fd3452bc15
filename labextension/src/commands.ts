import { JupyterFrontEnd } from '@jupyterlab/application';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { gpuIcon } from './icon';
import { IGpuShareModel } from './model';
import { ReleaseFlow } from './release_flow';
import { Kernel } from './wire';

export namespace CommandIDs {
  export const showPanel = 'gpushare:show-panel';
  export const release = 'gpushare:release';
  export const freeCache = 'gpushare:free-cache';
  export const openNotebook = 'gpushare:open-notebook';
}

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
      await flow.begin(typeof args.kernelId === 'string' ? args.kernelId : null);
    },
    describedBy: { args: { type: 'object', properties: { kernelId: { type: 'string' } } } }
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

/** The kernel behind the document in front, where it is one of this server's. */
export function currentKernel(model: IGpuShareModel, widget: Widget | null): Kernel | null {
  const id = widget && kernelIdOf(widget);
  return model.snapshot?.kernels.find(kernel => kernel.id === id) ?? null;
}

/** Notebooks and consoles alike keep their kernel in a `sessionContext`; we need no more of them than that. */
function kernelIdOf(widget: Widget): string | null {
  const holder: { sessionContext?: { session?: { kernel?: { id?: unknown } | null } | null } } & Widget =
    widget;
  const id = holder.sessionContext?.session?.kernel?.id;
  return typeof id === 'string' ? id : null;
}
