import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { Menu, Widget } from '@lumino/widgets';

import { CommandIDs } from '../command_ids';
import { keepChoices } from '../keep_choices';
import { keepMenu, openOnce, rowMenu } from '../menus';
import { addParkingCommands, PARKING_PALETTE } from '../parking_commands';
import { ParkingFlow } from '../parking_flow';
import { ReleaseFlow } from '../release_flow';
import { Kernel } from '../wire';
import { FakeModel } from './fake_model';
import { kernel, message, parkable, parked, policy, trans } from './samples';

let model: FakeModel;
let commands: CommandRegistry;
let done: unknown[][];
let shell: { currentWidget: Widget | null };

beforeEach(() => {
  model = new FakeModel();
  commands = new CommandRegistry();
  done = [];
  shell = { currentWidget: null };
  const note =
    (name: string) =>
    (...args: unknown[]): Promise<void> =>
      Promise.resolve(void done.push([name, ...args]));
  const parking = { resume: note('resume'), keep: note('keep'), setPolicy: note('policy') };
  addParkingCommands({
    app: { commands, shell } as unknown as JupyterFrontEnd,
    model,
    releasing: { park: note('park') } as unknown as ReleaseFlow,
    parking: { ...parking, cancelCells: note('cancel') } as unknown as ParkingFlow,
    showDetails: kernelId => done.push(['details', kernelId]),
    trans
  });
  [CommandIDs.openNotebook, CommandIDs.release].forEach(id => {
    commands.addCommand(id, { label: id, execute: args => void done.push([id, args]) });
  });
});

function showDocument(id: string): void {
  shell.currentWidget = Object.assign(new Widget(), { sessionContext: { session: { kernel: { id } } } });
}

/** The words of a menu's entries; those of a submenu behind its own. */
function labels(menu: Menu): string[] {
  return menu.items
    .filter(({ type }) => type !== 'separator')
    .flatMap(({ label, submenu }) =>
      submenu ? [`${submenu.title.label}: ${labels(submenu).join(', ')}`] : [label]
    );
}

describe('the palette', () => {
  it('has a name for each entry', () => {
    /* An entry without a label is invisible. */
    expect(PARKING_PALETTE.map(id => commands.label(id)).every(label => label !== '')).toBe(true);
  });

  it('parks the notebook in front, and no other', async () => {
    /* "The current notebook" is the one that the user sees. */
    model.say({ kernels: [parkable(), parkable({}, { id: 'kernel-2' })] });
    expect(commands.isEnabled(CommandIDs.park)).toBe(false);
    showDocument('kernel-2');
    expect(commands.isEnabled(CommandIDs.park)).toBe(true);
    await commands.execute(CommandIDs.park);
    expect(done).toEqual([['park', 'kernel-2']]);
  });

  it('parks nothing that cannot be parked', () => {
    /* An entry that can only fail is greyed out. */
    showDocument('kernel-1');
    const refusal = message('UVM', 'It uses managed memory.');
    [kernel(), parked(), parkable({ refusal })].forEach(one => {
      model.say({ kernels: [one] });
      expect(commands.isEnabled(CommandIDs.park)).toBe(false);
    });
  });

  it('resumes only where something is parked', async () => {
    /* It brings everything back: the user wants the GPU, not one notebook by name. */
    expect(commands.isEnabled(CommandIDs.resume)).toBe(false);
    model.say({ kernels: [parked()] });
    expect(commands.isEnabled(CommandIDs.resume)).toBe(true);
    await commands.execute(CommandIDs.resume);
    expect(done).toEqual([['resume', null]]);
  });

  it('keeps for an hour, where the server parks by itself', async () => {
    /* Without an automatic parking there is nothing to keep from. */
    await commands.execute(CommandIDs.keep);
    expect(done).toEqual([['keep', 3600, null]]);
    model.say({ parking_mode: 'observe' });
    expect(commands.isEnabled(CommandIDs.keep)).toBe(false);
  });
});

describe('the keep menu', () => {
  it('offers times that people think in, and to stop where something is kept', () => {
    /* Nobody has to type seconds. */
    expect(labels(keepMenu(commands, trans, false)).slice(0, 4)).toEqual(['15 min', '1 h', '2 h', '4 h']);
    const kept = labels(keepMenu(commands, trans, true));
    expect(kept[kept.length - 1]).toBe('Stop keeping');
  });

  it('offers "until tonight" only while it is more than the first hour away', () => {
    /* At 21:30 it would mean half an hour, at 23:00 nothing. */
    const last = (hour: number): number | undefined =>
      keepChoices(new Date(2026, 4, 4, hour, 0), trans)[4]?.seconds;
    expect([last(14), last(21), last(23)]).toEqual([8 * 3600, undefined, undefined]);
  });

  it('is worked by the keyboard, and gives the focus back', () => {
    /* Who works without a pointer keeps their place. */
    const opener = document.body.appendChild(document.createElement('button'));
    opener.focus();
    openOnce(keepMenu(commands, trans, false), new DOMRect());
    const menu = document.querySelector('.jp-gpushare-KeepMenu');
    const press = (key: string, keyCode: number): boolean | undefined =>
      menu?.dispatchEvent(new KeyboardEvent('keydown', { code: key, key, keyCode, bubbles: true }));
    press('ArrowDown', 40);
    press('ArrowDown', 40);
    press('Enter', 13);
    expect(done).toEqual([['keep', 3600, null]]);
    expect(document.activeElement).toBe(opener);
    opener.remove();
  });
});

describe('the menu of a row', () => {
  function menu(row: Kernel): string[] {
    model.say({ kernels: [row] });
    return labels(rowMenu(commands, row, trans)).map(label => label.replace(/: .*/, ''));
  }

  it('offers what can be done with it now', () => {
    /* Parking what is parked, or resuming what runs, would be noise. */
    const policies = ['Keep for', 'Park by Itself after', 'Park despite Background Work', 'Details…'];
    expect(menu(parkable())).toEqual([CommandIDs.openNotebook, 'Park', ...policies, CommandIDs.release]);
    expect(menu(parked())).toEqual([CommandIDs.openNotebook, 'Resume', ...policies, CommandIDs.release]);
    expect(menu(kernel())).toEqual([CommandIDs.openNotebook, CommandIDs.release]);
  });

  it('offers to allow other programs only where they stand in the way', () => {
    /* An allowance that nobody needs only frightens. */
    const refusal = message('FOREIGN_PROCESSES', 'Another program is on the GPU.');
    expect(menu(parkable({ refusal }))).toContain('Park despite Other Programs on the GPU');
    expect(menu(parkable({ policy: policy({ allow_foreign: true }) }))).toContain(
      'Park despite Other Programs on the GPU'
    );
  });

  it('shows the policy that holds, and changes it for this kernel', () => {
    /* The tick is at what is true, not at what was pressed last. */
    const row = parkable({ policy: policy({ idle_timeout_s: 3600, source: 'owner' }) });
    const idle = rowMenu(commands, row, trans).items.find(
      ({ submenu }) => submenu?.title.label === 'Park by Itself after'
    )?.submenu;
    const ticked = idle?.items.filter(({ isToggled }) => isToggled).map(({ label }) => label);
    expect(ticked).toEqual(['1 h']);
    const never = idle?.items.find(({ label }) => label === 'Never');
    void commands.execute(CommandIDs.policy, never?.args);
    expect(done).toEqual([['policy', 'kernel-1', { idle_timeout_s: null }]]);
  });
});
