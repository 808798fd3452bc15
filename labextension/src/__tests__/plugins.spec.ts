import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { IStatusBar } from '@jupyterlab/statusbar';
import { CommandRegistry } from '@lumino/commands';
import { DisposableDelegate } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import plugins, { IGpuShare } from '../index';
import { PALETTE } from '../commands';
import { FakeServer } from './fake_server';

const [panel, statusItem, running] = plugins as [
  JupyterFrontEndPlugin<IGpuShare>,
  JupyterFrontEndPlugin<void>,
  JupyterFrontEndPlugin<void>
];

/** An application as far as the plugins need one; *added* holds what they put into its shell. */
class FakeApplication {
  readonly commands = new CommandRegistry();
  readonly added: { widget: Widget; area: string }[] = [];
  readonly serviceManager = { serverSettings: new FakeServer().settings };
  readonly shell = {
    currentWidget: null,
    add: (widget: Widget, area: string): void => void this.added.push({ widget, area }),
    activateById: (): void => undefined
  };
}

let app: FakeApplication;

beforeEach(() => {
  app = new FakeApplication();
});

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
  expect(items).toEqual(PALETTE);
  expect(restored).toEqual([shown?.widget.id]);
});

it('work without a status bar, a palette, settings and a Running panel', () => {
  /* Notebook 7 has none of them. */
  const share = activate(panel, null, null, null, null);
  activate(statusItem, share, null, null, null);
  activate(running, share, null, null);
  expect(app.added).toHaveLength(1);
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

it('add a section to the Running panel', () => {
  /* Who looks for running kernels finds those that hold GPU memory. */
  const sections: string[] = [];
  const managers = { add: ({ name }: IRunningSessions.IManager) => sections.push(name) };
  const share = activate(panel, null, null, null, null);
  activate(running, share, managers as unknown as IRunningSessionManagers, null);
  expect(sections).toEqual(['GPU']);
});
