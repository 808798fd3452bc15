import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { KernelAPI } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { IPanelActions } from './actions';
import { CommandIDs } from './command_ids';
import { culling } from './cull_plugin';
import { addCommands, PALETTE } from './commands';
import { followSettings, PLUGIN } from './follow_settings';
import { keepMenu, openOnce, rowMenu } from './menus';
import { GpuShareModel, IGpuShareModel } from './model';
import { GpuSharePanel } from './panel';
import { addParkingCommands, PARKING_PALETTE } from './parking_commands';
import { LabParkingDialogs } from './parking_dialogs';
import { ParkingFlow } from './parking_flow';
import { badge, guard, notices } from './parking_plugins';
import { keptUntil } from './parking_view';
import { LabReleaseDialogs } from './release_dialogs';
import { ReleaseFlow } from './release_flow';
import { RunningGpuKernels } from './running';
import { addShareCommands, LEASE_PALETTE } from './share_commands';
import { LabShareDialogs } from './share_dialogs';
import { ShareFlow } from './share_flow';
import { GpuStatusItem } from './status_item';
import { IGpuShare } from './tokens';

const DOMAIN = 'jupyter_gpushare';

/** The model, the panel in the right sidebar, and the commands. */
const panel: JupyterFrontEndPlugin<IGpuShare> = {
  id: PLUGIN,
  description: 'Shows the GPU share of this server, live, and gives it back.',
  autoStart: true,
  provides: IGpuShare,
  optional: [ITranslator, ISettingRegistry, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): IGpuShare => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const share = makeShare(app, trans);
    const widget = new GpuSharePanel(share.model, share.actions, trans);
    app.shell.add(widget, 'right', { rank: 650, type: 'GPU share' });
    restorer?.add(widget, GpuSharePanel.ID);
    addCommands(app, share.model, share.flow, GpuSharePanel.ID, trans);
    [...PALETTE, ...PARKING_PALETTE, ...LEASE_PALETTE].forEach(command =>
      palette?.addItem({ command, category: trans.__('GPU') })
    );
    void followSettings(settings, values => {
      widget.settings = {
        showHistory: values.showHistory !== false,
        showIdleNotebooks: values.showIdleNotebooks === true
      };
    }).then(({ showPanelAtStart }) => (showPanelAtStart === true ? showPanel(app) : undefined));
    return share;
  }
};

/** Memory in use and guaranteed, in the status bar where there is one. */
const statusItem: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:status-item',
  description: 'Shows GPU memory in the status bar.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [IStatusBar, ITranslator, ISettingRegistry], // Notebook 7 has no status bar, and no Running panel here
  activate: (
    app: JupyterFrontEnd,
    { model }: IGpuShare,
    statusBar: IStatusBar | null,
    translator: ITranslator | null,
    settings: ISettingRegistry | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    let shown: IDisposable | null = null;
    void followSettings(settings, ({ showStatusItem }) => {
      shown?.dispose();
      shown = showStatusItem === false ? null : addStatusItem(app, model, statusBar, trans);
    });
  }
};

/** The kernels that hold GPU memory, in the Running panel where there is one. */
const running: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:running',
  description: 'Lists the kernels that hold GPU memory in the Running panel.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    { model, flow, actions }: IGpuShare,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const openNotebook = actions.openNotebook.bind(actions);
    managers?.add(new RunningGpuKernels({ model, flow, openNotebook, trans }));
  }
};

/** The model, the ways to release and to park with their commands, and what the panel may have done. */
function makeShare(app: JupyterFrontEnd, trans: TranslationBundle): IGpuShare {
  const { serverSettings } = app.serviceManager;
  const model = new GpuShareModel({ serverSettings });
  const flow = new ReleaseFlow(model, new LabReleaseDialogs(trans), trans);
  const dialogs = new LabParkingDialogs(trans);
  const interrupt = (kernelId: string): Promise<void> => KernelAPI.interruptKernel(kernelId, serverSettings);
  const parking = new ParkingFlow(model, dialogs, interrupt, trans);
  const showDetails = (kernelId: string | null): void => void dialogs.showDetails(model, kernelId);
  addParkingCommands({ app, model, releasing: flow, parking, showDetails, trans });
  addShareCommands(app, model, new ShareFlow(model, new LabShareDialogs(trans), trans), trans);
  return { model, flow, parking, actions: panelActions(app, model, trans) };
}

function panelActions(app: JupyterFrontEnd, model: GpuShareModel, trans: TranslationBundle): IPanelActions {
  const { commands } = app;
  return {
    release: kernel => {
      void commands.execute(CommandIDs.release, { kernelId: kernel?.id ?? null });
    },
    resume: () => {
      void commands.execute(CommandIDs.resume);
    },
    cancelCells: () => {
      void commands.execute(CommandIDs.cancelCells);
    },
    openKeepMenu: anchor => {
      const isKept = keptUntil(model.snapshot?.kernels ?? []) !== null;
      openOnce(keepMenu(commands, trans, isKept), anchor);
    },
    keepFromEnding: kernelId => {
      void commands.execute(CommandIDs.keepFromEnding, { kernelId });
    },
    showDetails: () => {
      void commands.execute(CommandIDs.details);
    },
    changeShare: () => {
      void commands.execute(CommandIDs.request);
    },
    openNotebook: path => {
      void commands.execute(CommandIDs.openNotebook, { path });
    },
    openRowMenu: (kernel, anchor) => {
      openOnce(rowMenu(commands, kernel, trans), anchor);
    },
    openSettings: () => {
      void commands.execute('settingeditor:open', { query: 'GPU share' });
    },
    retry: () => {
      model.retry();
    }
  };
}

function addStatusItem(
  app: JupyterFrontEnd,
  model: IGpuShareModel,
  statusBar: IStatusBar,
  trans: TranslationBundle
): IDisposable {
  const open = (): void => void app.commands.execute(CommandIDs.showPanel);
  const item = new GpuStatusItem(model, open, trans);
  const registered = statusBar.registerStatusItem('jupyter-gpushare:status-item', {
    item,
    align: 'left',
    rank: 20,
    isActive: () => true
  });
  item.disposed.connect(() => {
    registered.dispose();
  });
  return item;
}

/** Show the panel as soon as the layout of the last visit is there. The focus stays where it is. */
async function showPanel(app: JupyterFrontEnd): Promise<void> {
  await app.restored;
  app.shell.activateById(GpuSharePanel.ID);
}

export default [panel, statusItem, running, notices, guard, badge, culling];
export { IGpuShare } from './tokens';
