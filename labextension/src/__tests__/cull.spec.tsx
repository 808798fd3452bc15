import { Notification } from '@jupyterlab/apputils';
import { act, fireEvent, render, screen } from '@testing-library/react';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { CommandIDs } from '../command_ids';
import { CullFlow } from '../cull_flow';
import { CullNotices } from '../cull_notices';
import { culling as plugin } from '../cull_plugin';
import { roughlyLeft } from '../cull_view';
import { PanelView } from '../panel_view';
import { ResponseError } from '../request';
import { asSnapshot, CullWarning } from '../wire';
import { FakeModel } from './fake_model';
import { message, snapshot, trans } from './samples';
import { SeenActions } from './seen_actions';

let model: FakeModel;
let kept: unknown[][];
let notices: CullNotices | null = null;

const NOW = 1_800_000_000;

function warning(inS: number, changes: Partial<CullWarning> = {}): CullWarning {
  const sentence = message('SERVER_STOPS_IDLE', 'Nobody has used this server for {idle}.', { idle: '11 h' });
  return { what: 'server', kernel_id: null, at: NOW + inS, message: sentence, can_keep: true, ...changes };
}

const KERNEL: Partial<CullWarning> = {
  what: 'kernel',
  kernel_id: 'kernel-1',
  message: message('KERNEL_ENDS', '{notebook} has held its GPU unused.', { notebook: 'a.ipynb' })
};

function say(...warnings: CullWarning[]): void {
  act(() => {
    model.say({ culling: { warnings, kept_until: null } });
  });
}

function told(): string[] {
  return Notification.manager.notifications.map(({ message: text }) => text);
}

function pass(seconds: number): void {
  act(() => {
    jest.advanceTimersByTime(seconds * 1000);
  });
}

beforeEach(() => {
  jest.useFakeTimers({ now: NOW * 1000 });
  model = new FakeModel();
  kept = [];
});

afterEach(() => {
  notices?.dispose();
  notices = null;
  Notification.manager.dismiss();
  jest.useRealTimers();
});

describe('the notification', () => {
  beforeEach(() => {
    notices = new CullNotices({ model, keep: (...asked) => kept.push(asked), trans });
  });

  it('says what ends, and what is left of the time', () => {
    /* Minutes while there are some, then less and less; never every second. */
    say(warning(605));
    expect(told()).toEqual(['10 minutes left. Nobody has used this server for 11 h.']);
    pass(30);
    expect(told()).toEqual(['9 minutes left. Nobody has used this server for 11 h.']);
    pass(520);
    expect(told()).toEqual(['Less than 60 seconds left. Nobody has used this server for 11 h.']);
    pass(40);
    expect(told()).toEqual(['Less than 30 seconds left. Nobody has used this server for 11 h.']);
  });

  it('keeps what it is about', () => {
    /* The kernel that it names, or the server with everything in it. */
    say(warning(500), warning(300, KERNEL));
    Notification.manager.notifications.forEach(({ options }) => {
      (options.actions ?? []).forEach(action => {
        action.callback(new MouseEvent('click'));
      });
    });
    expect(kept).toHaveLength(2);
    expect(kept).toContainEqual([3600, null]);
    expect(kept).toContainEqual([3600, 'kernel-1']);
  });

  it('offers nothing that cannot be had', () => {
    /* A server that is too old cannot be kept. */
    say(warning(500, { can_keep: false }));
    expect(Notification.manager.notifications[0]?.options.actions).toEqual([]);
  });

  it('goes when nothing is about to end any more', () => {
    /* A false warning would be worse than none. */
    say(warning(500));
    say();
    expect(told()).toEqual([]);
  });

  it('goes while the server is not heard', () => {
    /* What it said last may have been put off since. */
    say(warning(500));
    act(() => {
      model.say({ culling: { warnings: [warning(500)], kept_until: null } }, 'lost');
    });
    expect(told()).toEqual([]);
  });

  it('stays closed once it was closed, until the last minute', () => {
    /* Who has seen it is left alone; who forgot it has a last chance, once. */
    say(warning(300));
    Notification.manager.dismiss();
    pass(120);
    expect(told()).toEqual([]);
    pass(121);
    expect(told()).toEqual(['Less than 60 seconds left. Nobody has used this server for 11 h.']);
    Notification.manager.dismiss();
    pass(30);
    expect(told()).toEqual([]);
  });

  it('leaves nothing behind', () => {
    /* A plugin that is disposed of takes its warnings along. */
    say(warning(500));
    notices?.dispose();
    expect(told()).toEqual([]);
    say(warning(400));
    expect(told()).toEqual([]);
  });
});

describe('the box in the panel', () => {
  const actions = new SeenActions();

  beforeEach(() => {
    render(
      <PanelView
        model={model}
        actions={actions}
        settings={{ showHistory: false, showIdleNotebooks: false }}
        trans={trans}
      />
    );
  });

  it('shows a clock that runs and is not spoken', () => {
    /* A screen reader hears the minutes; eyes see the seconds. */
    expect(screen.queryByTestId('gpushare-culling')).toBeNull();
    say(warning(125));
    const left = screen.getByTestId('gpushare-culling-left');
    expect(left.textContent).toBe('2:05');
    expect(left.getAttribute('aria-live')).toBe('off');
    pass(2);
    expect(screen.getByTestId('gpushare-culling-left').textContent).toBe('2:03');
    expect(screen.getByText('2 minutes left.').getAttribute('aria-live')).toBe('polite');
  });

  it('keeps with a button that says what it keeps', () => {
    /* By keyboard as by mouse: it is a button with a name. */
    say(warning(500), warning(300, KERNEL));
    fireEvent.click(screen.getByRole('button', { name: 'Keep this server for 1 hour' }));
    fireEvent.click(screen.getByRole('button', { name: 'Keep this notebook for 1 hour' }));
    expect(actions.seen).toEqual(['keep from ending all', 'keep from ending kernel-1']);
  });

  it('has no button where nothing can be kept', () => {
    say(warning(500, { can_keep: false }));
    expect(screen.queryByTestId('gpushare-culling-keep')).toBeNull();
  });

  it('goes while the server is not heard', () => {
    say(warning(500));
    act(() => {
      model.say({ culling: { warnings: [warning(500)], kept_until: null } }, 'lost');
    });
    expect(screen.queryByTestId('gpushare-culling')).toBeNull();
  });
});

describe('keeping', () => {
  it('tells what came of it', async () => {
    /* Until when; and plainly where the hub did not hear it, or it was refused. */
    const seen: [string, boolean][] = [];
    const flow = new CullFlow(model, (...said) => seen.push(said), trans);
    await flow.keep(3600, null);
    model.kept = {
      kept_until: NOW + 3600,
      message: message('KEPT_NOT_TOLD', 'Kept here, the hub not told.')
    };
    await flow.keep(3600, 'kernel-1');
    const nothing = message('NOTHING_IS_CULLED', 'Nothing here ends by itself.');
    model.refusals = [new ResponseError(409, nothing, ''), new Error('no network')];
    await flow.keep(60, null);
    await flow.keep(60, null);
    expect(model.wishes[0]).toEqual(['keep from ending', 3600, null]);
    expect(seen).toEqual([
      ['Kept for you.', true],
      ['Kept here, the hub not told.', false],
      ['Nothing here ends by itself.', false],
      ['It could not be kept: no network', false]
    ]);
  });

  it('is a command for who works by keyboard', async () => {
    /* It stands in the palette, and works only where something may end. */
    const commands = new CommandRegistry();
    const palette = { addItem: jest.fn() };
    const share = { model } as never;
    await plugin.activate({ commands } as never, share, palette, null);
    expect(palette.addItem).toHaveBeenCalledWith({ command: CommandIDs.keepFromEnding, category: 'GPU' });
    expect(commands.isEnabled(CommandIDs.keepFromEnding)).toBe(false);
    let changes = 0;
    commands.commandChanged.connect(() => (changes += 1));
    say();
    say(warning(500));
    expect(changes).toBe(1);
    expect(commands.isEnabled(CommandIDs.keepFromEnding)).toBe(true);
    await commands.execute(CommandIDs.keepFromEnding);
    await commands.execute(CommandIDs.keepFromEnding, { kernelId: 'kernel-1', seconds: 60 });
    expect(model.wishes).toEqual([
      ['keep from ending', 3600, null],
      ['keep from ending', 60, 'kernel-1']
    ]);
  });
});

it('reads what the server sends, and a server that sends nothing of it', () => {
  /* An older server knows nothing of culling; a newer one may know more kinds. */
  const said = { ...snapshot(), culling: { warnings: [{ ...warning(5), what: 'pool', can_keep: null }] } };
  const read = asSnapshot({ ...said, type: 'snapshot' }, 'frame').culling;
  expect(read?.warnings[0]?.what).toBe('server');
  expect(read?.warnings[0]?.can_keep).toBe(false);
  expect(read?.kept_until).toBeNull();
  expect(asSnapshot({ ...snapshot(), type: 'snapshot', culling: undefined }, 'frame').culling).toBeNull();
});

it('says less and less often what is left', () => {
  expect([3599, 61, 60, 31, 30, 9, 0].map(seconds => roughlyLeft(seconds, trans))).toEqual([
    '59 minutes left.',
    '1 minute left.',
    'Less than 60 seconds left.',
    'Less than 60 seconds left.',
    'Less than 30 seconds left.',
    'Less than 10 seconds left.',
    'Less than 10 seconds left.'
  ]);
});
