import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';

import { PanelView } from '../panel_view';
import { StatusText } from '../status_item';
import { Snapshot } from '../wire';
import { FakeModel } from './fake_model';
import { SeenActions } from './seen_actions';
import { GB, kernel, message, parkable, parked, reading, trans } from './samples';

const NOW_S = 1_700_000_000;

let model: FakeModel;
let actions: SeenActions;

beforeEach(() => {
  jest.useFakeTimers({ now: NOW_S * 1000 });
  model = new FakeModel();
  actions = new SeenActions();
});

afterEach(() => {
  cleanup();
  jest.useRealTimers();
});

function show(changes: Partial<Snapshot>): void {
  model.say(changes, model.contact);
  render(
    <PanelView
      model={model}
      actions={actions}
      settings={{ showHistory: false, showIdleNotebooks: false }}
      trans={trans}
    />
  );
}

function words(testId: string): string {
  return (screen.getByTestId(testId).textContent ?? '').replace(/\u00a0/g, ' ');
}

function buttons(): string[] {
  return [...document.querySelectorAll('.jp-gpushare-Button')].map(({ textContent }) => textContent ?? '');
}

function pass(seconds: number): void {
  act(() => {
    jest.advanceTimersByTime(seconds * 1000);
  });
}

const HELD = { held: 1, memory: 6.1 * GB };

const COUNTING_DOWN = message(
  'COUNTING_DOWN',
  'Idle for {idle}. Your GPU is handed back in {left}. Nothing is lost: it comes back with your next cell.',
  { idle: '6 min', left: '9:99' }
);

function counting(leftS: number): Partial<Snapshot> {
  const kernels = [parkable({ status: 'counting_down', parks_at: NOW_S + leftS })];
  return { state: COUNTING_DOWN, kernels };
}

describe('a state', () => {
  it.each([
    ['COUNTING_DOWN', 'changing', ['Release', 'Keep for…'], parkable({ status: 'counting_down' })],
    ['ACTIVE', 'mine', ['Release', 'Keep for…'], parkable()],
    ['PARKING', 'changing', ['Details'], parkable({ status: 'parking' })],
    ['PARKED', 'parked', ['Resume', 'Details'], parked()],
    ['WAITING_FOR_ROOM', 'changing', ['Cancel cell', 'Details'], parked({ status: 'waiting', ...HELD })],
    ['RESUMING', 'mine', ['Cancel cell', 'Details'], parked({ status: 'resuming', ...HELD })],
    ['RESUMED', 'mine', ['Release', 'Keep for…'], parkable()],
    ['CANNOT_PARK', 'trouble', ['Release', 'Details'], parkable()],
    ['KEPT', 'kept', ['Release', 'Keep for…'], parkable({ kept_until: NOW_S + 60 })],
    ['BUSY_BUT_QUIET', 'kept', ['Release', 'Keep for…'], parkable()]
  ])('%s has the tone %s and the buttons %p', (code, tone, expected, held) => {
    /* A colour means one thing, and at most two buttons say what can be done, the likely one first. */
    show({ state: message(code, 'This is how it is.'), kernels: [held] });
    expect(screen.getByTestId('gpushare-state').dataset.tone).toBe(tone);
    expect(buttons()).toEqual(expected);
  });

  it('has a shape of its own among those that a person must tell apart', () => {
    /* Never colour alone. */
    const shapes = ['COUNTING_DOWN', 'PARKING', 'PARKED', 'WAITING_FOR_ROOM', 'RESUMED', 'KEPT'].map(code => {
      show({ state: message(code, 'So it is.') });
      const shape = document.querySelector('.jp-gpushare-StateBox-icon')?.innerHTML;
      cleanup();
      return shape;
    });
    expect(new Set(shapes).size).toBe(shapes.length);
  });

  it('says the sentence of the server, with its figures', () => {
    /* One sentence with a true size. */
    const state = message('PARKING', 'Parking {moved} of {memory}. Nothing is lost.', {
      moved: '3.1 GB',
      memory: '7.4 GB'
    });
    show({ state });
    expect(words('gpushare-state')).toBe('Parking 3.1 GB of 7.4 GB. Nothing is lost.');
  });

  it('offers no cell to cancel where none waits', () => {
    /* Who pressed Resume has no cell to lose. */
    show({ state: message('RESUMING', 'Resuming.'), kernels: [parked({ status: 'resuming' })] });
    expect(buttons()).toEqual(['Details']);
  });

  it('offers to resume what is parked while another notebook merely computes without a GPU', () => {
    /* A Release that can give nothing back is no help to who wants their memory. */
    show({
      memory: reading(0),
      kernels: [parked(), kernel({ id: 'cpu', memory: reading(0), busy_since: 1 })]
    });
    expect(buttons()).toEqual(['Resume', 'Details']);
  });

  it('offers to keep only where the server parks by itself', () => {
    /* A button without an effect would be a lie. */
    show({ parking_mode: 'observe', kernels: [parkable()] });
    expect(buttons()).toEqual(['Release']);
  });
});

describe('the buttons', () => {
  it.each([
    ['keep', parkable(), 'HOLDING'],
    ['resume', parked(), 'PARKED'],
    ['details', parked(), 'PARKED'],
    ['cancel', parked({ status: 'waiting', held: 2 }), 'WAITING_FOR_ROOM']
  ])('have %s done', (name, held, code) => {
    /* Each does what it says. */
    show({ state: message(code, 'So it is.'), kernels: [held] });
    fireEvent.click(screen.getByTestId(`gpushare-${name}`));
    expect(actions.seen).toEqual([name]);
  });

  it('count the cells that are cancelled', () => {
    /* Two cells are not one. */
    show({ state: message('RESUMING', 'So it is.'), kernels: [parked({ status: 'waiting', held: 2 })] });
    expect(screen.getByTestId('gpushare-cancel').textContent).toBe('Cancel cells');
  });

  it('say what Release does before it is pressed', () => {
    /* "Nothing is lost" is what makes people press it. */
    show({ state: message('HOLDING', 'Held.'), kernels: [parkable()] });
    expect(words('gpushare-outlook')).toBe('Release parks 6.1 GB in about 2 s. Nothing is lost.');
    expect(screen.getByTestId('gpushare-release').title).toBe(words('gpushare-outlook'));
  });

  it('say that parking waits for a running cell', () => {
    /* Nobody may fear that the cell is broken off. */
    show({ kernels: [parkable({}, { busy_since: 1 })] });
    expect(words('gpushare-outlook')).toBe('Release parks 6.1 GB as soon as no cell runs. Nothing is lost.');
  });

  it('say why parking is refused, and what to do about it', () => {
    /* The answer is there before anything is pressed. */
    const refusal = message('BACKGROUND_WORK', 'A thread called {name} is alive.', { name: 'loader' });
    const remedy = message('END_IT', 'End it, or allow background work.');
    show({ kernels: [parkable({ refusal, remedy })] });
    expect(words('gpushare-outlook')).toBe(
      'train.ipynb cannot be parked: A thread called loader is alive. End it, or allow background work.'
    );
  });

  it('say what is not guaranteed', () => {
    /* A resume that may have to wait is agreed to with open eyes. */
    const caution = message('FOREIGN_PROCESSES', 'Not guaranteed: another program may take the room.');
    show({ kernels: [parkable({ caution })] });
    expect(words('gpushare-outlook')).toContain('Nothing is lost. Not guaranteed: another program');
  });

  it('say nothing more where this server does not park', () => {
    /* Part of the servers will never park: no empty promise there. */
    show({ kernels: [kernel()] });
    expect(screen.queryByTestId('gpushare-outlook')).toBeNull();
  });
});

describe('a countdown', () => {
  it('ticks each second between the frames, and ends at 0:00', () => {
    /* A frozen countdown looks broken, and one that the server rounded is not true. */
    show(counting(250));
    expect(words('gpushare-state')).toContain('handed back in 4:10.');
    pass(1.1);
    expect(words('gpushare-state')).toContain('handed back in 4:09.');
    pass(200);
    expect(words('gpushare-state')).toContain('handed back in 0:49.');
    pass(60);
    expect(words('gpushare-state')).toContain('handed back in 0:00.');
  });

  it('is announced when it begins, at 60 s and at 10 s, and not otherwise', () => {
    /* A screen reader must neither be flooded nor left out. */
    const spoken: string[] = [];
    const listen = (): void => {
      const now = words('gpushare-announcement');
      if (now !== spoken[spoken.length - 1]) {
        spoken.push(now);
      }
    };
    show(counting(90));
    for (let second = 0; second < 95; second++) {
      listen();
      pass(1);
    }
    expect(spoken).toEqual([
      'Idle for 6 min. Your GPU is handed back in 1:30. Nothing is lost: it comes back with your next cell.',
      'Your GPU is handed back in 60 seconds. Nothing is lost.',
      'Your GPU is handed back in 10 seconds. Nothing is lost.'
    ]);
  });

  it('is that of the notebook that goes first', () => {
    /* With two of them the time must not be the later one. */
    const later = parkable({ status: 'counting_down', parks_at: NOW_S + 500 }, { id: 'later' });
    show({ ...counting(65), kernels: [later, ...(counting(65).kernels ?? [])] });
    expect(words('gpushare-state')).toContain('handed back in 1:05.');
  });

  it('stands in the status bar, too', () => {
    /* With the panel closed it is the only warning in sight. */
    model.say(counting(250));
    render(<StatusText model={model} open={jest.fn()} trans={trans} />);
    expect(words('gpushare-status')).toBe('GPU parks in 4:10');
    pass(1.1);
    expect(words('gpushare-status')).toBe('GPU parks in 4:09');
  });
});

describe('what is parked', () => {
  const away = { memory: reading(0), state: message('PARKED', '{memory} safe.', { memory: '7.4 GB' }) };
  const two = [parked(), parked({ memory: 1.3 * GB }, { id: 'b', path: 'b.ipynb' })];

  it('stands in the headline instead of a frightening zero', () => {
    /* "0.0 GB" would read as if everything were gone. */
    show({ ...away, kernels: two });
    expect(words('gpushare-memory')).toBe('Parked');
    expect(words('gpushare-panel')).toContain('Parked 7.4 GB');
  });

  it('stands in its row with its size', () => {
    /* Who looks for their notebook finds it, and that it is safe. */
    show({ ...away, kernels: two });
    const rows = screen.getAllByTestId('gpushare-kernel-row').map(({ textContent }) => textContent ?? '');
    expect(rows[1]).toContain('6.1 GB parked');
    expect(document.querySelector('[data-kind="row"] [data-owner="parked"]')).not.toBeNull();
  });

  it('stands in the status bar, while it is true', () => {
    /* A figure that is no longer live must not look so. */
    model.say({ ...away, kernels: two });
    const { rerender } = render(<StatusText model={model} open={jest.fn()} trans={trans} />);
    expect(words('gpushare-status')).toBe('Parked 7.4 GB');
    model.contact = 'lost';
    rerender(<StatusText model={model} open={jest.fn()} trans={trans} />);
    expect(words('gpushare-status')).toBe('GPU – / 20.0 GB');
  });

  it('is not said of the session while another notebook holds the GPU', () => {
    /* The share is handed back only when nothing of the session is on the device. */
    show({ kernels: [parked(), kernel({ id: 'other' })] });
    expect(words('gpushare-memory')).toBe('7.4 GB');
  });

  it('was worth something to others', () => {
    /* What handing back has won is the reason to do it again. */
    show({ handed_back_s: 11_520 });
    expect(words('gpushare-handed-back')).toBe('Handed back today: 3 h 12 min of GPU time');
    cleanup();
    show({ handed_back_s: 30 });
    expect(screen.queryByTestId('gpushare-handed-back')).toBeNull();
  });
});

describe('a row', () => {
  it.each([
    ['parking', 3.1 * GB, '3.1 of 6.1 GB parking'],
    ['resuming', 3.1 * GB, '3.1 of 6.1 GB resuming'],
    ['parking', null, '6.1 GB parking'],
    ['waiting', null, '6.1 GB parked, waits for room']
  ] as const)('that is %s with %p moved says %p', (status, moved, expected) => {
    /* Progress where it is known, and no invented one. */
    show({ kernels: [parked({ status, moved })] });
    expect(words('gpushare-kernel-row')).toContain(expected);
  });

  it('says which cells wait, that it parks after its cell, and until when it is kept', () => {
    /* What the user has asked for, or waits for, is visible where it belongs. */
    show({ kernels: [parked({ held: 2 })] });
    expect(words('gpushare-row-note')).toBe('2 cells wait');
    cleanup();
    show({ kernels: [parkable({ status: 'asked', kept_until: NOW_S })] });
    expect(words('gpushare-row-note')).toMatch(
      /^parks as soon as its cell has ended · kept until \d\d:\d\d$/
    );
  });

  it('is orange before it is parked', () => {
    /* Orange is about to change, here as everywhere. */
    show(counting(60));
    expect(document.querySelector('[data-kind="row"] [data-owner="changing"]')).not.toBeNull();
  });
});
