import { JupyterFrontEnd } from '@jupyterlab/application';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from './command_ids';
import { currentKernel } from './current_kernel';
import { IGpuShareModel } from './model';
import { ParkingFlow } from './parking_flow';
import { canPark, isAway, isHolder } from './parking_view';
import { ReleaseFlow } from './release_flow';
import { IPolicyRequest, Kernel } from './wire';

const HOUR_S = 3600;

/** The commands of parking that stand in the palette. They are about the notebook in front, or else about all. */
export const PARKING_PALETTE = [CommandIDs.park, CommandIDs.resume, CommandIDs.keep];

interface IParkingCommandsOptions {
  app: JupyterFrontEnd;
  model: IGpuShareModel;
  releasing: ReleaseFlow;
  parking: ParkingFlow;
  showDetails: (kernelId: string | null) => void;
  trans: TranslationBundle;
}

type Args = ReadonlyPartialJSONObject;

export function addParkingCommands(options: IParkingCommandsOptions): void {
  const { app, model, releasing, parking, showDetails, trans } = options;
  const { commands, shell } = app;
  const kernelId = (args: Args): string | null => textIn(args.kernelId) ?? inFront()?.id ?? null;
  const inFront = (): Kernel | null => currentKernel(model, shell.currentWidget);
  const anyKernel = (test: (kernel: Kernel) => boolean): boolean =>
    model.snapshot?.kernels.some(test) ?? false;

  commands.addCommand(CommandIDs.park, {
    label: args => textIn(args.label) ?? trans.__('Park GPU Memory of the Current Notebook'),
    isEnabled: args => {
      const kernel = model.snapshot?.kernels.find(({ id }) => id === kernelId(args));
      return kernel !== undefined && isHolder(kernel) && canPark(kernel);
    },
    execute: args => releasing.park(kernelId(args)),
    describedBy: { args: KERNEL_ARGS }
  });
  commands.addCommand(CommandIDs.resume, {
    label: args => textIn(args.label) ?? trans.__('Resume Parked GPU Memory'),
    isEnabled: () => anyKernel(isAway),
    execute: args => parking.resume(textIn(args.kernelId)),
    describedBy: { args: KERNEL_ARGS }
  });
  commands.addCommand(CommandIDs.keep, {
    label: args => textIn(args.label) ?? trans.__('Keep GPU Memory for 1 h'),
    isEnabled: () => model.snapshot?.parking_mode === 'park',
    execute: args => parking.keep(numberIn(args.seconds) ?? HOUR_S, textIn(args.kernelId)),
    describedBy: { args: KEEP_ARGS }
  });
  commands.addCommand(CommandIDs.policy, {
    label: args => textIn(args.label) ?? trans.__('Change When a Notebook Is Parked'),
    isToggled: args => args.isToggled === true,
    execute: async args => {
      const id = textIn(args.kernelId);
      if (id !== null) {
        await parking.setPolicy(id, args.change as IPolicyRequest);
      }
    },
    describedBy: { args: KERNEL_ARGS }
  });
  commands.addCommand(CommandIDs.details, {
    label: trans.__('Details…'),
    execute: args => {
      showDetails(textIn(args.kernelId));
    },
    describedBy: { args: KERNEL_ARGS }
  });
  commands.addCommand(CommandIDs.cancelCells, {
    label: trans.__('Cancel Cells That Wait for the GPU'),
    execute: () => parking.cancelCells(),
    describedBy: { args: { type: 'object', properties: {} } }
  });
}

const KERNEL_ARGS = { type: 'object', properties: { kernelId: { type: 'string' } } };

const KEEP_ARGS = {
  type: 'object',
  properties: { kernelId: { type: 'string' }, seconds: { type: 'number' } }
};

function textIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function numberIn(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
