import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { IPanelActions } from './actions';
import { addCommands, CommandIDs, PALETTE } from './commands';
import { GpuShareModel, IGpuShareModel } from './model';
import { GpuSharePanel } from './panel';
import { LabReleaseDialogs } from './release_dialogs';
import { ReleaseFlow } from './release_flow';
import { openRowMenu } from './row_menu';
import { RunningGpuKernels } from './running';
import { GpuStatusItem } from './status_item';
import { IGpuShare } from './tokens';

const PLUGIN = 'jupyter-gpushare:plugin';
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
    const model = new GpuShareModel({ serverSettings: app.serviceManager.serverSettings });
    const flow = new ReleaseFlow(model, new LabReleaseDialogs(trans), trans);
    const actions = panelActions(app, model);
    const widget = new GpuSharePanel(model, actions, trans);
    app.shell.add(widget, 'right', { rank: 650, type: 'GPU share' });
    restorer?.add(widget, GpuSharePanel.ID);
    addCommands(app, model, flow, GpuSharePanel.ID, trans);
    PALETTE.forEach(command => palette?.addItem({ command, category: trans.__('GPU') }));
    void followSettings(settings, values => {
      widget.settings = {
        showHistory: values.showHistory !== false,
        showIdleNotebooks: values.showIdleNotebooks === true
      };
    }).then(({ showPanelAtStart }) => (showPanelAtStart === true ? showPanel(app) : undefined));
    return { model, flow, actions };
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

function panelActions(app: JupyterFrontEnd, model: GpuShareModel): IPanelActions {
  const { commands } = app;
  return {
    release: kernel => {
      void commands.execute(CommandIDs.release, { kernelId: kernel?.id ?? null });
    },
    openNotebook: path => {
      void commands.execute(CommandIDs.openNotebook, { path });
    },
    openRowMenu: (kernel, anchor) => {
      openRowMenu(commands, kernel, anchor);
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

/** Call *apply* now and on every change; with nothing set where there are no settings. Gives what was set at first. */
async function followSettings(
  registry: ISettingRegistry | null,
  apply: (values: Record<string, unknown>) => void
): Promise<Record<string, unknown>> {
  const settings = await registry?.load(PLUGIN).catch(() => undefined); // without a schema: the defaults
  const first = settings?.composite ?? {};
  apply(first);
  settings?.changed.connect(() => {
    apply(settings.composite);
  });
  return first;
}

export default [panel, statusItem, running];
export { IGpuShare } from './tokens';
