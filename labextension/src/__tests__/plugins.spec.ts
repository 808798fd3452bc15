import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { waitFor } from '@testing-library/dom';
import { CommandRegistry } from '@lumino/commands';
import { PromiseDelegate } from '@lumino/coreutils';
import { DisposableDelegate } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import plugins, { IGpuShare } from '../index';
import { PALETTE } from '../commands';
import { PARKING_PALETTE } from '../parking_commands';
import { LEASE_PALETTE } from '../share_commands';
import schema from '../../schema/plugin.json';
import { FakeServer } from './fake_server';
import { parked, snapshot } from './samples';

const [panel, statusItem, running, notices, guard, badge] = plugins as [
  JupyterFrontEndPlugin<IGpuShare>,
  JupyterFrontEndPlugin<void>,
  JupyterFrontEndPlugin<void>,
  JupyterFrontEndPlugin<void>,
  JupyterFrontEndPlugin<void>,
  JupyterFrontEndPlugin<void>
];

/** An application as far as the plugins need one; *added* holds what they put into its shell. */
class FakeApplication {
  private readonly _layout = new PromiseDelegate<void>();
  readonly commands = new CommandRegistry();
  readonly added: { widget: Widget; area: string }[] = [];
  readonly shown: string[] = [];
  readonly restored = this._layout.promise;
  readonly server = new FakeServer();
  readonly documents: Widget[] = [];
  readonly serviceManager = { serverSettings: this.server.settings, sessions: { running: () => [] } };
  readonly shell = {
    currentWidget: null,
    widgets: () => this.documents,
    add: (widget: Widget, area: string): void => void this.added.push({ widget, area }),
    activateById: (id: string): void => {
      this.shown.push(id);
      this.added.find(({ widget }) => widget.id === id)?.widget.activate();
    }
  };

  restore(): Promise<void> {
    this._layout.resolve();
    return settled();
  }
}

let app: FakeApplication;

beforeEach(() => {
  app = new FakeApplication();
});

/** Until everything that is waiting has gone on. */
async function settled(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

function settingsWith(composite: Record<string, unknown>): ISettingRegistry {
  const changed = { connect: () => true };
  return { load: () => Promise.resolve({ composite, changed }) } as unknown as ISettingRegistry;
}

function activate<T>(plugin: JupyterFrontEndPlugin<T>, ...services: unknown[]): T {
  return plugin.activate(app as unknown as JupyterFrontEnd, ...services) as T;
}

it('put the panel into the right sidebar, its commands into the palette, and have it restored', () => {
  /* The panel is there where people look for it, and after a reload. */
  const items: string[] = [];
  const restored: string[] = [];
  const palette = { addItem: ({ command }: { command: string }) => items.push(command) };
  const restorer = { add: (_: Widget, name: string) => restored.push(name) };
  activate(panel, null, null, palette as unknown as ICommandPalette, restorer as unknown as ILayoutRestorer);
  const [shown] = app.added;
  expect(shown?.area).toBe('right');
  expect(items).toEqual([...PALETTE, ...PARKING_PALETTE, ...LEASE_PALETTE]);
  expect(restored).toEqual([shown?.widget.id]);
});

it('work without a status bar, a palette, settings and a Running panel', () => {
  /* Notebook 7 has none of them. */
  const share = activate(panel, null, null, null, null);
  activate(statusItem, share, null, null, null);
  activate(running, share, null, null);
  activate(notices, share, null, null);
  activate(badge, share, null, null);
  expect(app.added).toHaveLength(1);
});

describe('the panel at start', () => {
  it('is shown after the restored layout where the settings say so, and leaves the focus where it is', async () => {
    /* A restored layout would close it again, and who types at once types into the notebook. */
    const cell = document.body.appendChild(document.createElement('input'));
    cell.focus();
    activate(panel, null, settingsWith({ showPanelAtStart: true }), null, null);
    await settled();
    expect(app.shown).toEqual([]);
    const [added] = app.added;
    Widget.attach(added?.widget ?? new Widget(), document.body);
    await app.restore();
    expect(app.shown).toEqual([added?.widget.id]);
    expect(document.activeElement).toBe(cell);
    added?.widget.dispose();
    cell.remove();
  });

  it.each([{}, { showPanelAtStart: false }, { showPanelAtStart: 'yes' }])(
    'stays as it was with %p',
    async composite => {
      /* Nobody's side bar opens unasked. */
      activate(panel, null, settingsWith(composite), null, null);
      await app.restore();
      expect(app.shown).toEqual([]);
    }
  );
});

it('ask the server for nothing before something is shown', () => {
  /* Lab starts as fast as without us, and an idle server stays idle. */
  const server = new FakeServer();
  app = Object.assign(new FakeApplication(), { serviceManager: { serverSettings: server.settings } });
  activate(panel, null, null, null, null);
  expect(server.asked).toEqual([]);
  expect(server.sockets).toEqual([]);
});

it('put the figure into the status bar', async () => {
  /* The figure is there without the panel. */
  const registered: string[] = [];
  const statusBar = {
    registerStatusItem: (id: string) => {
      registered.push(id);
      return new DisposableDelegate(() => undefined);
    }
  };
  const share = activate(panel, null, null, null, null);
  activate(statusItem, share, statusBar as unknown as IStatusBar, null, null);
  await Promise.resolve();
  await Promise.resolve();
  expect(registered).toEqual(['jupyter-gpushare:status-item']);
});

it('have a command for each entry of the menu of the panel', () => {
  /* An entry whose command has another name would be greyed out for ever. */
  activate(panel, null, null, null, null);
  const entries = schema['jupyter.lab.menus'].context;
  expect(entries.map(({ command }) => app.commands.hasCommand(command))).toEqual(entries.map(() => true));
  const [added] = app.added;
  expect(entries.every(({ selector }) => added?.widget.node.matches(selector))).toBe(true);
});

it('add a section to the Running panel', () => {
  /* Who looks for running kernels finds those that hold GPU memory. */
  const sections: string[] = [];
  const managers = { add: ({ name }: IRunningSessions.IManager) => sections.push(name) };
  const share = activate(panel, null, null, null, null);
  activate(running, share, managers as unknown as IRunningSessionManagers, null);
  expect(sections).toEqual(['GPU']);
});

it('add the badge to the toolbar of notebooks, under the name that the schema has', () => {
  /* Two names that differ by a letter would leave an empty place in the toolbar. */
  const factories: string[] = [];
  const toolbars = { addFactory: (widget: string, item: string) => void factories.push(`${widget}/${item}`) };
  const share = activate(panel, null, null, null, null);
  activate(badge, share, toolbars as unknown as IToolbarWidgetRegistry, null);
  const inSchema = schema['jupyter.lab.toolbars'].Notebook.map(({ name }) => `Notebook/${name}`);
  expect(factories).toEqual(inSchema);
});

it("stand before the shutdown of a parked kernel's document", async () => {
  /* The guard must cover what is open, or a menu of Lab's ends what is safe in host memory. */
  const kernelId = 'kernel-1';
  const shutdown = jest.fn(() => Promise.resolve());
  const context = { session: { kernel: { id: kernelId } }, shutdown };
  app.documents.push(Object.assign(new Widget(), { sessionContext: context }));
  const share = activate(panel, null, null, null, null);
  activate(guard, share, null);
  app.server.answers.set('session', { status: 200, body: snapshot({ kernels: [parked()] }) });
  await share.model.refresh();
  const ended = context.shutdown();
  const keep = await waitFor(() => {
    const button = document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-reject');
    if (!button) {
      throw new Error('nobody has asked yet');
    }
    return button;
  });
  keep.click();
  await expect(ended).rejects.toThrow('Nothing was ended');
  expect(shutdown).not.toHaveBeenCalled();
});
