import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../command_ids';
import { addCommands, PALETTE } from '../commands';
import { IReleaseDialogs, ReleaseFlow, ReleaseWish } from '../release_flow';
import { FakeModel } from './fake_model';
import { kernel, release, trans } from './samples';

/** A user who gives up at once, and remembers for which kernel the dialog was opened. */
class HesitantUser implements IReleaseDialogs {
  readonly asked: (string | null)[] = [];

  choose(_: unknown, kernelId: string | null): Promise<ReleaseWish | null> {
    this.asked.push(kernelId);
    return Promise.resolve(null);
  }

  confirm(): Promise<boolean> {
    return Promise.resolve(false);
  }

  tell(): void {
    // Nothing is told to who asked for nothing.
  }
}

let model: FakeModel;
let user: HesitantUser;
let commands: CommandRegistry;
let shell: { currentWidget: Widget | null; activateById: (id: string) => void };
let activated: string[];

beforeEach(() => {
  model = new FakeModel();
  user = new HesitantUser();
  commands = new CommandRegistry();
  activated = [];
  shell = { currentWidget: null, activateById: id => void activated.push(id) };
  const app = { commands, shell } as unknown as JupyterFrontEnd;
  addCommands(app, model, new ReleaseFlow(model, user, trans), 'the-panel', trans);
});

/** Put a document with the kernel *id* in front. */
function showDocument(id: string): void {
  shell.currentWidget = Object.assign(new Widget(), { sessionContext: { session: { kernel: { id } } } });
}

it('has a name for each entry of the palette', () => {
  /* A palette entry without a label is invisible, and without its command it fails. */
  PALETTE.forEach(id => {
    expect(commands.label(id)).not.toBe('');
  });
});

it('shows the panel', async () => {
  /* The palette is the way to the panel for who closed it, and in Notebook 7. */
  await commands.execute(CommandIDs.showPanel);
  expect(activated).toEqual(['the-panel']);
});

it('looks anew before it asks what to release', async () => {
  /* With the panel closed the last snapshot may be hours old. */
  await commands.execute(CommandIDs.release, { kernelId: 'kernel-1' });
  await commands.execute(CommandIDs.release);
  expect(model.refreshes).toBe(2);
  expect(user.asked).toEqual(['kernel-1', null]);
});

it('offers no release where there is no GPU', () => {
  /* An entry that can never work is greyed out. */
  expect(commands.isEnabled(CommandIDs.release)).toBe(true);
  model.say({ devices: [] });
  expect(commands.isEnabled(CommandIDs.release)).toBe(false);
});

it('frees the cache of the notebook in front, and of no other', async () => {
  /* "The current notebook" is the one that the user sees. */
  model.say({ kernels: [kernel(), kernel({ id: 'kernel-2' })] });
  model.answers = [release({ status: 'released' })];
  expect(commands.isEnabled(CommandIDs.freeCache)).toBe(false);
  showDocument('kernel-2');
  expect(commands.isEnabled(CommandIDs.freeCache)).toBe(true);
  await commands.execute(CommandIDs.freeCache);
  expect(model.requests).toEqual([{ level: 'free_cache', kernel_id: 'kernel-2', confirm: '' }]);
});

it('does not take the kernel of another server for one of ours', () => {
  /* A remote kernel's id means nothing here. */
  showDocument('elsewhere');
  expect(commands.isEnabled(CommandIDs.freeCache)).toBe(false);
});

it('opens a notebook by its path', async () => {
  /* A row leads to its notebook. */
  const paths: unknown[] = [];
  commands.addCommand('docmanager:open', { execute: args => void paths.push(args.path) });
  await commands.execute(CommandIDs.openNotebook, { path: 'work/train.ipynb' });
  expect(paths).toEqual(['work/train.ipynb']);
});
